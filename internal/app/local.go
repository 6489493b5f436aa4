package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/internal/access"
	"tandem/internal/natsembed"
	"tandem/internal/ollama"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// Engines that local mode can run on; empty means to choose.
const (
	LocalOllama   = "ollama"
	LocalLlamaCPP = "llamacpp"
	LocalStandIn  = "standin"
)

// localNumCtx is the context of the stand-ins: what workers have by default.
const localNumCtx = 32768

// LocalOptions describe a whole system in one process.
type LocalOptions struct {
	Dir       string                    // NATS store, kept; empty: a private temporary folder, removed at Stop
	Port      int                       // of the NATS server; 0: a free one
	NATSOnly  bool                      // no engines and no workers
	Secure    bool                      // the NATS server asks for keys, over TLS, and gives each program its own rights only
	Graders   []string                  // users who may submit, if Secure
	Standins  bool                      // no NATS and no workers: only the stand-in engines
	Engine    string                    // ollama, llamacpp, standin; empty: an Ollama that runs on this machine and has the models, else stand-ins
	EngineURL string                    // of a running engine
	ModelFile string                    // GGUF file, for llamacpp
	Models    []string                  // to serve; empty: the two of the original installation
	Specs     map[string]tinymodel.Spec // of stand-ins, by the names of their models; nil: the usual ones
	Log       *slog.Logger
	Say       func(format string, args ...any) // tells the user what must be known
}

// Local is a running system: an embedded NATS server and, per model, a prefill and a decode worker.
type Local struct {
	nats    *natsembed.Server
	access  access.Folder // "" if everybody may do everything
	plan    jobs.Plan
	standin bool        // the models are small ones with random weights
	prefill WorkerFlags // of the engines
	decode  WorkerFlags
	cancel  context.CancelFunc
	workers sync.WaitGroup
	cleanup []func() error
}

// StartLocal starts the whole system and returns when it takes jobs.
func StartLocal(ctx context.Context, o LocalOptions) (_ *Local, err error) {
	l := &Local{plan: jobs.PlanDisaggregated}
	older := o.Dir != "" // what a version before this has made may be there
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Stop())
		}
	}()
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "tandem-"); err != nil {
			return nil, fmt.Errorf("make store: %w", err)
		}
		l.cleanup = append(l.cleanup, func() error { return os.RemoveAll(o.Dir) })
	}
	if len(o.Models) == 0 {
		o.Models = []string{standin.CodeModel, standin.FeedbackModel}
	}
	for i, m := range o.Models {
		if o.Models[i], err = jobs.CanonicalModel(m); err != nil {
			return nil, err
		}
	}
	if o.Standins {
		l.prefill, l.decode, err = l.standIns(ctx, &o)
		return l, err
	}
	server := natsembed.Options{Dir: filepath.Join(o.Dir, "nats"), Port: o.Port, Log: o.Log}
	if o.Secure {
		if l.access, err = secureLocal(o); err != nil {
			return nil, err
		}
		server.Include = l.access.Config()
	}
	if l.nats, err = natsembed.Start(ctx, server); err != nil {
		return nil, err
	}
	l.cleanup = append(l.cleanup, func() error { l.nats.Stop(); return nil })
	if o.NATSOnly || o.Secure || older {
		if err := l.createStreams(ctx, o); err != nil || o.NATSOnly {
			return l, err
		}
	}
	if l.prefill, l.decode, err = l.engines(ctx, &o); err != nil {
		return nil, err
	}
	return l, l.startWorkers(ctx, o)
}

// URL is the address of the NATS server.
func (l *Local) URL() string { return l.nats.URL() }

// Engines are the settings with which workers of the two roles reach their engines; the same twice if there is but one.
func (l *Local) Engines() (prefill, decode WorkerFlags) { return l.prefill, l.decode }

// StandIns reports whether the models are stand-ins, whose text is gibberish.
func (l *Local) StandIns() bool { return l.standin }

// Plan is what jobs should ask for: local if there is but one engine for both phases.
func (l *Local) Plan() jobs.Plan { return l.plan }

// Stop drains the workers and ends everything that was started.
func (l *Local) Stop() error {
	if l.cancel != nil {
		l.cancel()
		l.workers.Wait()
	}
	var errs []error
	for _, f := range slices.Backward(l.cleanup) {
		errs = append(errs, f())
	}
	l.cleanup = nil
	return errors.Join(errs...)
}

// Access is where the keys are, "" unless Secure.
func (l *Local) Access() access.Folder { return l.access }

// operate connects as the operator.
func (l *Local) operate(ctx context.Context, log *slog.Logger) (*queue.Conn, error) {
	c := queue.Config{URL: l.URL(), Name: "tandem-local", Log: log}
	if l.access != "" {
		c.NKey, c.TLSCA = l.access.Operator(), l.access.CA()
	}
	return queue.Connect(ctx, c)
}

// createStreams makes what workers would not have made yet, or may not make, and brings older streams to the settings of this version.
func (l *Local) createStreams(ctx context.Context, o LocalOptions) error {
	c, err := l.operate(ctx, o.Log)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Init(ctx, nil, 1, false); err != nil {
		return err
	}
	if err := c.EnsureStreams(ctx); err != nil || !o.Secure {
		return err
	}
	for _, model := range o.Models {
		if err := errors.Join(c.EnsureConsumers(ctx, protocol.RolePrefill, model), c.EnsureConsumers(ctx, protocol.RoleDecode, model)); err != nil {
			return err
		}
	}
	return nil
}

// engines returns the settings of the two roles' engines, starting stand-ins if need be.
func (l *Local) engines(ctx context.Context, o *LocalOptions) (prefill, decode WorkerFlags, err error) {
	shared := WorkerFlags{Engine: o.Engine, EngineURL: o.EngineURL, ModelFile: o.ModelFile, NumCtx: 32768}
	if o.Engine == "" && o.EngineURL != "" {
		shared.Engine = LocalOllama
	}
	if o.Engine == "" && o.ModelFile != "" {
		shared.Engine = LocalLlamaCPP
	}
	if url := LocalOllamaURL(os.Getenv); shared.Engine == "" && OllamaHas(ctx, url, o.Models) {
		shared.Engine, shared.EngineURL = LocalOllama, url
		o.Say("using the Ollama on this machine")
	}
	if shared.Engine == LocalOllama || shared.Engine == LocalLlamaCPP {
		l.plan = jobs.PlanLocal
		o.Say("one engine for both phases: plan local")
		if shared.Engine == LocalLlamaCPP && shared.ModelFile != "" {
			engines, err := standin.Find(ctx, standin.Options{Log: os.Stderr})
			shared.LlamaServer = engines.LlamaServer
			return shared, shared, err
		}
		return shared, shared, nil
	}
	return l.standIns(ctx, o)
}

// LocalOllamaURL is where the Ollama of this machine answers: as OLLAMA_HOST says, which Ollama's own programs go by, else on port 11434.
func LocalOllamaURL(getenv func(string) string) string {
	scheme, address, named := strings.Cut(strings.Trim(strings.TrimSpace(getenv("OLLAMA_HOST")), `"'`), "://")
	otherwise := map[string]string{"http": "80", "https": "443"}[scheme] // with a scheme Ollama takes the scheme's port
	if !named {
		scheme, address, otherwise = "http", scheme, "11434"
	}
	address, _, _ = strings.Cut(address, "/")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), otherwise
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() { // where a server listens on all of its addresses
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// OllamaHas reports whether an Ollama runs at the address and has all the models.
func OllamaHas(ctx context.Context, url string, models []string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, m := range models {
		e, err := ollama.New(ollama.Options{URL: url, Model: m})
		if err != nil {
			return false
		}
		if _, err := e.Describe(ctx); err != nil {
			return false
		}
	}
	return true
}

// standIns starts two real Ollamas with small models, as the two machines.
func (l *Local) standIns(ctx context.Context, o *LocalOptions) (prefill, decode WorkerFlags, err error) {
	models := maps.Clone(o.Specs)
	if models == nil {
		models = standin.Models()
	}
	for _, m := range o.Models {
		if _, there := models[m]; !there {
			return prefill, decode, jobs.Errorf(jobs.CodeUnknownModel,
				"model %s has no stand-in; local mode has %s and %s. For real text run an Ollama on this machine and: ollama pull %s",
				m, standin.CodeModel, standin.FeedbackModel, m)
		}
	}
	l.standin = true
	o.Say("STAND-INS: two real Ollamas run small models with random weights under the names %s; their text is gibberish, all else is real",
		strings.Join(o.Models, " and "))
	found, err := standin.Find(ctx, standin.Options{Log: os.Stderr})
	if err != nil {
		return prefill, decode, err
	}
	maps.DeleteFunc(models, func(name string, _ tinymodel.Spec) bool { return !slices.Contains(o.Models, name) })
	for _, side := range []struct {
		role  jobs.Stage
		flags *WorkerFlags
	}{{protocol.RolePrefill, &prefill}, {protocol.RoleDecode, &decode}} {
		server, err := standin.StartOllama(ctx, standin.OllamaOptions{
			Engines: found, Dir: filepath.Join(o.Dir, "ollama-"+string(side.role)), Models: models, Log: o.Log,
		})
		if err != nil {
			return prefill, decode, err
		}
		l.cleanup = append(l.cleanup, server.Stop)
		*side.flags = WorkerFlags{Engine: LocalOllama, EngineURL: server.URL(), ShimRunDir: server.RunDir(), NumCtx: localNumCtx, Threads: 1}
	}
	return prefill, decode, nil
}

// startWorkers starts a prefill and a decode worker per model and returns when all take jobs.
func (l *Local) startWorkers(ctx context.Context, o LocalOptions) error {
	var run context.Context
	run, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, model := range o.Models {
		for role, flags := range map[jobs.Stage]WorkerFlags{protocol.RolePrefill: l.prefill, protocol.RoleDecode: l.decode} {
			flags.NATS, flags.Model, flags.Machine = l.URL(), model, "local-"+string(role)
			if l.access != "" {
				flags.NKey, flags.TLSCA = l.access.Worker(role, model), l.access.CA()
			}
			flags.Slots, flags.HTTP = 1, "127.0.0.1:0"
			flags.StateDir = filepath.Join(o.Dir, string(role)+"-"+jobs.EncodeToken(model))
			flags.StartTimeout, flags.DrainLimit = 30*time.Second, 10*time.Second
			w, err := StartWorker(ctx, WorkerConfig{Role: role, Flags: flags, Log: o.Log})
			if err != nil {
				return err
			}
			l.workers.Go(func() {
				if err := w.Run(run); err != nil {
					o.Log.Error("worker failed", "worker", w.ID(), "err", err)
				}
			})
		}
	}
	return l.present(ctx, 2*len(o.Models), o.Log)
}

// presentLimit is how long workers that have started may need to be seen by others.
const presentLimit = 30 * time.Second

// present waits until so many workers are seen by others: before that their models are not known.
func (l *Local) present(ctx context.Context, want int, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, presentLimit)
	defer cancel()
	c, err := l.operate(ctx, log)
	if err != nil {
		return err
	}
	defer c.Close()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		workers, err := c.Workers(ctx)
		switch {
		case err != nil:
			return err
		case len(workers) >= want:
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("start workers: %d of %d are there: %w", len(workers), want, context.Cause(ctx))
		}
	}
}
