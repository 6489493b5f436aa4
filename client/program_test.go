package client_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/client"
	"tandem/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program in docs/CLIENT.md, in a module of its own, does what the page says.
func TestProgramOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/CLIENT.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if code == nil {
		t.Fatal("docs/CLIENT.md has no program")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"main.go": code[1], "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	words := make(chan struct{}, 3) // for the first job, and none for the second
	for range cap(words) {
		words <- struct{}{}
	}
	system := startEcho(words)
	defer system.stop()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "TANDEM_NATS="+system.url)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.String())
		}
		return string(out)
	}
	run("go", "mod", "init", "grade")
	run("go", "mod", "edit", "-require", "tandem@v0.0.0", "-replace", "tandem="+root)
	run("go", "build", "-o", "grade", ".")
	if got, want := run("./grade", echoModel), "Say three words.\n <nil> cancelled <nil>\n"; got != want {
		t.Errorf("the program prints %q, want %q", got, want)
	}
}

// Whoever imports the client gets neither a server, nor engines, nor a command line; of OpenTelemetry the API alone.
func TestClientIsLight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "tandem/client", "tandem/client/admin").Output()
	if err != nil {
		t.Fatal(err)
	}
	heavy := regexp.MustCompile(`^(github\.com/nats-io/(nats-server|jsm\.go)|github\.com/alecthomas/kong|go\.opentelemetry\.io/(otel/sdk|otel/exporters|proto)|google\.golang\.org|tandem/internal/(app|natsembed|natscontext|engine|ollama|llamacpp|slots|gguf|shim|pipeline|handover|grader|telemetry))\b`)
	for pkg := range strings.Lines(string(out)) {
		if heavy.MatchString(pkg) {
			t.Errorf("the client brings %s along", strings.TrimSpace(pkg))
		}
	}
}

// 2,000 calls that wait at once take less than 100 MB.
func TestManyWaitsAreSmall(t *testing.T) {
	const n = 2000
	hold := make(chan struct{})
	system := startEcho(hold)
	defer system.stop()
	c, err := client.Dial(t.Context(), client.Options{URL: system.url, User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list := make([]*jobs.Job, n)
	for i := range list {
		list[i] = &jobs.Job{Model: echoModel, Prompt: "hello", Class: jobs.Batch}
		if err := c.Submit(t.Context(), list[i]); err != nil {
			t.Fatal(err)
		}
	}
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before, most := inUse(), int64(0)
	var waits sync.WaitGroup
	for _, j := range list {
		waits.Go(func() {
			if r, err := c.Await(t.Context(), j.ID); err != nil || r.JobID != j.ID {
				t.Errorf("job %s: %v", j.ID, err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		waits.Wait()
		close(done)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		select {
		case <-tick.C:
			most = max(most, inUse()-before)
			if looks == 20 { // all wait by then; if not, they are measured later
				close(hold)
			}
			continue
		case <-done:
		}
		break
	}
	if most > 100<<20 {
		t.Errorf("%d waits take %d MB, want at most 100", n, most>>20)
	}
	t.Logf("%d waits take %d MB", n, most>>20)
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    client.Options
		code jobs.Code
		want string
	}{
		{"nobody there", client.Options{URL: "nats://127.0.0.1:1"}, jobs.CodeNATS, "cannot be reached"},
		{"no address", client.Options{URL: "nats://u:p/w@h"}, jobs.CodeInvalid, "is no address"},
		{"no key file", client.Options{NKey: "missing.nk"}, jobs.CodeInvalid, "missing.nk"},
		{"no such user", client.Options{User: "a\nb"}, jobs.CodeInvalid, "user"},
	} {
		c, err := client.Dial(context.Background(), tt.o)
		if err == nil {
			c.Close()
		}
		if jobs.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want code %s and %q", tt.name, err, tt.code, tt.want)
		}
	}
}
