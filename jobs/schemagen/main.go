// Command schemagen writes the JSON schemas of the records that package jobs defines into the folder
// that is its argument. `go generate ./jobs` runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the folder to write to; have %d", len(args))
	}
	files, err := schemas("..")
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(args[0], name), data, 0o644); err != nil {
			return fmt.Errorf("write schema: %w", err)
		}
	}
	return nil
}
