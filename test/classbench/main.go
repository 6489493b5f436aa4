// Command classbench grades a class of synthetic notebooks through the whole pipeline, each program a process of its own, kills the submitter and a
// worker in the middle, and checks that nothing was lost and nothing graded twice. It prints the table of docs/MEASUREMENTS.md; `make bench-class` runs it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	o := options{work: os.Stderr}
	flag.IntVar(&o.students, "students", 60, "size of the class")
	flag.IntVar(&o.medianKB, "median-kb", 80, "median size of a notebook")
	flag.IntVar(&o.largestKB, "largest-kb", 770, "largest notebook")
	flag.StringVar(&o.bin, "bin", "bin", "folder of the programs")
	flag.StringVar(&o.dir, "dir", "", "where to keep everything (default: a temporary folder, removed)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f, err := Run(ctx, o)
	if f != nil {
		f.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "classbench:", err)
		os.Exit(1)
	}
}

// options are the size of the class, and where the programs are.
type options struct {
	students, medianKB, largestKB int
	bin, dir                      string
	work                          io.Writer // what goes on
}

// figures are what was measured.
type figures struct {
	students, reports, failed, review int
	jobs, results, twice              int // requests, results in the stream, requests that were answered more than once
	killedAfter                       []string
	wall                              time.Duration
	submitterRSS                      int64 // bytes, the largest of all runs
	models                            []prefixFigures
}

// prefixFigures say how often the shared prefix was computed.
type prefixFigures struct {
	Model                    string
	Prompt, Computed, Prefix int // tokens
	Jobs                     int
}

// ratio is what was computed, over the prefix once and every own part.
func (p prefixFigures) ratio() float64 {
	return float64(p.Computed) / float64(p.Prefix+p.Prompt-p.Jobs*p.Prefix)
}

func (f *figures) print(w io.Writer) {
	fmt.Fprintf(w, "submissions %d, reports %d (%d need review, %d failed)\n", f.students, f.reports, f.review, f.failed)
	fmt.Fprintf(w, "requests %d, results %d, answered twice %d\n", f.jobs, f.results, f.twice)
	for _, k := range f.killedAfter {
		fmt.Fprintf(w, "killed: %s\n", k)
	}
	for _, m := range f.models {
		fmt.Fprintf(w, "%s: %d prompt tokens in %d jobs, prefix %d, computed %d by the prefill engine: %.3f × (prefix once + own parts)\n",
			m.Model, m.Prompt, m.Jobs, m.Prefix, m.Computed, m.ratio())
	}
	fmt.Fprintf(w, "submitter: %.0f MB at most\nwhole: %s\n", float64(f.submitterRSS)/1e6, f.wall.Round(time.Second))
}

// Run grades the class, killing what it must survive, and checks the outcome.
func Run(ctx context.Context, o options) (_ *figures, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "classbench-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(o.dir)
	}
	s := &system{options: o, ctx: ctx}
	defer s.stop()
	if err := s.generate(); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	begin := time.Now()
	f := &figures{students: o.students}
	if err := s.gradeAndKill(f); err != nil {
		return nil, err
	}
	f.wall = time.Since(begin)
	return f, s.check(f)
}

// readJSON reads a file.
func readJSON(into any, elem ...string) error {
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
