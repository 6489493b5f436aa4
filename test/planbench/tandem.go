package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// tandem is the whole system for one plan: a NATS server, and a worker beside each engine.
type tandem struct {
	*engines
	plan    string
	dir     string
	warm    []kind
	nats    *host.NATS
	workers []*host.Process // of each engine; nil before it is started

	mu     sync.Mutex
	links  []*tap.Tap // one for each prefill machine
	taps   []*tap.Tap // these and all others
	traces []*trace
}

// start starts NATS and, by startWorker, a worker beside each of so many engines, and returns when all of them are ready for jobs and known to one another.
func (t *tandem) start(ctx context.Context, engines int, startWorker func(ctx context.Context, i int) error) (err error) {
	if t.nats, err = host.StartNATS(ctx, t.programs, host.NATSOptions{Name: "nats", Dir: filepath.Join(t.dir, "nats")}); err != nil {
		return err
	}
	t.workers = make([]*host.Process, engines)
	if err := each(engines, false, func(i int) error { return startWorker(ctx, i) }); err != nil {
		return err
	}
	conn, err := queue.Connect(ctx, queue.Config{URL: t.nats.URL(), Name: "planbench"})
	if err != nil {
		return err
	}
	defer conn.Close()
	return t.present(ctx, conn)
}

// present waits until the presence of all workers is in the queue, each able to hand states over.
func (t *tandem) present(ctx context.Context, conn *queue.Conn) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := conn.Workers(ctx)
		if err != nil {
			return err
		}
		ready, last := 0, ""
		for _, p := range list {
			if p.State == queue.StateReady && p.NoState == "" {
				ready++
			} else {
				last = fmt.Sprintf("; %s is %s %s %s", p.Machine, p.State, p.Problem, p.NoState)
			}
		}
		if ready == len(t.workers) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for workers: %d of %d are ready%s: %w", ready, len(t.workers), last, context.Cause(ctx))
		}
	}
}

// startWorker starts the worker beside an engine and returns when it works. Another program may take the port that it was to listen on: then it gets another.
func (t *tandem) startWorker(ctx context.Context, i int) error {
	var err error
	for range 3 {
		if t.workers[i], err = t.launchWorker(t.list[i]); err != nil {
			return err
		}
		err = t.workers[i].Says(ctx, "worker started")
		if err == nil || !strings.Contains(t.workers[i].Output(), syscall.EADDRINUSE.Error()) {
			break
		}
	}
	return err
}

// launchWorker starts the process. States leave a prefill machine over a link with the fleet's rate, which all decode machines share.
func (t *tandem) launchWorker(e *pacedEngine) (*host.Process, error) {
	m := e.machine
	dir := filepath.Join(t.dir, "worker-"+m.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start worker of %s: %w", m.Name, err)
	}
	nats, engine, err := t.wires(e)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--nats", nats, "--model", t.Model, "--machine", m.Name, "--engine", "llamacpp", "--engine-url", engine, "--slot-dir", e.slotDir,
		"--slots", strconv.Itoa(m.Slots), "--state-dir", dir, "--http", "127.0.0.1:0", "--log-format", "text",
	}
	if m.Role == string(protocol.RolePrefill) {
		port, err := host.FreePort()
		if err != nil {
			return nil, err
		}
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		link, err := t.tapped(tap.ListenRaw(at))
		if err != nil {
			return nil, err
		}
		link.Set(tap.Conditions{BytesPerSecond: int(t.LinkBytesPerSecond * t.sizeScale / t.timeScale)})
		t.mu.Lock()
		t.links = append(t.links, link)
		t.mu.Unlock()
		args = append(args, "--handover-listen", at, "--handover-url", "http://"+link.Addr())
	}
	return host.Start(host.Spec{
		Name: "worker-" + m.Name, Program: t.programs.Path(m.Role + "-worker"), Args: args, Dir: dir, Log: filepath.Join(dir, "worker.log"),
		Env: []string{"HOME=" + dir, "TANDEM_LOG_LEVEL=" + cmp.Or(os.Getenv("TANDEM_LOG_LEVEL"), "info")}, // debug: every decision
	})
}

func (t *tandem) stop() error {
	var errs []error
	for _, w := range t.workers {
		if w != nil {
			w.Kill()
		}
	}
	for _, l := range t.taps {
		errs = append(errs, l.Close(), l.Err())
	}
	for _, trace := range t.traces {
		errs = append(errs, trace.close())
	}
	if t.nats != nil {
		t.nats.Kill()
	}
	return errors.Join(append(errs, t.engines.stop())...)
}

// warmUp runs some jobs by each of the two plans that do as they are told, so that engines, links, saving and reading were all measured.
func (t *tandem) warmUp(ctx context.Context) error {
	for _, plan := range []string{disaggregated, allLocal} {
		list := makeJobs(t.Model, "warm-"+plan, t.warm)
		if _, err := t.submit(ctx, "warm-"+plan, plan, list); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}

// foretell asks the submitter when the jobs would be done, by what the workers have measured so far. It answers for all plans; here the policy's counts.
func (t *tandem) foretell(ctx context.Context, list []job) (float64, error) {
	file := filepath.Join(t.dir, "foretold.jsonl")
	if err := writeJobs(file, list); err != nil {
		return 0, err
	}
	p, err := t.submitter(ctx, "foretold", "--json", "batch", "--dry-run", "--plan", t.plan, file)
	if err != nil {
		return 0, err
	}
	var e struct {
		Seconds float64 `json:"seconds"`
	}
	if err := json.Unmarshal([]byte(p.Output()), &e); err != nil {
		return 0, fmt.Errorf("plan %s: read what is foretold: %w: %.300s", t.plan, err, p.Output())
	}
	return e.Seconds, nil
}

func (t *tandem) run(ctx context.Context, list []job) (*outcome, error) {
	if err := t.measuredFromNowOn(ctx); err != nil {
		return nil, err
	}
	before := t.carried()
	b, err := t.submit(ctx, fmt.Sprintf("run-%d", len(list)), t.plan, list)
	if err != nil {
		return nil, err
	}
	o := &outcome{Policy: t.plan, Took: b.end.Sub(b.begin), Wrong: b.check(list), Bytes: (t.carried() - before) / t.sizeScale, Methods: b.methods()}
	o.Lanes, err = t.lanes(ctx, b.begin)
	return o, err
}

// carried is how many bytes of states, and of what is said about them, have passed the links so far.
func (t *tandem) carried() (sum float64) {
	for _, l := range t.links {
		_, toClient := l.Carried()
		sum += float64(toClient)
	}
	return sum
}

// submit has the submitter run the jobs as a batch.
func (t *tandem) submit(ctx context.Context, name, plan string, list []job) (*batch, error) {
	file, out := filepath.Join(t.dir, name+".jsonl"), filepath.Join(t.dir, name)
	if err := writeJobs(file, list); err != nil {
		return nil, err
	}
	if _, err := t.submitter(ctx, name, "--quiet", "batch", "--plan", plan, "--out", out, file); err != nil {
		return nil, fmt.Errorf("plan %s, %d of %d results: %w; the workers' last words: %s", plan, results(out), len(list), err, t.lastWords())
	}
	return readBatch(out)
}

// submitter runs the submitter to its end.
func (t *tandem) submitter(ctx context.Context, name string, args ...string) (*host.Process, error) {
	p, err := host.Start(host.Spec{
		Name: "submitter", Program: t.programs.Path("submitter"), Env: []string{"HOME=" + t.dir}, Dir: t.dir, Log: filepath.Join(t.dir, name+".log"),
		Args: append([]string{"--nats", t.nats.URL(), "--user", "planbench"}, args...),
	})
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	select {
	case <-p.Exited():
	case <-ctx.Done():
		return nil, fmt.Errorf("await submitter: %w", context.Cause(ctx))
	}
	if p.Code() != 0 {
		return nil, fmt.Errorf("submitter ended with status %d: %s", p.Code(), strings.TrimSpace(p.Output()))
	}
	return p, nil
}

// lastWords are the last lines of the workers' logs.
func (t *tandem) lastWords() string {
	var b strings.Builder
	for _, w := range t.workers {
		text := w.Output()
		fmt.Fprintf(&b, "\n%s: …%s", w.Name(), text[max(0, len(text)-500):])
	}
	return b.String()
}
