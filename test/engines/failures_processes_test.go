package engines

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"tandem/internal/app"
	"tandem/internal/queue"
	"tandem/internal/supervisor"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// TestProcessesFail: workers that are programs, as on the machines, are killed in the middle of a hand-over, or may write
// no file as large as a state.
func TestProcessesFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "tandem/cmd/prefill-worker", "tandem/cmd/decode-worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the workers: %v\n%s", err, out)
	}
	spec := tinymodel.Tiny(tinymodel.BPE)
	p := newPair(t, ollamaMachine(t, spec, 1), ollamaMachine(t, spec, 1))
	ollama := newGateway(t, p.here.url)
	prefill := p.program(filepath.Join(dir, "prefill-worker"), "", p.there.flags, p.through)
	decode := p.program(filepath.Join(dir, "decode-worker"), "ulimit -f 96; ", p.here.flags, func(f *app.WorkerFlags) { f.EngineURL = ollama.URL })
	p.ready()

	t.Run("disk full", func(t *testing.T) {
		p := p.in(t)
		r := p.fails("full", jobs.FailDisk)
		if m := r.Handover.Message; !strings.Contains(m, "ulimit -f") || !strings.Contains(m, p.here.dir) {
			t.Errorf("message %s", m)
		}
		p.normal("after full")
		p.nothingLeft()
	})

	t.Run("decode worker killed", func(t *testing.T) {
		p := p.in(t)
		asked := make(chan struct{})
		ollama.set(func(w http.ResponseWriter, r *http.Request, body []byte, forward http.Handler) {
			if !asksForText(r, body) {
				forward.ServeHTTP(w, r)
				return
			}
			close(asked)
			<-r.Context().Done()
		})
		p.link.spoil(nil)
		j := job(lines("killed", 12), 0)
		result := p.submitted(j)
		p.await("the engine is asked for the text", asked) // so the state was fetched, and read
		decode()
		if there, here := p.there.states(t), p.here.states(t); len(there) != 1 || len(here) != 1 {
			t.Errorf("%q on the prefill machine and %q on the decode machine; want one state each", there, here)
		}
		p.decode()
		if left := p.here.states(t); len(left) != 0 {
			t.Errorf("%q is left of the worker that was killed", left)
		}
		r := result()
		p.handedOver(r, j)
		if r.Attempts.Decode != 2 {
			t.Errorf("attempts %+v; want the second of decode", r.Attempts)
		}
		if list := p.link.requests(); len(list) != 2 || list[0] != list[1] {
			t.Errorf("states were fetched as %q; want the same one twice", list)
		}
		p.nothingLeft()
	})

	p.decode()
	p.ready()
	t.Run("prefill worker killed", func(t *testing.T) {
		p := p.in(t)
		p.here.erase(t)
		began, cut := make(chan struct{}), make(chan struct{})
		p.link.spoil(held(began, cut))
		j := job(lines("lost", 20), 0)
		result := p.submitted(j)
		p.await("a state is fetched", began)
		prefill()
		close(cut)
		p.failed(result(), jobs.FailUnreachable, j)
		p.link.spoil(nil)
		if len(p.there.states(t)) == 0 {
			t.Error("nothing is left of a worker that was killed; want its state")
		}
		p.prefill()
		if left := p.there.states(t); len(left) != 0 {
			t.Errorf("%q is left after the next start", left)
		}
		p.ready()
		p.normal("after lost")
		p.nothingLeft()
	})
}

// program runs a worker as a process of its own, which a shell starts with these limits, until it is killed.
func (p *pair) program(path, limits string, change ...func(*app.WorkerFlags)) (kill func()) {
	p.t.Helper()
	var f app.WorkerFlags
	for _, c := range change {
		c(&f)
	}
	machine := filepath.Base(path)
	args := []string{
		"-c", limits + `exec "$0" "$@"`, path, "--nats", p.nats.URL(), "--model", model, "--engine-url", f.EngineURL, "--shim-run-dir", f.ShimRunDir,
		"--num-ctx", "8192", "--threads", "1", "--http", "127.0.0.1:0", "--machine", machine, "--state-dir", p.t.TempDir(), "--log-level", "warn", "--measure", "never",
	}
	if f.HandoverURL != "" {
		args = append(args, "--handover-listen", f.HandoverListen, "--handover-url", f.HandoverURL)
	}
	process, err := supervisor.Start("bash", args, "", []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.t.TempDir()}, p.t.Output())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(process.Stop)
	p.eventually(machine+" is there", func() error {
		select {
		case <-process.Exited():
			p.t.Fatalf("%s ended: %v", machine, process.Err())
		default:
		}
		if !slices.ContainsFunc(p.workers(), func(w queue.Presence) bool { return w.Machine == machine }) {
			return fmt.Errorf("%s is not there", machine)
		}
		return nil
	})
	return sync.OnceFunc(func() {
		if err := syscall.Kill(process.Pid(), syscall.SIGKILL); err != nil {
			p.t.Errorf("kill %s: %v", machine, err)
		}
		<-process.Exited()
	})
}
