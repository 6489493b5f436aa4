package handover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"tandem/internal/protocol"
)

// baseAge is how long a base is kept that no transfer used.
const baseAge = 10 * time.Minute

// bases are rows of shared prefixes: each was a part of a state that was verified as a whole, and is called by the name that was computed
// of these very bytes. They lie in files without names, which only this process can read and which end with it.
type bases struct {
	budget int64 // bytes; 0: none are kept
	age    time.Duration
	log    *slog.Logger

	running context.Context // ends when the client is closed
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu     sync.Mutex
	held   []*base                  // the one used last is the last
	coming map[string]chan struct{} // closed when whoever fetches the first state of a prefix has a base of it, or has failed
	failed time.Time                // when one could not be kept
}

// base is the rows of one prefix, one behind the other. All but its file is guarded by mu.
type base struct {
	name   string
	file   *os.File
	bytes  int64
	users  int // transfers
	gone   bool
	expiry *time.Timer
}

func newBases(budget int64, age time.Duration, log *slog.Logger) *bases {
	b := &bases{budget: budget, age: age, log: log, coming: map[string]chan struct{}{}}
	b.running, b.stop = context.WithCancel(context.Background())
	return b
}

// take returns the base of this name, which must be given back. If there is none and nobody fetches one, whoever asks has the turn to: it
// fetches a whole state, and others of the same prefix wait for it, since two whole ones at once take as long. The turn ends when it is
// called; it is nil for whoever does not have it. If that came to nothing, those who waited have neither base nor turn, and fetch whole states.
func (b *bases) take(ctx context.Context, p *prefix, progress func()) (found *base, turn func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found := b.use(p.Name); found != nil {
		return found, nil, nil
	}
	if sum(p.Rows) > b.budget || time.Since(b.failed) < b.age {
		return nil, nil, nil
	}
	coming := b.coming[p.Name]
	if coming == nil {
		coming = make(chan struct{})
		b.coming[p.Name] = coming
		return nil, sync.OnceFunc(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.coming, p.Name)
			close(coming)
		}), nil
	}
	b.mu.Unlock()
	err = wait(ctx, coming, progress)
	b.mu.Lock()
	return b.use(p.Name), nil, err
}

// wait waits for the end of another transfer, which does not go on for ever without progress.
func wait(ctx context.Context, done <-chan struct{}, progress func()) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-tick.C:
			progress()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// use returns the base of this name for one transfer, nil if there is none; mu is held.
func (b *bases) use(name string) *base {
	i := slices.IndexFunc(b.held, func(h *base) bool { return h.name == name })
	if i < 0 {
		return nil
	}
	found := b.held[i]
	b.held = append(slices.Delete(b.held, i, i+1), found)
	found.users++
	found.expiry.Stop()
	return found
}

// holds reports whether there is a base of this name, or soon will be.
func (b *bases) holds(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.coming[name] != nil || slices.ContainsFunc(b.held, func(h *base) bool { return h.name == name })
}

// giveBack ends one transfer's use of a base.
func (b *bases) giveBack(h *base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.users--; !h.gone {
		h.expiry.Reset(b.age)
	}
	h.closeUnused()
}

// keep has the rows of a file that was verified copied, beside what else goes on, and ends the turn then. It closes the file.
func (b *bases) keep(p *prefix, file *os.File, dir, prefix string, spare int64, turn func()) {
	b.work.Go(func() {
		defer turn()
		defer file.Close()
		made, err := b.copy(p, file, dir, prefix, spare)
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case b.running.Err() != nil && made != nil:
			_ = made.file.Close()
		case err != nil:
			b.failed = time.Now()
			b.log.Warn("the rows of a shared prefix are not kept, so that they travel again with each KV state for a while", "for", b.age, "error", err)
		default:
			b.add(made)
		}
	})
}

var (
	errNoRoom    = errors.New("the disk has no room for them beside a KV state")
	errOtherRows = errors.New("they are not those that the prefill worker named")
)

// copy makes a base. So many bytes more than it needs must be free on the disk.
func (b *bases) copy(p *prefix, from *os.File, dir, prefix string, spare int64) (_ *base, err error) {
	made := &base{name: p.Name, bytes: sum(p.Rows)}
	if free, err := freeBytes(dir); err == nil && free < uint64(made.bytes+spare) {
		return nil, errNoRoom
	}
	if made.file, err = os.CreateTemp(dir, prefix+"*"+partSuffix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = made.file.Close()
		}
	}()
	if err := os.Remove(made.file.Name()); err != nil {
		return nil, err
	}
	name, err := copyRows(b.running, made.file, from, p.Rows)
	if err == nil && name != p.Name {
		err = errOtherRows
	}
	return made, err
}

// add holds a base, and drops those not used for the longest time if there is no room for all; mu is held.
func (b *bases) add(made *base) {
	b.dropTo(b.budget - made.bytes)
	made.expiry = time.AfterFunc(b.age, func() { b.drop(made) })
	b.held = append(b.held, made)
}

// dropTo drops bases until no more than so many bytes are held; mu is held.
func (b *bases) dropTo(most int64) (dropped bool) {
	held := int64(0)
	for _, h := range b.held {
		held += h.bytes
	}
	for len(b.held) > 0 && held > most {
		held -= b.held[0].bytes
		b.forget(b.held[0])
		dropped = true
	}
	return dropped
}

// drop drops a base, for it is wrong or old.
func (b *bases) drop(h *base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(h)
}

// clear drops all, and reports whether there were any.
func (b *bases) clear() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropTo(0)
}

// forget drops a base; mu is held.
func (b *bases) forget(h *base) {
	b.held = slices.DeleteFunc(b.held, func(other *base) bool { return other == h })
	h.gone = true
	h.expiry.Stop()
	h.closeUnused()
}

// closeUnused closes a base that is gone and that no transfer reads.
func (h *base) closeUnused() {
	if h.gone && h.users == 0 {
		_ = h.file.Close() // a second time if it is dropped again, which does nothing
	}
}

func (b *bases) close() {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.work.Wait()
	b.clear()
}

func sum(rows []protocol.Span) (bytes int64) {
	for _, r := range rows {
		bytes += r.Bytes
	}
	return bytes
}
