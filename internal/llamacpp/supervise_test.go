package llamacpp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/tinymodel"
	"tandem/jobs"
)

func TestKilledServerIsRestarted(t *testing.T) {
	e := supervised(t, Options{NumCtx: 32768})
	first := pidOf(e)
	r := ask("x", 1_000_000)
	_, err := e.Generate(t.Context(), r, func(jobs.Chunk) error {
		return syscall.Kill(first, syscall.SIGKILL)
	})
	if jobs.CodeOf(err) != jobs.CodeEngineFailed {
		t.Errorf("killed in mid answer: %v (%s), want engine_failed", err, jobs.CodeOf(err))
	}
	until(t, "the death was noticed", func() bool { return pidOf(e) != first })
	until(t, "its process group is gone", func() bool { return gone(first) })
	// Until the next one is up, nobody is at fault.
	if d, err := e.Describe(t.Context()); err == nil && !d.Loaded || err != nil && jobs.CodeOf(err) != jobs.CodeEngineBusy {
		t.Errorf("in between: %+v, %v (%s); want engine_busy", d, err, jobs.CodeOf(err))
	}
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := generate(t, e, ask("y", 4)); c.CachedTokens != 0 || c.Text == "" {
		t.Errorf("after the restart: %+v", c)
	}
	if second := pidOf(e); second == first || second == 0 {
		t.Errorf("process %d before and %d after the restart", first, second)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	e := supervised(t, Options{NumCtx: 256})
	pid := pidOf(e)
	if gone(pid) {
		t.Fatalf("process group %d is not there", pid)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d is still there: %v", pid, err)
	}
	until(t, "its process group is gone", func() bool { return gone(pid) })
	if _, err := e.Describe(t.Context()); jobs.CodeOf(err) != jobs.CodeEngineUnreachable {
		t.Errorf("after Close: %v", err)
	}
}

// TestServerDiesWithItsWorker kills a process that owns an engine, as the kernel or a person might.
func TestServerDiesWithItsWorker(t *testing.T) {
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), ownerEnv+"="+model(t, tinymodel.BPE), ownerEnv+"_BINARY="+binary(t))
	pid, err := strconv.Atoi(firstLine(t, worker))
	if err != nil {
		t.Fatal(err)
	}
	if gone(pid) {
		t.Fatalf("process group %d is not there", pid)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // it was killed
	until(t, "the server is gone", func() bool { return gone(pid) })
}

func TestBadModelFile(t *testing.T) {
	e, err := New(Options{Binary: binary(t), ModelFile: write(t, "bad.gguf", "no model"), LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	loaded := e.Load(t.Context())
	_, described := e.Describe(t.Context())
	_, prefilled := e.Prefill(t.Context(), ask("x", 1))
	for _, err := range []error{loaded, described, prefilled} {
		if jobs.CodeOf(err) != jobs.CodeEngineUnreachable || !strings.Contains(err.Error(), "failed to load model") {
			t.Errorf("error %v (%s), want engine_unreachable with the log's last lines", err, jobs.CodeOf(err))
		}
	}
	if log, err := os.ReadFile(e.options.LogFile); err != nil || !strings.Contains(string(log), "bad.gguf") {
		t.Errorf("the log holds %q, %v", log, err)
	}
}

func TestProgramThatIsNoLlamaServer(t *testing.T) {
	e, err := New(Options{Binary: "false", ModelFile: write(t, "a.gguf", "")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "for its flags") {
		t.Errorf("error %v", err)
	}
}
