package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tandem/internal/jobs"
	"tandem/internal/queue"
	"tandem/internal/rig/host"
	"tandem/internal/rig/tap"
)

// tandem is the whole system for one plan: a NATS server, and a worker beside each engine.
type tandem struct {
	*engines
	plan    string
	dir     string
	warm    []kind
	nats    *host.NATS
	workers []*host.Process
	links   []*tap.Tap // one for each prefill machine
	taps    []*tap.Tap // these and all others
	traces  []*trace
}

// start starts NATS and the workers, and returns when all of them are ready for jobs and known to one another.
func (t *tandem) start(ctx context.Context) (err error) {
	if t.nats, err = host.StartNATS(ctx, t.programs, host.NATSOptions{Name: "nats", Dir: filepath.Join(t.dir, "nats")}); err != nil {
		return err
	}
	for _, e := range t.list {
		if err := t.startWorker(e); err != nil {
			return err
		}
	}
	for _, w := range t.workers {
		if err := w.Says(ctx, "worker started"); err != nil {
			return err
		}
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

// startWorker starts the worker beside an engine. States leave a prefill machine over a link with the fleet's rate, which all decode machines share.
func (t *tandem) startWorker(e *pacedEngine) error {
	m := e.machine
	dir := filepath.Join(t.dir, "worker-"+m.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("start worker of %s: %w", m.Name, err)
	}
	nats, engine, err := t.wires(e)
	if err != nil {
		return err
	}
	args := []string{
		"--nats", nats, "--model", t.Model, "--machine", m.Name, "--engine", "llamacpp", "--engine-url", engine, "--slot-dir", e.slotDir,
		"--slots", strconv.Itoa(m.Slots), "--state-dir", dir, "--http", "127.0.0.1:0", "--log-format", "text",
	}
	if m.Role == string(jobs.RolePrefill) {
		port, err := host.FreePort()
		if err != nil {
			return err
		}
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		link, err := t.tapped(tap.ListenRaw(at))
		if err != nil {
			return err
		}
		link.Set(tap.Conditions{BytesPerSecond: int(t.LinkBytesPerSecond * t.sizeScale / t.timeScale)})
		t.links = append(t.links, link)
		args = append(args, "--handover-listen", at, "--handover-url", "http://"+link.Addr())
	}
	p, err := host.Start(host.Spec{
		Name: "worker-" + m.Name, Program: t.programs.Path(m.Role + "-worker"), Args: args, Env: []string{"HOME=" + dir}, Dir: dir,
		Log: filepath.Join(dir, "worker.log"),
	})
	if err == nil {
		t.workers = append(t.workers, p)
	}
	return err
}

func (t *tandem) stop() error {
	var errs []error
	for _, w := range t.workers {
		w.Kill()
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
	p, err := host.Start(host.Spec{
		Name: "submitter", Program: t.programs.Path("submitter"), Env: []string{"HOME=" + t.dir}, Dir: t.dir, Log: filepath.Join(t.dir, name+".log"),
		Args: []string{"--nats", t.nats.URL(), "--user", "planbench", "--quiet", "batch", "--plan", plan, "--out", out, file},
	})
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	select {
	case <-p.Exited():
	case <-ctx.Done():
		return nil, fmt.Errorf("plan %s: %w after %d of %d results; the workers' last words: %s", plan, context.Cause(ctx), results(out), len(list), t.lastWords())
	}
	if p.Code() != 0 {
		return nil, fmt.Errorf("plan %s: submitter ended with status %d after %d of %d results: %s; the workers' last words: %s",
			plan, p.Code(), results(out), len(list), strings.TrimSpace(p.Output()), t.lastWords())
	}
	return readBatch(out)
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
