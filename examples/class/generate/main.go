package main

import (
	"fmt"
	"os"

	"tandem/examples/class"
)

func main() {
	if err := class.WriteExample(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
