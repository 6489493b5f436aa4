package slots

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tandem/internal/engine"
	"tandem/internal/gguf"
	"tandem/internal/standin/standintest"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a llama-server with folders of its own.
type machine struct {
	*Server
	config  Config
	process *supervisor.Process
}

// setup is how a machine is to be.
type setup struct {
	spec     tinymodel.Spec // Tiny with BPE if it is empty
	slots    int            // 1 if 0
	shared   bool
	flags    []string // further ones, of which later ones count
	noFolder bool     // the server is not told where to save slots
	program  string   // another llama-server
	env      []string // of it, beside ours
	limit    int      // of the size of files that the server may write, in kilobytes; 0: none
}

// start starts a real llama-server and connects to it.
func start(t testing.TB, s setup) *machine {
	t.Helper()
	if s.spec == (tinymodel.Spec{}) {
		s.spec = tinymodel.Tiny(tinymodel.BPE)
	}
	s.slots = max(s.slots, 1)
	file := standintest.ModelFile(t, s.spec)
	header, err := gguf.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{config: Config{
		Client: NewClient(nil), Dir: t.TempDir(), Prefix: "test-", Header: header, Shared: s.shared, Model: func() string { return digest(t, file) },
	}}
	t.Cleanup(m.config.Client.CloseIdle)
	args := append([]string{
		"--model", file, "--host", "127.0.0.1", "--parallel", fmt.Sprint(s.slots), "--ctx-size", fmt.Sprint(4096 * s.slots), "--threads", "1",
		"--flash-attn", "on", "--no-kv-unified", "--cache-ram", "0", "--no-cache-idle-slots", "--log-verbosity", "1",
	}, s.flags...)
	if !s.noFolder {
		args = append(args, "--slot-save-path", m.config.Dir)
	}
	program := cmp.Or(s.program, standintest.Engines(t).LlamaServer)
	if s.limit > 0 {
		// The signal that comes with the limit is ignored, so that writing fails as it does on a full disk.
		args = append([]string{"-c", fmt.Sprintf(`trap "" XFSZ; ulimit -f %d; exec "$0" "$@"`, s.limit), program}, args...)
		program = "bash"
	}
	until(t, "the server answers", func() bool {
		if !m.alive() { // not yet, or another program took the port
			port := freePort(t)
			m.config.Endpoint.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
			if m.process, err = supervisor.Start(program, append(args, "--port", fmt.Sprint(port)), "", append(os.Environ(), s.env...), t.Output()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.process.Stop)
		}
		m.Server, err = Connect(t.Context(), m.config)
		return err == nil && m.alive()
	})
	return m
}

// alive reports whether the server runs.
func (m *machine) alive() bool {
	if m.process == nil {
		return false
	}
	select {
	case <-m.process.Exited():
		return false
	default:
		return true
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func digest(t testing.TB, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// kill ends the server as a crash would.
func (m *machine) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-m.process.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-m.process.Exited()
}

// prompt is a text of exactly n tokens, another one for each seed, which begins with the given tokens.
func (m *machine) prompt(t testing.TB, seed uint64, n int, begin ...int32) Prompt {
	t.Helper()
	words := strings.Fields("the mean of column is not what you want because data frame x has a missing value in each row so first filter then plot and say why")
	r := rand.New(rand.NewPCG(seed, 1))
	var text strings.Builder
	for range 2 * n {
		text.WriteString(words[r.IntN(len(words))])
		text.WriteByte(' ')
	}
	tokens, err := m.Tokens(t.Context(), text.String())
	if err != nil || len(tokens) < n {
		t.Fatalf("%d tokens, want %d: %v", len(tokens), n, err)
	}
	return Prompt{Tokens: append(begin[:len(begin):len(begin)], tokens...)[:n]}
}

// acquire is Acquire that must not fail, with a Release.
func (m *machine) acquire(t testing.TB, p Prompt) *Slot {
	t.Helper()
	sl, err := m.Acquire(t.Context(), p.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	return sl
}

// export prefills a prompt and exports its state.
func (m *machine) export(t testing.TB, p Prompt) *engine.StateFile {
	t.Helper()
	sl := m.acquire(t, p)
	defer sl.Release()
	if _, err := sl.Prefill(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	f, err := sl.Export(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// receive copies a state to this machine.
func (m *machine) receive(t testing.TB, f *engine.StateFile) *engine.StateFile {
	t.Helper()
	data, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	return m.write(t, f, data)
}

// write makes a state file of this machine with other bytes.
func (m *machine) write(t testing.TB, f *engine.StateFile, data []byte) *engine.StateFile {
	t.Helper()
	here := *f
	here.Path = filepath.Join(m.config.Dir, "moved-"+filepath.Base(f.Path))
	if err := os.WriteFile(here.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return &here
}

// said is a greedy answer and what it took.
type said struct {
	text             string
	cached, computed int
}

// say generates an answer of up to 24 tokens in a slot.
func say(ctx context.Context, sl *Slot, p Prompt) (said, error) {
	body := completion{Prompt: p.Tokens, NumPredict: 24, Fields: []string{"stop", "timings"}, Placement: sl.Placement()}
	var s said
	err := sl.Stream(ctx, "/completion", body, p.Tokens, p.progress, func(e *Event) error {
		s.text += e.Content
		if e.Timings != nil {
			s.cached, s.computed = e.Timings.Cached, e.Timings.Computed
		}
		return nil
	})
	return s, err
}

// cold is what the machine says to a prompt by itself, its head computed first, having forgotten everything.
func (m *machine) cold(t testing.TB, p Prompt) said {
	t.Helper()
	sl := m.acquire(t, p)
	defer sl.Release()
	sl.erase(t.Context())
	if _, err := sl.Prefill(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s, err := say(t.Context(), sl, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// files are the names in the machine's folder.
func (m *machine) files(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(m.config.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// until waits for a condition, asking often.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
