package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/client/admin"
)

// run does the batches that nobody does, until ctx ends. It hears of each change of one.
func (b *batches) run(ctx context.Context) {
	defer b.runs.Wait()
	open := map[string]*batchRecord{} // not ended, by key
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		watch, err := b.kv.WatchAll(ctx)
		if err != nil {
			b.Log.Warn("batches wait: their state cannot be watched", "error", err)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			continue
		}
		b.watch(ctx, watch, tick, open)
		_ = watch.Stop()
	}
}

func (b *batches) watch(ctx context.Context, watch jetstream.KeyWatcher, tick *time.Ticker, open map[string]*batchRecord) {
	for {
		select {
		case entry, more := <-watch.Updates():
			if !more {
				return
			}
			if entry == nil { // all that was there has been said
				continue
			}
			var record batchRecord
			if entry.Operation() != jetstream.KeyValuePut || json.Unmarshal(entry.Value(), &record) != nil || record.Batch.ended() {
				delete(open, entry.Key())
				continue
			}
			open[entry.Key()] = &record
			b.mu.Lock()
			run := b.running[entry.Key()]
			b.mu.Unlock()
			switch {
			case run != nil && record.Batch.Status == batchCancelling:
				run.endEarly()
			case run == nil && record.Runner == "":
				b.claim(ctx, entry.Key())
			}
		case <-tick.C:
			for key, record := range open {
				b.mu.Lock()
				run := b.running[key]
				b.mu.Unlock()
				if run == nil && b.now().After(record.Until) {
					b.claim(ctx, key)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// claim begins to do a batch, unless another gateway has begun.
func (b *batches) claim(ctx context.Context, key string) {
	ours := false
	record, err := b.change(ctx, key, func(r *batchRecord) bool {
		if ours = !r.Batch.ended() && b.now().After(r.Until); ours {
			r.Runner, r.Until, r.Starts = b.name, b.now().Add(leaseFor), r.Starts+1
		}
		return ours
	})
	if err != nil || !ours {
		if err != nil && ctx.Err() == nil && !errors.Is(err, errNoBatch) {
			b.Log.Warn("a batch waits: its state cannot be written", "error", err)
		}
		return
	}
	run := &batchRun{b: b, key: key, record: record, system: b.client(record.User), early: make(chan struct{}), log: b.Log.With("batch", record.Batch.ID)}
	if record.Batch.Status == batchCancelling {
		run.endEarly()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[key] = run
	if b.slots[record.User] == nil {
		b.slots[record.User] = make(chan struct{}, window)
	}
	run.slots = b.slots[record.User]
	b.runs.Go(func() {
		run.do(ctx)
		b.mu.Lock()
		delete(b.running, key)
		b.mu.Unlock()
	})
}

// batchRun is the doing of a batch.
type batchRun struct {
	b      *batches
	key    string
	system *admin.Client // of its user
	slots  chan struct{}
	log    *slog.Logger

	once  sync.Once
	early chan struct{} // closed when the batch is to end before its end

	record *batchRecord // as it was when it was claimed

	mu     sync.Mutex
	status string // as it was written last
	counts batchCounts
	used   Usage
}

func (r *batchRun) endEarly() { r.once.Do(func() { close(r.early) }) }

func (r *batchRun) ending() bool {
	select {
	case <-r.early:
		return true
	default:
		return false
	}
}

var errLost = errors.New("another gateway does the batch")

// save writes the record, as long as the batch is this gateway's.
func (r *batchRun) save(ctx context.Context, edit func(b *batch)) error {
	lost := false
	record, err := r.b.change(ctx, r.key, func(now *batchRecord) bool {
		if lost = now.Runner != r.b.name; lost {
			return false
		}
		r.mu.Lock()
		now.Batch.Counts = r.counts
		r.mu.Unlock()
		now.Until = r.b.now().Add(leaseFor)
		if edit != nil {
			edit(&now.Batch)
		}
		return true
	})
	if lost {
		return errLost
	}
	if err == nil {
		r.mu.Lock()
		r.status = record.Batch.Status
		r.mu.Unlock()
	}
	return err
}

// do does the batch to its end, or until ctx ends, after which another goes on at once.
func (r *batchRun) do(parent context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := r.save(ctx, nil); errors.Is(err, errLost) || errors.Is(err, errNoBatch) {
					cancel(err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	err := r.toEnd(ctx)
	cancel(nil)
	renewing.Wait()
	switch {
	case err == nil:
		r.log.Info("a batch ended", "status", r.status, "requests", r.counts.Total, "completed", r.counts.Completed, "failed", r.counts.Failed)
	case parent.Err() != nil: // the gateway stops
		last, stop := context.WithTimeout(context.WithoutCancel(parent), 2*time.Second)
		defer stop()
		_, _ = r.b.change(last, r.key, func(now *batchRecord) bool {
			if now.Runner != r.b.name {
				return false
			}
			now.Runner, now.Until = "", time.Time{}
			return true
		})
	default:
		r.log.Warn("a batch waits, and is tried again", "error", err)
	}
}

func (r *batchRun) fail(ctx context.Context, wrong ...batchError) error {
	return r.save(ctx, func(b *batch) {
		b.Status, b.FailedAt, b.Errors = batchFailed, r.b.now().Unix(), &batchErrors{"list", wrong}
	})
}

// toEnd does the batch. What it did before it failed is not done twice.
func (r *batchRun) toEnd(ctx context.Context) error {
	file, err := r.fetch(ctx)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return r.fail(ctx, batchError{Code: "no_file", Message: "file " + r.record.Batch.InputFile + " is not there any more"})
	}
	if err != nil {
		return err
	}
	defer file.Close()
	plan, wrong, err := r.check(ctx, file)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		return r.fail(ctx, wrong...)
	}
	r.mu.Lock()
	r.counts.Total = plan.lines
	r.mu.Unlock()
	err = r.save(ctx, func(b *batch) {
		if b.InProgressAt == 0 {
			b.InProgressAt = r.b.now().Unix()
		}
		if b.Status == batchValidating {
			b.Status = batchRunning
		}
	})
	if err != nil {
		return err
	}
	out, err := newOutcome()
	if err != nil {
		return err
	}
	defer out.close()
	if err := r.all(ctx, file, plan, out); err != nil {
		return err
	}
	err = r.save(ctx, func(b *batch) {
		b.FinalizingAt = r.b.now().Unix()
		if b.Status == batchRunning {
			b.Status = batchFinalizing
		}
	})
	if err != nil {
		return err
	}
	id := strings.TrimPrefix(r.record.Batch.ID, "batch_")
	output, err := out.put(ctx, r, "file-"+jobID(id, -1), out.good)
	if err != nil {
		return err
	}
	failed, err := out.put(ctx, r, "file-"+jobID(id, -2), out.bad)
	if err != nil {
		return err
	}
	err = r.save(ctx, func(b *batch) {
		now := r.b.now().Unix()
		b.OutputFile, b.ErrorFile = output, failed
		switch {
		case b.Status == batchCancelling:
			b.Status, b.CancelledAt = batchCancelled, now
		case now >= b.ExpiresAt:
			b.Status, b.ExpiredAt = batchExpired, now
		default:
			b.Status, b.CompletedAt = batchCompleted, now
		}
	})
	if err == nil && r.used.Requests > 0 && r.b.account != nil {
		r.b.account.add(r.used) // once, whatever was done again
	}
	return err
}
