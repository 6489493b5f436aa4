// Command llama-server-shim is what an Ollama starts in llama-server's place, so that the KV cache inside it can be
// handed over.
package main

import (
	"fmt"
	"os"

	"tandem/internal/shim/program"
)

func main() {
	err := program.Run(os.Args, os.Environ(), os.Stderr)
	fmt.Fprintf(os.Stderr, "llama-server-shim: %v\n", err)
	os.Exit(1)
}
