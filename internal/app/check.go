package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/internal/atomicfile"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// checkLimit bounds a check: an engine that hangs must not keep its worker from finding that out.
const checkLimit = time.Minute

// checkAgain is how long after a check that failed the next one is made.
const checkAgain = 5 * time.Second

// checkEvery is how often a worker looks whether its engine is another one.
const checkEvery = 100 * time.Millisecond

// checks is what a worker's engine predicts after the prompts of the check, for as long as that is the same engine. It is kept in a file, for
// a worker that starts again beside an engine that goes on.
type checks struct {
	file string
	one  sync.Mutex // at a time

	mu     sync.Mutex
	of     checkedEngine
	made   *protocol.Check
	failed error // of the last try, if it was not made
	again  time.Time
}

// checkedEngine is what a check is of.
type checkedEngine struct {
	Fingerprint jobs.Fingerprint `json:"fingerprint"`
	Start       string           `json:"start"`
}

func (e checkedEngine) same(o checkedEngine) bool {
	return e.Start == o.Start && len(e.Fingerprint.Differences(o.Fingerprint, true)) == 0
}

// checkFile is the form of the file.
type checkFile struct {
	Engine checkedEngine   `json:"engine"`
	Check  *protocol.Check `json:"check"`
}

// openChecks reads what an earlier run left in the state folder, which need not be there.
func openChecks(role jobs.Stage, f WorkerFlags) (*checks, error) {
	c := &checks{file: filepath.Join(f.StateDir, "check-"+string(role)+".json")}
	data, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	var kept checkFile
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if _, now := engine.CheckPrompts(); err == nil && kept.Engine.Start != "" && kept.Check != nil && kept.Check.Prompts == now {
		c.of, c.made = kept.Engine, kept.Check // else nobody knows whether it is the same engine
	}
	return c, err
}

// current is the check of an engine that describes itself so; nil if there is none yet, or, as why says, because it could not be made.
func (c *checks) current(d engine.Description) (check *protocol.Check, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d.KVTransfer == nil:
	case c.made != nil && c.of.same(checkedEngine{d.KVTransfer.Fingerprint, d.KVTransfer.Start}):
		return c.made, ""
	case c.failed != nil:
		return nil, "its engine could not be checked: " + c.failed.Error()
	}
	return nil, ""
}

// due reports whether it is time to make one, if there is none.
func (c *checks) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed == nil || time.Now().After(c.again)
}

// renew has the engine checked.
func (c *checks) renew(ctx context.Context, e engine.Engine, m *engine.KVTransfer) error {
	limited, cancel := context.WithTimeoutCause(ctx, checkLimit, jobs.Errorf(jobs.CodeEngineBusy, "it did not answer within %v", checkLimit))
	defer cancel()
	check, err := e.(engine.Checker).Check(limited)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made, c.failed, c.again = check, err, time.Now().Add(checkAgain)
	if err != nil {
		return err
	}
	c.of = checkedEngine{m.Fingerprint, check.Start}
	data, err := json.Marshal(checkFile{c.of, check})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(c.file, data, 0o600)
}

// unchecked reports whether the engine moves KV states and is to be checked now.
func (w *Worker) unchecked(d engine.Description) bool {
	_, can := w.engine.(engine.Checker)
	check, _ := w.checks.current(d)
	return can && d.KVTransfer != nil && check == nil && w.noState(d) == "" && w.checks.due()
}

// check has the worker's engine checked, if that is needed.
func (w *Worker) check(ctx context.Context) {
	w.checks.one.Lock()
	defer w.checks.one.Unlock()
	d := w.monitor.Health().Description
	if !w.unchecked(d) {
		return
	}
	start := time.Now()
	_, before := w.checks.current(d)
	err := w.checks.renew(ctx, w.engine, d.KVTransfer)
	switch check, why := w.checks.current(d); {
	case ctx.Err() != nil:
	case check == nil && why == before: // which was said
	case check == nil:
		w.log.Warn("the engine is not checked; until it is, no KV states are handed over", "why", why)
	case err != nil:
		w.log.Warn("the check of the engine is not kept for the next start", "error", err)
	default:
		w.log.Info("the engine is checked", "seconds", time.Since(start).Seconds(), "with_cache_or_without", check.Cached, "token_by_token_or_in_batches", check.Single)
	}
	w.queue.Changed()
}

// keepChecking has the engine checked again when it is another one than was checked, also while there are no jobs.
func (w *Worker) keepChecking(ctx context.Context) {
	look := time.NewTicker(checkEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if !w.unchecked(w.monitor.Health().Description) {
			continue
		}
		release, err := w.slots.Acquire(ctx)
		if err != nil {
			return
		}
		w.check(ctx)
		release()
	}
}

// checkSoon is how long a decode worker waits to hear that the engine of a prefill worker is checked. That is done before its first job; only of an engine that was
// started again in the midst of one it comes later.
const checkSoon = 4 * time.Second

// engines names the engines of a prefill worker, "machine/worker", and of this one, each with another name after each of its starts.
func (w *Worker) engines(server string) string {
	names := []string{server}
	for _, p := range w.queue.Peers() {
		if p.Machine+"/"+p.Worker == server && p.Check != nil {
			names = append(names, p.Check.Start)
		}
	}
	if m := w.monitor.Health().Description.KVTransfer; m != nil {
		names = append(names, m.Start)
	}
	return strings.Join(names, " ")
}

// differs is why no KV states of a prefill worker, named "machine/worker", are taken here: its engine predicts something else, or nobody knows what it
// predicts. It is empty if nothing is known against them, as of a worker that is gone, whose states are gone with it.
func (w *Worker) differs(ctx context.Context, server string) string {
	for end := time.Now().Add(checkSoon); ; {
		present := w.queue.Peers()
		i := slices.IndexFunc(present, func(p queue.Presence) bool { return p.Role == protocol.RolePrefill && p.Machine+"/"+p.Worker == server })
		if i < 0 {
			return ""
		}
		p := present[i]
		check, why := w.checks.current(w.monitor.Health().Description)
		if check != nil && p.Check != nil {
			return engine.Differ(p.Machine, p.Check, w.flags.Machine, check)
		}
		late := time.Now().After(end)
		if _, before := w.silent.Load(server); before || late || why != "" || ctx.Err() != nil {
			if late {
				w.silent.Store(server, true)
			}
			machine := p.Machine
			if p.Check != nil {
				machine = w.flags.Machine
			}
			return cmp.Or(why, "the engine of "+machine+" has not been checked; install the same version of Tandem on both machines, and look at that worker's log")
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
