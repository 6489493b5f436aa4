package rig

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"tandem/test/rig/history"
)

// How the histories of recoveries name things.
const (
	enginePrefix = "engine-"      // and the name of the worker beside it
	endedNote    = "ended, exit " // and the exit status: a worker that was told to end has
	firstSignal  = "drain: in the engine call"
	secondSignal = "drain: second signal"
)

// story is a history in which times are looked up. The times between events are all that is read: they are of one monotonic clock.
type story []history.Event

// next is the position of the first event after another that is so.
func (s story) next(after int, is func(history.Event) bool) (int, bool) {
	for i := after + 1; i < len(s); i++ {
		if is(s[i]) {
			return i, true
		}
	}
	return 0, false
}

// took is the time between two events.
func (s story) took(from, to int) time.Duration { return s[to].At - s[from].At }

// held is the job that the worker which a fault struck was at: its engine computed for it, and nothing had come of it yet.
func (s story) held(fault int) (job string, err error) {
	victim := s[fault].Process
	for _, e := range s[:fault] {
		switch {
		case e.Kind == history.Called && e.Process == enginePrefix+victim:
			job = e.Job
		case e.Process == victim && e.Job == job && (e.Kind == history.Published || e.Kind == history.Acked):
			job = ""
		}
	}
	if job == "" {
		return "", fmt.Errorf("%s was not in an engine call when it was struck", victim)
	}
	return job, nil
}

// elsewhere is the time from a fault of a worker until the engine call for its job begins at another: it was delivered to that one before.
func (s story) elsewhere(fault int) (took time.Duration, found bool, err error) {
	job, err := s.held(fault)
	if err != nil {
		return 0, false, err
	}
	delivered := map[string]bool{} // to whom
	at, found := s.next(fault, func(e history.Event) bool {
		if e.Kind == history.Delivered && e.Job == job && e.Process != s[fault].Process {
			delivered[enginePrefix+e.Process] = true
		}
		return e.Kind == history.Called && e.Job == job && delivered[e.Process]
	})
	if !found {
		return 0, false, nil
	}
	return s.took(fault, at), true, nil
}

// takenOver is the time from a fault of the last prefill worker until the decode side begins an engine call for a job that had waited in the intake,
// and that no prefill engine was asked for.
func (s story) takenOver(fault int) (took time.Duration, found bool) {
	waiting := map[string]bool{}
	for _, e := range s[:fault] {
		if e.Kind == history.Accepted {
			waiting[e.Job] = true
		}
	}
	for i, e := range s {
		if i < fault && e.Kind == history.Delivered || strings.HasPrefix(e.Process, enginePrefix+"prefill") {
			delete(waiting, e.Job)
		}
	}
	at, found := s.next(fault, func(e history.Event) bool {
		return e.Kind == history.Called && waiting[e.Job] && strings.HasPrefix(e.Process, enginePrefix+"decode")
	})
	if !found {
		return 0, false
	}
	return s.took(fault, at), true
}

// accepted is the time from a fault until a job is accepted that was submitted after it.
func (s story) accepted(fault int) (took time.Duration, found bool) {
	submitted := map[string]bool{}
	at, found := s.next(fault, func(e history.Event) bool {
		if e.Kind == history.Submitted {
			submitted[e.Job] = true
		}
		return e.Kind == history.Accepted && submitted[e.Job]
	})
	if !found {
		return 0, false
	}
	return s.took(fault, at), true
}

// done is the time from a fault until a result is stored that was published when the fault had happened, which is after down.
func (s story) done(fault, down int) (took time.Duration, found bool) {
	published := map[string]bool{}
	at, found := s.next(down, func(e history.Event) bool {
		if e.Kind == history.Published && e.Record != nil {
			published[e.Job] = true
		}
		return e.Kind == history.Stored && e.Stream == "RESULTS" && published[e.Job]
	})
	if !found {
		return 0, false
	}
	return s.took(fault, at), true
}

// drained is how long after a signal the worker's call had come to its end, by the result that it stored, and how long after that the worker had ended.
func (s story) drained(signal int) (call, rest time.Duration, err error) {
	victim := s[signal].Process
	job, err := s.held(signal)
	if err != nil {
		return 0, 0, err
	}
	stored, found := s.next(signal, func(e history.Event) bool {
		return e.Kind == history.Stored && e.Process == victim && e.Job == job && e.Stream == "RESULTS"
	})
	if !found {
		return 0, 0, fmt.Errorf("%s was told to end, and stored no result of the job that it was at", victim)
	}
	ended, err := s.ended(signal)
	if err != nil {
		return 0, 0, err
	}
	return s.took(signal, stored), s.took(stored, ended), nil
}

// ended is the position at which a worker that was told to end has ended by itself, with status 0.
func (s story) ended(signal int) (int, error) {
	victim := s[signal].Process
	at, found := s.next(signal, func(e history.Event) bool {
		return e.Kind == history.Healed && e.Process == victim && strings.HasPrefix(e.Note, endedNote)
	})
	switch {
	case !found:
		return 0, fmt.Errorf("%s was told to end, and does not", victim)
	case s[at].Note != endedNote+"0":
		return 0, fmt.Errorf("%s was told to end, and %s", victim, s[at].Note)
	}
	return at, nil
}

// miscounted is an error unless a job succeeded at the first attempt of decode, as its result says.
func (s story) miscounted(job string) error {
	for _, e := range s {
		if e.Kind != history.Told || e.Job != job {
			continue
		}
		var r struct {
			Status   string
			Attempts struct{ Decode int }
		}
		if err := json.Unmarshal(e.Record, &r); err != nil {
			return fmt.Errorf("read result of job %s: %w", job, err)
		}
		if r.Status != "succeeded" || r.Attempts.Decode != 1 {
			return fmt.Errorf("job %s, whose worker was told to end, is %s after %d attempts of decode; want 1", job, r.Status, r.Attempts.Decode)
		}
		return nil
	}
	return fmt.Errorf("nobody was told of job %s", job)
}
