package app

import (
	"context"
	"path/filepath"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// When a worker measures its engine.
const (
	measureAuto  = "auto"  // at its start, if nothing is known of it
	measureNever = "never" // jobs do that
)

// slotsLimit bounds how long HTTP calls are waited for that were there before the engine could be measured.
const slotsLimit = 5 * time.Second

// keepRatesEvery is how often a worker writes down what it has measured.
const keepRatesEvery = time.Minute

// ratesFile is where a worker keeps what it has measured of its engine.
func ratesFile(role jobs.Stage, f WorkerFlags) string {
	return filepath.Join(f.StateDir, "rates-"+string(role)+".json")
}

// subject is what the rates are of that are measured now.
func (w *Worker) subject() engine.Subject { return engine.SubjectOf(w.monitor.Health().Description) }

// measuring takes up what an earlier run has measured and checked. If that is not enough, it takes all slots of the engine, so that jobs and HTTP calls wait,
// and what it returns measures and checks the engine and gives them back; else that does nothing.
func (w *Worker) measuring(ctx context.Context) (measure func()) {
	about := w.monitor.Health().Description
	if err := w.rates.Begin(ratesFile(w.role, w.flags), engine.SubjectOf(about)); err != nil {
		w.log.Warn("rates measured by an earlier run are lost", "error", err)
	}
	slots := w.slots.Size()
	if about.Slots > 0 {
		slots = min(slots, about.Slots)
	}
	known := w.flags.Measure == measureNever || !about.Generates() || w.rates.Known(slots)
	if w.noState(about) != "" {
		about.KVTransfer = nil
	}
	if ctx.Err() != nil || known && !w.unchecked(about) {
		return func() {}
	}
	var taken []func()
	give := func() {
		for _, release := range taken {
			release()
		}
	}
	soon, cancel := context.WithTimeout(ctx, slotsLimit)
	defer cancel()
	for range w.slots.Size() {
		release, err := w.slots.Acquire(soon)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("the engine is not measured, since calls over HTTP keep it busy; jobs will do that")
		}
		if err != nil {
			return give
		}
		taken = append(taken, release)
	}
	return func() {
		defer w.queue.Changed() // so that others know
		defer give()
		w.check(ctx)
		if known {
			return
		}
		start := time.Now()
		w.log.Info("the engine is measured before it takes jobs", "slots", slots)
		err := w.rates.Measure(ctx, w.engine, about, slots)
		took, now := time.Since(start).Seconds(), w.rates.Snapshot()
		switch {
		case ctx.Err() != nil: // the worker is being stopped
		case err != nil:
			w.log.Warn("the engine could not be measured to the end; jobs will do that", "seconds", took, "error", err)
			w.monitor.Suspect()
		default:
			w.log.Info("the engine is measured", "seconds", took, "prefill_by_length", now.PrefillByLength, "decode_by_length", now.DecodeByLength,
				"decode_by_busy", now.DecodeByBusy, "save_bytes_per_second", now.SaveBytesPerSecond, "restore_bytes_per_second", now.RestoreBytesPerSecond)
		}
	}
}
