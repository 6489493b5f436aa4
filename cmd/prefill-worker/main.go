// Command prefill-worker is the service beside the engine of a prefill machine.
package main

import (
	"os"

	"tandem/internal/app"
)

func main() {
	os.Exit(app.PrefillWorkerMain(os.Args[1:], os.Stdout, os.Stderr))
}
