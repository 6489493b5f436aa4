package grader

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/check"
	"tandem/internal/grader/intake"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

const (
	maxReaders = 4   // notebooks in memory at the same time, at most
	hardlyAny  = 0.2 // overlap of variables below which a notebook and the solution are probably not of one assignment
	maxCut     = 0.2 // share of a student's part that may be missing from a prompt without a person having to look
)

// submission is one student's, as far as it must be kept: the notebook itself is read again when a prompt is made of it.
type submission struct {
	file     *intake.Submission
	problem  error // why it cannot be graded
	layer1   *check.Findings
	layer2   *outputs.Findings
	flags    []ask.Flag
	dropped  notebook.Dropped
	reasons  []string        // why a person must look, whatever the models say
	requests []*request      // code, then feedback; none if it cannot be graded, or nothing is asked
	record   *report.Student // once it is written
}

// settled reports whether nothing is to be waited for.
func (s *submission) settled() bool {
	return !slices.ContainsFunc(s.requests, func(q *request) bool { return !q.settled() })
}

// held reports whether this run does not ask all that is to be asked.
func (s *submission) held() bool {
	return slices.ContainsFunc(s.requests, func(q *request) bool { return q.held })
}

// examineAll makes the checks of all submissions, several at a time.
func (g *Grading) examineAll(ctx context.Context) error {
	todo := make(chan *submission)
	g.masks = ask.NewMasks(ask.Assignment{Rubric: g.a.Rubric, Solution: g.a.solution, Template: g.a.template})
	var readers sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range min(maxReaders, runtime.NumCPU()) {
		readers.Go(func() {
			for s := range todo {
				if err := g.examine(s); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	for _, s := range g.submissions {
		if ctx.Err() != nil {
			break
		}
		todo <- s
	}
	close(todo)
	readers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed
}

// guarded makes a panic an error: one notebook that a bug of ours stumbles over must not keep the class from being graded. What the panic says is not told, since it may hold text of the notebook.
func guarded(read func()) (err error) {
	defer func() {
		if recover() != nil {
			err = jobs.Errorf(jobs.CodePanic, "this program failed while it read the notebook, which is a bug of ours: grade this one by hand, and report it, with the notebook if you may")
		}
	}()
	read()
	return nil
}

// examine makes the checks of layers 1 and 2 and measures the prompts. What is wrong with the notebook is the submission's problem, an error is everybody's.
func (g *Grading) examine(s *submission) error {
	if s.problem = s.file.Problem; s.problem != nil {
		return nil
	}
	nb, err := g.read(s)
	if err != nil {
		s.problem = err
		return nil
	}
	if s.problem = guarded(func() {
		mask := g.masks.Of(nb, g.names(s))
		hideMessages(nb, mask)
		s.layer1 = check.Run(nb, g.a.template, g.a.Rubric)
		s.layer2 = outputs.Compare(nb, g.a.solution, g.a.template, g.a.Rubric)
		s.flags = ask.Flags(nb, mask)
		s.hideNames(mask)
	}); s.problem != nil {
		return nil
	}
	s.dropped = nb.Dropped
	s.reasons = g.oddities(s, nb)
	if g.o.WithoutAsk {
		return nil
	}
	for _, judge := range judges {
		p, err := g.prompt(s, nb, judge)
		if err != nil {
			return err
		}
		q, err := g.newRequest(s, p)
		if err != nil {
			return err
		}
		s.requests = append(s.requests, q)
		if missing := float64(p.Cut) / float64(max(1, p.Cut+len(p.Own))); missing > maxCut {
			s.reasons = append(s.reasons, fmt.Sprintf("the %s model was not shown %.0f %% of the notebook, which is longer than its context", judge, 100*missing))
		}
	}
	return nil
}

// read reads the notebook, which must be the one that was collected.
func (g *Grading) read(s *submission) (*notebook.Notebook, error) {
	data, err := s.file.Read()
	if err != nil {
		return nil, err
	}
	if hash(data) != s.file.SHA256 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "the notebook of %s was changed while it was being graded; grade it once more when nobody writes to it", s.file.ID)
	}
	return notebook.Read(data, notebook.Limits{})
}

// names are what the roster knows of a student, as it may stand in the notebook.
func (g *Grading) names(s *submission) []string {
	who, _ := g.roster.Student(s.file.ID)
	return slices.DeleteFunc([]string{who.Name, who.LMSID}, func(name string) bool { return name == "" })
}

// hideMessages takes the student's names out of what findings quote of a notebook and do not compare, before they shorten it: half a name is not known.
func hideMessages(nb *notebook.Notebook, mask func(string) string) {
	nb.Kernel = mask(nb.Kernel)
	for i := range nb.Cells {
		for j := range nb.Cells[i].Outputs {
			o := &nb.Cells[i].Outputs[j]
			o.ErrorName, o.ErrorValue = mask(o.ErrorName), mask(o.ErrorValue)
		}
	}
}

// hideNames takes them out of all else that findings quote, since reports bear pseudonyms.
func (s *submission) hideNames(mask func(string) string) {
	for i := range s.layer2.Comparisons {
		c := &s.layer2.Comparisons[i]
		c.Note = mask(c.Note)
		for j := range c.Differences {
			d := &c.Differences[j]
			d.Where, d.Got = mask(d.Where), mask(d.Got)
		}
	}
}

// prompt makes a request's text.
func (g *Grading) prompt(s *submission, nb *notebook.Notebook, judge rubric.Judge) (*ask.Prompt, error) {
	p, err := g.builder.Prompt(judge, ask.Subject{Notebook: nb, Layer1: s.layer1, Layer2: s.layer2, Mask: g.names(s)})
	if err != nil {
		return nil, fmt.Errorf("make the %s prompt about %s: %w", judge, s.file.ID, err)
	}
	return p, nil
}

// inputs are the hashes of what the submission's grade rests on.
func (g *Grading) inputs(s *submission) report.Inputs {
	return report.Inputs{
		Notebook: s.file.SHA256, Rubric: g.a.Rubric.SHA256, Solution: g.a.solutionSHA256, Template: g.a.templateSHA256, Prompts: g.prompts,
	}
}

// oddities are what a person must look at in a notebook.
func (g *Grading) oddities(s *submission, nb *notebook.Notebook) []string {
	var list []string
	if len(s.flags) > 0 {
		list = append(list, fmt.Sprintf("the notebook holds what reads like an instruction to the grader (%s), so the models' judgements do not count", flagged(s.flags)))
	}
	blank := !slices.ContainsFunc(nb.Cells, func(c notebook.Cell) bool { return strings.TrimSpace(c.Source) != "" })
	switch {
	case blank:
		return append(list, "the notebook holds nothing")
	case s.layer1.CodeCells > 0 && s.layer1.RunCells == 0:
		list = append(list, "the notebook was never run, or its outputs were cleared: there are none to compare")
	}
	if len(s.layer1.Items)+len(s.layer1.Sections)+s.layer2.Compared == 0 {
		list = append(list, "the rubric names nothing to check, and the solution shows nothing to compare: a person gives the points")
	}
	if nb.Language == notebook.Other {
		list = append(list, fmt.Sprintf("the notebook's language is %q; only R and Python are read, so its code was taken for text", nb.Kernel))
	}
	if len(g.a.assigned) > 0 && s.layer2.Overlap < hardlyAny {
		list = append(list, fmt.Sprintf("the notebook has hardly anything in common with the solution: it assigns %.0f %% of its variables", 100*s.layer2.Overlap))
	}
	return list
}

// flagged names the cells, each once.
func flagged(flags []ask.Flag) string {
	var cells []string
	for _, f := range flags {
		if f.Cell == 0 {
			return "its metadata"
		}
		if n := strconv.Itoa(f.Cell); !slices.Contains(cells, n) {
			cells = append(cells, n)
		}
	}
	if len(cells) == 1 {
		return "cell " + cells[0]
	}
	return "cells " + strings.Join(cells, ", ")
}
