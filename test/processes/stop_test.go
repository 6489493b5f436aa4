package processes

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// sides are the two kinds of worker. The scenarios of this file are the same for both.
var sides = []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode}

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
	if side == protocol.RolePrefill {
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

// What came over HTTP, past the queue, is drained and aborted like any other work.
func TestHTTPCallOfAWorkerThatStops(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	e := s.engine(20 * time.Millisecond)
	generate := func(machine string) <-chan string {
		body := strings.NewReader(`{"prompt": "` + strings.Repeat("x <- mean(df$price) ", 10) + `", "max_tokens": 8}`)
		request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://"+s.address(machine)+"/generate", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		answer := make(chan string, 1)
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body) // a cut off answer is no answer
			answer <- string(text)
		}()
		s.running(e)
		return answer
	}

	drained := s.worker(protocol.RoleDecode, "drained", e.URL())
	answer := generate("drained")
	drained.terminate()
	if text := <-answer; !strings.Contains(text, `"response"`) {
		t.Errorf("the call of a worker that drains ended with %q", text)
	}
	drained.exits(0)

	aborted := s.worker(protocol.RoleDecode, "aborted", e.URL())
	e.Fail(ollamatest.HangMid, 1)
	answer = generate("aborted")
	aborted.terminate()
	aborted.says(`"msg":"draining"`)
	aborted.terminate()
	if text := <-answer; strings.Contains(text, `"response"`) {
		t.Errorf("the call of a worker that was aborted ended with %q", text)
	}
	aborted.exits(0)
}
