package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/jobs"
	"tandem/test/rig/engines"
	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/power"
	"tandem/test/rig/tap"
)

// Options say what a system consists of.
type Options struct {
	Dir         string // everything of the run; kept
	Programs    *host.Programs
	Models      []string
	Each        int    // workers of each role and model
	Nodes       int    // of NATS: 1 or, as a cluster, 3
	Fleet       string // a file such as those of test/fleets, with a machine named after each role: paced engines, which their workers measure, instead of no-op ones
	Real        bool   // real engines, Ollama for the first model and llama-server for the others, instead of no-op ones
	Slots       int    // of each engine
	NumCtx      int
	PerToken    time.Duration                    // of no-op engines
	Disk        bool                             // the store of NATS is on a disk that can lose power
	SpoilStates bool                             // KV states are altered on their way
	Say         func(format string, args ...any) // progress; may be nil

	hooks hooks // of a scenario
}

// System is Tandem as it is deployed, each program a process with no more rights than it needs, over TLS, with a tap on every wire.
type System struct {
	Options
	Log  *history.Log
	r    *recorder
	keys *keys

	ctx    context.Context // of everything that runs
	cancel context.CancelFunc
	wg     sync.WaitGroup
	file   *os.File

	nodes   []*host.NATS
	cluster *host.Cluster // nil with one node
	disk    *power.Disk   // nil if there is none that can lose power
	cuts    int           // of its power
	natsMu  sync.Mutex    // one restart at a time
	nc      *nats.Conn    // the rig's own, to look
	js      jetstream.JetStream
	workers []*unit
	machine []*machine
	taps    []*tap.Tap

	callersMu sync.Mutex
	callers   map[string]*host.Process // the submitters that run now and may be killed
	links     map[string]link          // of the callers there are, whose wires may be spoilt
}

// machine is an engine with the tap before it.
type machine struct {
	engines.Engine
	tap    *tap.Tap
	states *tap.Tap // of the states that its worker sends; nil if it sends none
	worker *unit
	mu     sync.Mutex // one restart at a time

	answerMu sync.Mutex
	answers  []string // how the next calls go wrong
}

const (
	startLimit = 3 * time.Minute // for everything to be there
	user       = "rig"
)

// Start starts everything and returns when every worker is present. On an error nothing is left running.
func Start(parent context.Context, o Options) (_ *System, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start rig: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(o.Dir, "history.jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil { // what streams still held of an earlier run would be taken for inventions of this one
		return nil, fmt.Errorf("start rig: %w; a run needs a folder of its own", err)
	}
	s := &System{Options: o, Log: history.New(file), file: file, callers: map[string]*host.Process{}, links: map[string]link{}}
	s.r = newRecorder(s.Log)
	s.ctx, s.cancel = context.WithCancel(parent)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if s.keys, err = newKeys(s.path("keys"), s.Models); err != nil {
		return nil, fmt.Errorf("start rig: %w", err)
	}
	if err := s.startNATS(); err != nil {
		return nil, err
	}
	if err := s.startMachines(); err != nil {
		return nil, err
	}
	return s, s.awaitWorkers()
}

// path is a file or folder of the run.
func (s *System) path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

func (s *System) startNATS() (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, startLimit)
	defer cancel()
	if s.Nodes > 1 {
		if s.cluster, err = host.StartCluster(ctx, s.Programs, s.path("nats"), s.Nodes, s.keys.Config()); err != nil {
			return err
		}
		s.nodes = s.cluster.Nodes()
	} else {
		if s.Disk {
			if err := s.newDisk(ctx); err != nil {
				return err
			}
		}
		node, err := host.StartNATS(ctx, cmp.Or(s.hooks.nats, s.Programs), host.NATSOptions{Name: "nats", Dir: s.path("nats"), Include: s.keys.Config()})
		if err != nil {
			return err
		}
		s.nodes = []*host.NATS{node}
	}
	var urls []string
	for _, n := range s.nodes {
		urls = append(urls, n.URL())
	}
	url := strings.Join(urls, ",")
	if err := s.makeStreams(ctx, url); err != nil {
		return err
	}
	operator, err := nats.NkeyOptionFromSeed(s.keys.Operator())
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	if s.nc, err = nats.Connect(url, operator, nats.RootCAs(s.keys.CA()), nats.Name("rig"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	s.js, err = jetstream.New(s.nc)
	return err
}

// makeStreams has the operator make what workers may not.
func (s *System) makeStreams(ctx context.Context, url string) error {
	args := append(s.keys.as(s.keys.Operator()), "--nats", url, "admin", "init", "--replicas", strconv.Itoa(len(s.nodes)))
	for _, m := range s.Models {
		args = append(args, "--model", m)
	}
	p, err := host.Start(host.Spec{
		Name: "operator", Program: s.Programs.Path("submitter"), Args: args, Env: []string{"HOME=" + s.Dir}, Dir: s.Dir, Log: s.path("init.log"),
	})
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("make streams: %w", context.Cause(ctx))
	}
	if p.Code() != exitDone {
		return fmt.Errorf("make streams: submitter admin init ended with code %d: %s", p.Code(), lastLine(p.Output()))
	}
	return nil
}

// link is a process's way to NATS: a tap before each node.
type link []*tap.Tap

// link makes a way to NATS on which each operation is read by on.
func (s *System) link(on func(op *tap.Op, node int) tap.Verdict) (l link, err error) {
	for i, n := range s.nodes {
		t, err := tap.ListenNATS(tap.NATSOptions{Target: n.Addr(), TLS: s.keys.tls, On: func(op *tap.Op) tap.Verdict { return on(op, i) }})
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l = append(l, t)
	}
	return l, nil
}

// url is what a program takes as --nats.
func (l link) url() string {
	var urls []string
	for _, t := range l {
		urls = append(urls, "tls://"+t.Addr())
	}
	return strings.Join(urls, ",")
}

// Set implements wireTap.
func (l link) Set(c tap.Conditions) {
	for _, t := range l {
		t.Set(c)
	}
}

// Cut implements wireTap.
func (l link) Cut() {
	for _, t := range l {
		t.Cut()
	}
}

// Reset implements wireTap.
func (l link) Reset() {
	for _, t := range l {
		t.Reset()
	}
}

func (l link) close() error {
	var errs []error
	for _, t := range l {
		errs = append(errs, t.Close(), t.Err()) // what it could not carry the recorder has not read
	}
	return errors.Join(errs...)
}

// startMachines starts for each model and role so many engines, each with its worker.
func (s *System) startMachines() error {
	for m, model := range s.Models {
		for _, role := range []string{"prefill", "decode"} {
			for i := range s.Each {
				if err := s.startMachine(fmt.Sprintf("%s-%c%d", role, 'a'+m, i+1), role, model, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *System) startMachine(name, role, model string, m int) error {
	start := engines.StartNoop
	if s.Real {
		start = engines.StartOllama
		if m > 0 {
			start = engines.StartLlamaServer
		}
	} else if s.Fleet != "" {
		start = engines.StartPaced
	}
	ctx, cancel := context.WithTimeout(s.ctx, startLimit)
	defer cancel()
	e, err := start(ctx, engines.Options{
		Name: "engine-" + name, Dir: s.path("engine-" + name), Models: []string{model}, Slots: s.Slots, NumCtx: s.NumCtx,
		PerToken: s.PerToken, Programs: s.Programs, Fleet: s.Fleet, Machine: role,
	})
	if err != nil {
		return err
	}
	mach := &machine{Engine: e}
	s.machine = append(s.machine, mach)
	u := &unit{name: name, log: s.Log, wire: s.r.wire(name)}
	mach.worker = u
	if mach.tap, err = s.tapped(tap.ListenHTTP(tap.HTTPOptions{Target: e.Addr(), On: s.hookedCalls(mach)})); err != nil {
		return err
	}
	if u.nats, err = s.link(s.hookedWire(name, u.on)); err != nil {
		return err
	}
	s.taps = append(s.taps, u.nats...)
	args := append([]string{
		"--nats", u.nats.url(), "--model", model, "--machine", name, "--http", "127.0.0.1:0", "--log-format", "json",
		"--state-dir", s.path(name), "--drain-limit", "10s", "--start-timeout", "10m",
	}, e.Flags("http://"+mach.tap.Addr())...)
	args = append(args, s.keys.as(s.keys.Worker(jobs.Stage(role), model))...)
	if s.Fleet == "" {
		args = append(args, "--measure", "never") // the calls to engines that go wrong are to be those for jobs
	}
	if role == "prefill" && (s.Real || s.Fleet != "") { // states pass a tap as well
		port, err := host.FreePort()
		if err != nil {
			return err
		}
		at := "127.0.0.1:" + strconv.Itoa(port)
		mach.states, err = s.tapped(tap.ListenHTTP(tap.HTTPOptions{Target: at, On: func(*tap.Exchange) tap.Answer {
			a := tap.Answer{Answered: func() { u.reached(InSend); u.reached(InFetch) }}
			if s.SpoilStates {
				a.Alter = spoilState
			}
			return a
		}}))
		if err != nil {
			return err
		}
		args = append(args, "--handover-listen", at, "--handover-url", "http://"+mach.states.Addr())
	}
	if len(s.nodes) > 1 {
		args = append(args, "--replicas", strconv.Itoa(len(s.nodes)))
	}
	u.launch = func() (*host.Process, error) {
		return host.Start(host.Spec{
			Name: name, Program: s.programs(name).Path(role + "-worker"), Args: args, Env: []string{"HOME=" + s.path(name+"-home")},
			Dir: s.Dir, Log: s.path(name + ".log"),
		})
	}
	s.workers = append(s.workers, u)
	s.wg.Go(func() { u.keep(s.ctx) })
	return nil
}

// tapped remembers a tap that was begun, to close it.
func (s *System) tapped(t *tap.Tap, err error) (*tap.Tap, error) {
	if err == nil {
		s.taps = append(s.taps, t)
	}
	return t, err
}

// awaitWorkers waits until every worker's presence is in its bucket.
func (s *System) awaitWorkers() error {
	return s.until(startLimit, "every worker to be present", func(ctx context.Context) (bool, error) {
		ready := 0
		list, _ := s.presences(ctx) // there is no bucket before the first worker is there
		for _, p := range list {
			if p.State == "ready" {
				ready++
			}
		}
		for _, u := range s.workers {
			u.mu.Lock()
			err := u.err
			u.mu.Unlock()
			if err != nil {
				return false, err
			}
		}
		return ready >= len(s.workers), nil
	})
}

// until asks until it is so, or fails, or limit has passed.
func (s *System) until(limit time.Duration, what string, there func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := there(ctx)
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

// Stop ends everything, and closes the history. It may be called twice.
func (s *System) Stop() error {
	s.cancel()
	s.wg.Wait()
	if s.nc != nil {
		s.nc.Close()
	}
	var errs []error
	for _, t := range s.taps {
		errs = append(errs, t.Close(), t.Err())
	}
	s.taps = nil
	for _, m := range s.machine {
		m.Close()
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Kill())
	} else {
		for _, n := range s.nodes {
			n.Kill()
		}
	}
	if s.disk != nil {
		errs = append(errs, s.disk.Close())
	}
	errs = append(errs, s.Log.Flush())
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
