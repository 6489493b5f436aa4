// Command submitter sends prompts to Tandem and collects the results.
package main

import (
	"context"
	"os"

	"tandem/internal/app/submitter"
)

func main() {
	os.Exit(submitter.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
