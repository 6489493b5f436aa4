// Command gateway is the front door for programs that speak Ollama's or OpenAI's API.
package main

import (
	"os"

	"tandem/internal/app"
)

func main() {
	os.Exit(app.GatewayMain(os.Args[1:], os.Stdout, os.Stderr))
}
