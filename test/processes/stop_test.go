package processes

import (
	"strings"
	"testing"
	"time"

	"tandem/internal/jobs"
	"tandem/internal/ollama/ollamatest"
)

// sides are the two kinds of worker. The scenarios of this file are the same for both.
var sides = []jobs.Stage{jobs.RolePrefill, jobs.RoleDecode}

// pair starts the engines and workers of both sides, and returns those of the one that is looked at,
// whose engine takes perToken.
func (s *system) pair(side jobs.Stage, perToken time.Duration) (*process, *ollamatest.Server) {
	s.t.Helper()
	for _, role := range sides {
		if role != side {
			s.worker(role, "other", s.engine(0).URL())
		}
	}
	e := s.engine(perToken)
	return s.worker(side, "first", e.URL()), e
}

// machine is where a stage of the job was done, the name of the machine only.
func machine(r *jobs.Result, side jobs.Stage) string {
	server := r.Servers.Decode
	if side == jobs.RolePrefill {
		server = r.Servers.Prefill
	}
	name, _, _ := strings.Cut(server, "/")
	return name
}

func TestBusyWorkerDrains(t *testing.T) {
	for _, side := range sides {
		t.Run(string(side), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			worker, e := s.pair(side, 20*time.Millisecond)
			running := s.submit(strings.Repeat("x <- mean(df$price) ", 20)) // some seconds of work
			s.running(e)
			worker.terminate()
			worker.says(`"msg":"draining","role":"` + string(side) + `","model":"` + model + `","busy":1`)
			s.worker(side, "second", e.URL())
			next := s.submit("y <- 1")
			worker.exits(0)

			for r, want := range map[*jobs.Result]string{running.result(): "first", next.result(): "second"} {
				if r.Status != jobs.Succeeded || machine(r, side) != want {
					t.Errorf("%s by %s on %+v, want %s on machine %s", r.Status, r.Method, r.Servers, side, want)
				}
				wantAttempts(t, r, 1, 1)
			}
			s.once(2)
		})
	}
}

func TestSecondSignalAborts(t *testing.T) {
	for _, side := range sides {
		t.Run(string(side), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			worker, e := s.pair(side, 0)
			e.Fail(ollamatest.HangMid, 1)
			call := s.submit("x <- mean(df$price)")
			s.running(e)
			s.worker(side, "second", e.URL())

			worker.terminate()
			worker.says(`"msg":"draining"`)
			worker.terminate()
			worker.exits(0)

			r := call.result()
			if r.Status != jobs.Succeeded || machine(r, side) != "second" {
				t.Errorf("%s by %s on %+v", r.Status, r.Method, r.Servers)
			}
			wantAttempts(t, r, 1, 1)
			s.once(1)
		})
	}
}
