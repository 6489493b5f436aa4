// Command generate writes the example batch to the file named by its argument.
package main

import (
	"bytes"
	"fmt"
	"os"

	"tandem/examples/batch"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the file to write; got %d", len(args))
	}
	var jobs bytes.Buffer
	if err := batch.Write(&jobs); err != nil {
		return err
	}
	return os.WriteFile(args[0], jobs.Bytes(), 0o644)
}
