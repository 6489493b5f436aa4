package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/queue"
	"tandem/jobs"
)

const model = "qwen3-coder:30b"

// system is a NATS server of the scenario's own, and what the scenario starts beside it.
type system struct {
	t     *testing.T
	ctx   context.Context
	home  string
	url   string // of the NATS server, also after a restart
	nats  *process
	queue *queue.Conn // to look only: whatever is done is done by a program
	nc    *nats.Conn  // as well
	js    jetstream.JetStream
}

func newSystem(t *testing.T) *system {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	t.Cleanup(cancel)
	s := &system{t: t, ctx: ctx, home: t.TempDir()}
	s.startNATS("0")

	var err error
	if s.queue, err = queue.Connect(ctx, queue.Config{URL: s.url, Name: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.queue.Close)
	if s.nc, err = nats.Connect(s.url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nc.Close)
	if s.js, err = jetstream.New(s.nc); err != nil {
		t.Fatal(err)
	}
	return s
}

// env is the environment of the system's programs: a user of their own, who has set where NATS is. Who
// drains may take longer than a scenario waits. Engines count what they are asked, so workers ask nothing of their own.
func (s *system) env() []string {
	return []string{"HOME=" + s.home, "TANDEM_USER=grader", "TANDEM_NATS=" + s.url, "TANDEM_LOG_FORMAT=json", "TANDEM_DRAIN_LIMIT=5m", "TANDEM_MEASURE=never"}
}

// startNATS starts the NATS server on the scenario's store.
func (s *system) startNATS(port string) {
	s.t.Helper()
	s.nats = start(s.t, s.env(), "submitter", "dev", "--nats-only", "--json", "--port", port, "--store", filepath.Join(s.home, "store"))
	s.nats.await(&s.nats.stdout, "\n")
	var at struct{ NATS string }
	if err := json.Unmarshal([]byte(s.nats.stdout.String()), &at); err != nil {
		s.t.Fatalf("address of NATS: %v", err)
	}
	s.url = at.NATS
}

// restartNATS starts the server, which has ended, on the same port and store.
func (s *system) restartNATS() {
	s.t.Helper()
	at, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.startNATS(at.Port())
}

// worker starts a worker and waits until others see it.
func (s *system) worker(role jobs.Stage, machine, engineURL string) *process {
	s.t.Helper()
	p := start(s.t, s.env(), string(role)+"-worker", "--model", model, "--engine-url", engineURL,
		"--machine", machine, "--http", "127.0.0.1:0", "--num-ctx", "8192")
	s.address(machine)
	return p
}

// address is where a worker serves HTTP, once it is present.
func (s *system) address(machine string) (addr string) {
	s.t.Helper()
	s.eventually(func(ctx context.Context) error {
		list, err := s.queue.Workers(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(w queue.Presence) bool { return w.Machine == machine })
		if i < 0 {
			return fmt.Errorf("worker %s is not present", machine)
		}
		addr = list[i].HTTP
		return nil
	})
	return addr
}

// submitter starts a command of the client.
func (s *system) submitter(args ...string) *process {
	s.t.Helper()
	return start(s.t, s.env(), "submitter", args...)
}

// call runs a command of the client, which must end with this code.
func (s *system) call(code int, args ...string) *process {
	s.t.Helper()
	p := s.submitter(args...)
	p.exits(code)
	return p
}

// submit starts a call that waits for the result of one prompt.
func (s *system) submit(prompt string, more ...string) *process {
	s.t.Helper()
	return s.submitter(slices.Concat([]string{"submit", "--json", "--model", model, "--temperature", "0", "--num-predict", "16"}, more, []string{prompt})...)
}

// result is the one that the call, which must end well, has printed.
func (p *process) result() *jobs.Result {
	p.t.Helper()
	p.exits(0)
	return p.failedResult()
}

// failedResult is the one that the ended call has printed.
func (p *process) failedResult() *jobs.Result {
	p.t.Helper()
	line, rest, _ := strings.Cut(p.stdout.String(), "\n")
	r, err := jobs.Decode[jobs.Result]([]byte(line))
	if err != nil || rest != "" {
		p.t.Fatalf("%s printed no result, or more than one: %v\n%s", p.name, err, p.stdout.String())
	}
	return r
}

// await is the result of a job that was submitted before.
func (s *system) await(job string) *jobs.Result {
	s.t.Helper()
	return s.submitter("await", "--json", "--timeout", limit.String(), job).result()
}

// batchFile writes a file of n jobs and returns its path.
func (s *system) batchFile(n int) string {
	s.t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"custom_id":"notebook-%02d","model":%q,"prompt":"student %d: x <- mean(df$price)","options":{"temperature":0,"num_predict":16}}`+"\n", i, model, i)
	}
	path := filepath.Join(s.home, "jobs.jsonl")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// results reads a batch's folder, in which there must be n results, all of jobs that succeeded.
func (s *system) results(dir string, n int) (list []*jobs.Result) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "notebook-*.json"))
	if err != nil || len(files) != n {
		s.t.Errorf("%d result files, want %d (%v)", len(files), n, err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := jobs.Decode[jobs.Result](data)
		if err != nil {
			s.t.Errorf("%s: %v", file, err)
			continue
		}
		if r.Status != jobs.Succeeded || r.Text == "" || seen[r.JobID] {
			s.t.Errorf("%s: job %s %s with %d bytes of text, seen before: %v", file, r.JobID, r.Status, len(r.Text), seen[r.JobID])
		}
		seen[r.JobID] = true
		list = append(list, r)
	}
	return list
}

// once fails the test unless n jobs were ever accepted, n results were ever stored, and nothing waits.
func (s *system) once(n int) {
	s.t.Helper()
	for _, name := range []string{queue.StreamIntake, queue.StreamResults} {
		if _, ever := s.stored(name); ever != n {
			s.t.Errorf("%s has stored %d records, want %d", name, ever, n)
		}
	}
	s.eventually(func(context.Context) error {
		for _, name := range []string{queue.StreamIntake, queue.StreamRelay} {
			if now, _ := s.stored(name); now > 0 {
				return fmt.Errorf("%d messages are left in %s", now, name)
			}
		}
		return nil
	})
}

// stored is how many messages a stream holds, and how many it has ever accepted.
func (s *system) stored(name string) (now, ever int) {
	s.t.Helper()
	stream, err := s.js.Stream(s.ctx, name)
	if err != nil {
		s.t.Fatal(err)
	}
	state := stream.CachedInfo().State
	return int(state.Msgs), int(state.LastSeq)
}

// publishing begins to count the messages on a subject; what it returns waits for the nth.
func (s *system) publishing(subject string) (nth func(n int)) {
	s.t.Helper()
	sub, err := s.nc.SubscribeSync(subject)
	if err == nil {
		err = s.nc.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func(n int) {
		s.t.Helper()
		for i := range n {
			if _, err := sub.NextMsg(limit); err != nil {
				s.t.Fatalf("%d messages on %s, want %d: %v", i, subject, n, err)
			}
		}
	}
}

// eventually asks until there is no error.
func (s *system) eventually(check func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatal(err)
		}
	}
}

// engine is a fake Ollama, which takes perToken for each token of a prompt and of an answer.
func (s *system) engine(perToken time.Duration) *ollamatest.Server {
	return ollamatest.Start(s.t, ollamatest.Options{Model: model, PerToken: perToken})
}

// running waits until an engine computes.
func (s *system) running(e *ollamatest.Server) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if err := e.WaitRunning(ctx, 1); err != nil {
		s.t.Fatalf("no job came to the engine: %v", err)
	}
}

// called waits until an engine was asked for n texts.
func (s *system) called(e *ollamatest.Server, n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if err := e.WaitCalls(ctx, n); err != nil {
		s.t.Fatalf("the engine was asked %d times, want %d: %v", e.Calls(), n, err)
	}
}
