package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"tandem/internal/grader/report"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
)

// gradeLimit is how long the class may take: what an instructor was promised.
const gradeLimit = 40 * time.Minute

// grading is a running `submitter grade`.
type grading struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// grade starts to grade the class, by the plan under which one engine computes the prefix: with auto each machine does.
func (s *system) grade(more ...string) (*grading, error) {
	class := s.path("class")
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.bin, "submitter"), append([]string{"--nats", s.nats, "--user", user, "grade", filepath.Join(class, "submissions"),
		"--rubric", filepath.Join(class, "rubric.json"), "--solution", filepath.Join(class, "solution.ipynb"), "--template", filepath.Join(class, "template.ipynb"),
		"--out", s.path("grades"), "--plan", "disaggregated"}, more...)...)
	cmd.Stderr = s.work
	g := &grading{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the program
		defer close(g.done)
		g.err = cmd.Wait()
	}()
	return g, nil
}

const user = "classbench"

// rss is the most memory that the ended program had, in bytes.
func (g *grading) rss() int64 {
	return g.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// gradeAndKill grades the class to the end, killing the submitter after a third of the answers and a decode worker after two thirds.
func (s *system) gradeAndKill(f *figures) error {
	g, err := s.grade()
	if err != nil {
		return err
	}
	all := 2 * s.students
	if err := s.answered(g, all/3); err != nil {
		return err
	}
	f.killedAfter = append(f.killedAfter, fmt.Sprintf("the submitter after %d answers", s.answers()))
	if err := g.cmd.Process.Kill(); err != nil {
		return err
	}
	<-g.done
	f.submitterRSS = g.rss()
	if g, err = s.grade("--resume"); err != nil {
		return err
	}
	if err := s.answered(g, 2*all/3); err != nil {
		return err
	}
	lost := workerKey(protocol.RoleDecode, standin.FeedbackModel)
	f.killedAfter = append(f.killedAfter, fmt.Sprintf("the %s after %d answers", lost, s.answers()))
	s.workers[lost].Kill()
	if err := s.startWorker(protocol.RoleDecode, standin.FeedbackModel); err != nil { // as a service manager does
		return err
	}
	select {
	case <-g.done:
	case <-time.After(gradeLimit):
		_ = g.cmd.Process.Kill() // it is late anyhow
		<-g.done
		return fmt.Errorf("the class is not graded after %s", gradeLimit)
	}
	f.submitterRSS = max(f.submitterRSS, g.rss())
	if exit, ok := errors.AsType[*exec.ExitError](g.err); g.err != nil && !(ok && exit.ExitCode() == 3) {
		return fmt.Errorf("submitter grade: %w", g.err)
	}
	return nil
}

// answered waits until so many answers are on the disk.
func (s *system) answered(g *grading, n int) error {
	return s.until(gradeLimit, fmt.Sprintf("%d answers", n), func() (bool, error) {
		select {
		case <-g.done:
			return false, fmt.Errorf("submitter grade ended after %d answers: %w", s.answers(), g.err)
		default:
			return s.answers() >= n, nil
		}
	})
}

func (s *system) answers() int {
	list, err := os.ReadDir(s.path("grades", "answers"))
	if err != nil {
		return 0 // not there yet
	}
	return len(list)
}

// check fills the figures from what was written, and says what is wrong with them.
func (s *system) check(f *figures) error {
	var class report.Class
	if err := readJSON(&class, s.path("grades", "summary.json")); err != nil {
		return err
	}
	f.review, f.failed = class.Review, class.Failed
	least := map[string]int{} // tokens found in the cache
	for _, row := range class.Students {
		var student report.Student
		if err := readJSON(&student, s.path("grades", "reports", row.ID+".json")); err != nil {
			return err
		}
		f.reports++
		for _, part := range []*report.Part{student.Code, student.Feedback} {
			if part == nil {
				continue
			}
			f.jobs += part.Asked
			if c := part.Usage.PrefillCached; c > 0 {
				if l, seen := least[part.Model]; !seen || c < l {
					least[part.Model] = c
				}
			}
		}
	}
	ids, err := queue.NewClient(s.queue, user).BatchJobs(s.ctx, class.Batch)
	if err != nil {
		return err
	}
	f.results = len(ids)
	f.twice = f.results - f.jobs
	for _, p := range class.Prefix {
		f.models = append(f.models, prefixFigures{Model: p.Model, Prompt: p.Tokens, Computed: p.Computed, Prefix: least[p.Model], Jobs: p.Jobs})
	}
	return f.verdict()
}

const (
	mostRSS   = 150e6 // bytes of the submitter
	mostRatio = 1.15  // of the prefix once and every own part
)

// verdict lists every promise that was not kept.
func (f *figures) verdict() error {
	var errs []error
	wrong := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(f.reports != f.students, "%d reports of %d submissions", f.reports, f.students)
	wrong(f.twice != 0, "%d results for %d requests", f.results, f.jobs)
	wrong(f.submitterRSS > mostRSS, "the submitter took %d bytes", f.submitterRSS)
	wrong(len(f.models) != 2, "%d models were asked", len(f.models))
	for _, m := range f.models {
		wrong(math.IsNaN(m.ratio()) || m.ratio() > mostRatio || m.Prefix == 0, "%s computed %.3f × what it had to", m.Model, m.ratio())
	}
	return errors.Join(errs...)
}
