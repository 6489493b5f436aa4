// Command generate writes the example class, or a class of any size made of it:
//
//	go run ./examples/class/generate --example examples/class
//	go run ./examples/class/generate --students 60 --seed 7 --out DIR
//
// Of the latter it prints the sizes. The same flags write the same files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"tandem/examples/class"
	"tandem/examples/class/ipynb"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	example := flags.String("example", "", "`folder` to write the example class of eight into")
	out := flags.String("out", "", "`folder` to write a larger class into; its submissions must not be there yet")
	students := flags.Int("students", 60, "how many")
	seed := flags.Uint64("seed", 1, "of all that is left to chance")
	median := flags.Int("median-kb", 80, "median size of the files, in kB")
	largest := flags.Int("largest-kb", 770, "largest size of the files")
	source := flags.Int("source-kb", 17, "median size of the text in the cells")
	largestSource := flags.Int("largest-source-kb", 76, "largest size of the text in the cells")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q is no flag", flags.Arg(0))
	case (*example == "") == (*out == ""):
		return errors.New("want either --example or --out")
	case *example != "":
		return class.WriteExample(*example)
	case *students < 1 || *students > 9999:
		return fmt.Errorf("--students is %d, want 1 to 9999", *students)
	case *median < 1 || *median > *largest || *source < 1 || *source > *largestSource:
		return errors.New("a median is at least 1 and at most as large as the largest")
	}
	submissions := filepath.Join(*out, "submissions")
	if _, err := os.Stat(submissions); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another folder", submissions)
	}

	const kB = 1000
	crowd := class.Crowd{Students: *students, Seed: *seed, Median: *median * kB, Largest: *largest * kB, Source: *source * kB, LargestSource: *largestSource * kB}
	var files, texts []int
	python := 0
	err := class.WriteCrowd(*out, crowd, func(m class.Member, size int) {
		files, texts = append(files, size), append(texts, m.Source)
		if m.Kernel == ipynb.Python {
			python++
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d notebooks in %s, %d in R and %d in Python\n", *students, submissions, *students-python, python)
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kB\tsmallest\tmedian\tlargest\tall\t")
	printRow(table, "file", files)
	printRow(table, "text in cells", texts)
	return table.Flush()
}

func printRow(w io.Writer, name string, sizes []int) {
	slices.Sort(sizes)
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	kB := func(n int) float64 { return float64(n) / 1000 }
	fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, kB(sizes[0]), kB(sizes[len(sizes)/2]), kB(sizes[len(sizes)-1]), kB(sum))
}
