// Command decode-worker is the service beside the engine of a decode machine.
package main

import (
	"os"

	"tandem/internal/app"
)

func main() {
	os.Exit(app.DecodeWorkerMain(os.Args[1:], os.Stdout, os.Stderr))
}
