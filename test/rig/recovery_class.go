package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem/test/rig/history"
)

// What a kill in the middle of a class costs: a class by plan auto on two machines, once undisturbed and once with a worker killed, and started again at
// once, when a third of its jobs have ended.

const (
	classJobs   = 24
	classWords  = 800 // of a prompt: about 1,000 of the paced engine's tokens
	classAnswer = 60  // tokens
)

// classFleet is a machine with more compute and one with more bandwidth.
const classFleet = `{
  "about": "two machines for a class of prompts of 1,000 tokens, answers of 60", "model": %q, "bytes_per_token": 1000, "link_bytes_per_second": 1e9,
  "machines": [
    {"name": "prefill", "role": "prefill", "slots": 1, "prefill_seconds": [{"tokens": 1000, "value": 0.5}], "decode_tokens_per_second": [{"tokens": 0, "value": 30}],
     "save_bytes_per_second": 1e9, "restore_bytes_per_second": 1e9},
    {"name": "decode", "role": "decode", "slots": 1, "prefill_seconds": [{"tokens": 1000, "value": 1.5}], "decode_tokens_per_second": [{"tokens": 0, "value": 45}],
     "save_bytes_per_second": 1e9, "restore_bytes_per_second": 1e9}
  ]
}`

// writeFleet writes the file of the fleet, and returns its path.
func writeFleet(dir, model string) (string, error) {
	file, err := filepath.Abs(filepath.Join(dir, "fleet.json"))
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, fmt.Appendf(nil, classFleet, model), 0o600))
	}
	if err != nil {
		return "", fmt.Errorf("write fleet: %w", err)
	}
	return file, nil
}

// classRows are what a round of [classStruck] takes.
func classRows(role string) []Recovery {
	return []Recovery{
		{What: fmt.Sprintf("class of %d by plan auto, undisturbed", classJobs)},
		{What: fmt.Sprintf("  with the %s worker killed in its middle, and started again", role)},
		{What: "  the longest time of a job on one machine"},
		{What: "  by how much more than that the class took longer", Goal: goalElsewhere},
	}
}

// classStruck runs a class twice, the second time with a kill; and in the first round once before, for the workers to learn how fast their engines are.
func classStruck(role string) round {
	return func(ctx context.Context, s *site) ([]time.Duration, error) {
		var calm, longest time.Duration
		runs := 1
		if s.jobs == 0 {
			runs = 2
		}
		for range runs {
			var err error
			calm, longest, err = s.class(func(int) error { return nil })
			if err == nil {
				err = s.rest()
			}
			if err != nil {
				return nil, err
			}
		}
		u, err := s.unit(role + "-a1")
		if err != nil {
			return nil, err
		}
		struck, _, err := s.class(func(from int) error {
			err := s.await("a third of the class, and a job at the "+role+" worker", func(all story) (bool, error) {
				_, err := all.working(u.name)
				return len(all.results(from)) >= classJobs/3 && err == nil, nil
			})
			if err == nil {
				s.fault(u.name, Kill+": in mid class")
				u.current().Kill()
			}
			return err
		})
		return []time.Duration{calm, struck, longest, max(0, struck-calm-longest)}, err
	}
}

// class submits a class, does something to it, waits for its end, and returns how long it took from the first submit to the last result, and the longest
// time of a job on one machine.
func (s *site) class(do func(from int) error) (took, longest time.Duration, err error) {
	from := len(s.Log.Events())
	b := Batch{Name: fmt.Sprintf("class-%d", s.jobs)}
	for range classJobs {
		j := Job{Marker: fmt.Sprintf("rig-0-%d", s.jobs), Model: s.Models[0], Plan: "auto", Tokens: classAnswer, Temperature: 0.7, Seed: int64(s.jobs)}
		j.Prompt = fmt.Sprintf("%s answer:%d", prompt(rand.New(rand.NewPCG(uint64(s.jobs), 3)), j.Marker, classWords), classAnswer)
		b.Jobs = append(b.Jobs, j)
		s.jobs++
	}
	s.begin(b)
	if err := do(from); err != nil {
		return 0, 0, err
	}
	s.callers.Wait()
	all := story(s.Log.Events())
	first, _ := all.next(from-1, func(e history.Event) bool { return e.Kind == history.Submitted })
	ends := all.results(from)
	if len(ends) != classJobs {
		return 0, 0, fmt.Errorf("%d results of a class of %d", len(ends), classJobs)
	}
	return all.took(first, ends[len(ends)-1]), all.longest(from), nil
}

// results are the positions from which on each result is stored, from a position on.
func (s story) results(from int) (at []int) {
	for i, e := range s[from:] {
		if e.Kind == history.Stored && e.Stream == "RESULTS" && !e.Again {
			at = append(at, from+i)
		}
	}
	return at
}

// working is the job that a worker's engine computes for; it is an error if there is none.
func (s story) working(worker string) (job string, err error) {
	return append(s[:len(s):len(s)], history.Event{Process: worker}).held(len(s))
}

// longest is the longest time from the call of an engine for a job until its worker publishes what came of it.
func (s story) longest(from int) (longest time.Duration) {
	begun := map[string]time.Duration{} // by worker and job
	for _, e := range s[from:] {
		switch worker := strings.TrimPrefix(e.Process, enginePrefix); e.Kind {
		case history.Called:
			if _, known := begun[worker+" "+e.Job]; !known {
				begun[worker+" "+e.Job] = e.At
			}
		case history.Published:
			if at, known := begun[worker+" "+e.Job]; known {
				longest = max(longest, e.At-at)
			}
		}
	}
	return longest
}
