package handover

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	// offerLimit is how long a state is kept whose job's decode message was never published, to our knowledge.
	offerLimit = 10 * time.Minute
	// aliveLimit bounds one question after decode messages.
	aliveLimit = 10 * time.Second
	// missesAllowed is how often in a row a decode message may be missing. A stream that has just
	// changed its leader can answer once without one that it has.
	missesAllowed = 1
)

var errClosed = errors.New("the server for KV states is closed")

// lease is a state that is held for a job. What mu of its ledger guards is said; the rest never changes.
type lease struct {
	job     atomic.Pointer[string]
	id      string            // of the URL
	token   [sha256.Size]byte // hash of the token
	path    string
	file    fs.FileInfo
	bytes   int64
	offered time.Time

	published bool // guarded, as is missed
	missed    int  // questions in a row by which the decode message was gone

	released context.Context // ends with the lease
	release  context.CancelFunc
	digest   *digest
	rows     []protocol.Span // of the file, that others have too; may be none
	named    chan struct{}   // closed when name is set
	name     string          // of the rows
}

// jobID is the job for which the state is held now.
func (s *lease) jobID() string { return *s.job.Load() }

// leases is what a server holds: states by the id in their URL, within a budget of disk space. It
// decides when each is released.
type leases struct {
	budget int64
	alive  func(ctx context.Context, ids []string) (map[string]bool, error)
	every  time.Duration
	log    *slog.Logger
	nobody [sha256.Size]byte // hash of a token that no state has

	running context.Context // ends when the server is closed
	stop    context.CancelFunc
	work    sync.WaitGroup
	hashing chan struct{} // holds a value while a digest is computed

	mu      sync.Mutex
	held    map[string]*lease // by id
	bytes   int64             // of all that is held
	changed chan struct{}     // closed when something is released
}

func newLeases(budget int64, alive func(context.Context, []string) (map[string]bool, error), every time.Duration, log *slog.Logger) *leases {
	l := &leases{
		budget: budget, alive: alive, every: every, log: log, nobody: sha256.Sum256([]byte(rand.Text())),
		hashing: make(chan struct{}, 1), held: map[string]*lease{}, changed: make(chan struct{}),
	}
	l.running, l.stop = context.WithCancel(context.Background())
	l.work.Go(l.look)
	return l
}

// room waits until so many bytes may be held beside what is held already.
func (l *leases) room(ctx context.Context, bytes int64) error {
	if bytes > l.budget {
		return protocol.HandoverErrorf(jobs.FailBudget, "a KV state of %s is more than the budget of %s; raise --handover-budget", units.Bytes(bytes), units.Bytes(l.budget))
	}
	for {
		l.mu.Lock()
		free, changed := l.bytes+bytes <= l.budget, l.changed
		l.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-changed:
		case <-l.running.Done():
			return errClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// offer returns the new lease and the token that goes with it, which is not kept.
func (l *leases) offer(jobID, path string, rows ...protocol.Span) (s *lease, token string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", protocol.HandoverErrorf(jobs.FailSave, "read the KV state that was saved: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = protocol.HandoverErrorf(jobs.FailSave, "read the KV state that was saved: %w", err)
	case !info.Mode().IsRegular() || info.Size() == 0:
		err = protocol.HandoverErrorf(jobs.FailSave, "the KV state that was saved is empty, or no file")
	case len(rows) > 0:
		if err = checkRows(rows, info.Size()); err != nil {
			err = protocol.HandoverErrorf(jobs.FailSave, "describe the KV state that was saved: %w", err)
		}
	}
	if err != nil {
		return nil, "", errors.Join(err, file.Close())
	}
	token = rand.Text()
	s = &lease{
		id: newID(), token: sha256.Sum256([]byte(token)), path: path, file: info, bytes: info.Size(),
		offered: time.Now(), digest: newDigest(file, info.Size()), rows: rows, named: make(chan struct{}),
	}
	s.job.Store(&jobID)
	s.released, s.release = context.WithCancel(l.running)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running.Err() != nil {
		s.release()
		return nil, "", errors.Join(errClosed, file.Close())
	}
	l.held[s.id] = s
	l.bytes += s.bytes
	l.work.Go(func() { l.hash(s) })
	return s, token, nil
}

// hash names a state's rows, which a receiver waits for before it begins, and computes the digest when its turn has come: several at
// once would only take the processor from one another, and from the engine.
func (l *leases) hash(s *lease) {
	defer s.digest.close()
	if len(s.rows) > 0 {
		name, err := copyRows(s.released, io.Discard, s.digest.file, s.rows)
		if err == nil { // else reading it all fails, too
			s.name = name
			close(s.named)
		}
	}
	select {
	case l.hashing <- struct{}{}:
		defer func() { <-l.hashing }()
	case <-s.released.Done():
		return
	}
	if err := s.digest.compute(s.released); err != nil && s.released.Err() == nil {
		l.log.Warn("a KV state cannot be read and is dropped", "job", s.jobID(), "error", err)
		l.drop(s)
	}
}

func (l *leases) published(jobID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.of(jobID) {
		s.published = true
	}
}

func (l *leases) pass(from, to string) (any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.of(from) {
		s.job.Store(&to)
		any = true
	}
	return any
}

func (l *leases) release(jobID string) {
	l.mu.Lock()
	list := slices.Collect(l.of(jobID))
	l.mu.Unlock()
	l.drop(list...)
}

// of yields the job's leases; l.mu is held.
func (l *leases) of(jobID string) func(yield func(*lease) bool) {
	return func(yield func(*lease) bool) {
		for _, s := range l.held {
			if s.jobID() == jobID && !yield(s) {
				return
			}
		}
	}
}

// drop ends leases and removes their files. What is being sent is not cut, since a file that is open outlives
// its name; but there is no digest for it any more, so that it will not be used.
func (l *leases) drop(list ...*lease) {
	var gone []*lease
	l.mu.Lock()
	for _, s := range list {
		if l.held[s.id] == s {
			delete(l.held, s.id)
			l.bytes -= s.bytes
			gone = append(gone, s)
		}
	}
	if len(gone) > 0 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.mu.Unlock()
	for _, s := range gone {
		s.release()
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.log.Warn("the file of a KV state cannot be removed", "job", s.jobID(), "error", err)
		}
	}
}

// find returns the state with this id, if the token is its. It takes as long for a state that does not exist.
func (l *leases) find(id, token string) *lease {
	l.mu.Lock()
	s := l.held[id]
	l.mu.Unlock()
	want := l.nobody
	if s != nil {
		want = s.token
	}
	got := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return nil
	}
	return s
}

// look ends, from time to time, the leases that have no reason any more.
func (l *leases) look() {
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	var before error
	for {
		select {
		case <-ticker.C:
			l.dropForgotten()
			err := l.dropConsumed()
			if err != nil && before == nil { // said once for each outage
				l.log.Warn("cannot ask which KV states are still needed; all are kept", "error", err)
			}
			before = err
		case <-l.running.Done():
			return
		}
	}
}

// dropForgotten releases what was never published.
func (l *leases) dropForgotten() {
	l.mu.Lock()
	var list []*lease
	for _, s := range l.held {
		if !s.published && time.Since(s.offered) >= offerLimit {
			list = append(list, s)
		}
	}
	l.mu.Unlock()
	for _, s := range list {
		l.log.Warn("a KV state was offered, and no job was published with it; it is dropped", "job", s.jobID(), "after", offerLimit)
	}
	l.drop(list...)
}

// dropConsumed releases what was published and whose decode message is gone. If nobody can be asked, all is kept.
func (l *leases) dropConsumed() error {
	l.mu.Lock()
	var asked []*lease
	ids := map[string]bool{}
	for _, s := range l.held {
		if s.published {
			asked = append(asked, s)
			ids[s.jobID()] = true
		}
	}
	l.mu.Unlock()
	if len(asked) == 0 || l.alive == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.running, aliveLimit)
	defer cancel()
	alive, err := l.alive(ctx, slices.Sorted(maps.Keys(ids)))
	if err != nil {
		if l.running.Err() != nil { // the server is being closed
			return nil
		}
		return err
	}
	l.mu.Lock()
	var gone []*lease
	for _, s := range asked {
		switch {
		case alive[s.jobID()]:
			s.missed = 0
		case s.missed < missesAllowed:
			s.missed++
		default:
			gone = append(gone, s)
		}
	}
	l.mu.Unlock()
	l.drop(gone...)
	return nil
}

// enter lets a request in, unless the server is closed. Closing waits until it leaves.
func (l *leases) enter() (leave func(), open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running.Err() != nil {
		return nil, false
	}
	l.work.Add(1)
	return l.work.Done, true
}

// close releases everything and waits for what runs.
func (l *leases) close() {
	l.mu.Lock()
	l.stop()
	list := slices.Collect(maps.Values(l.held))
	l.mu.Unlock()
	l.drop(list...)
	l.work.Wait()
}

// newID is 128 random bits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
