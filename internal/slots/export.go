package slots

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	suffix    = ".kv" // of the names of state files
	saveLimit = time.Minute
)

// Export writes the state of a slot that was prefilled to a file, and then evaluates the last token, which
// the decode side must predict the same from. What proves the state's use there proves here that it was the
// prompt's. An error is a *protocol.HandoverError, or that of a server that is gone.
func (sl *Slot) Export(ctx context.Context, p Prompt) (*engine.StateFile, error) {
	defer sl.endTurn()
	if err := sl.server.canMove(); err != nil {
		return nil, err
	}
	n := len(p.head())
	if n == 0 {
		return nil, protocol.HandoverErrorf(jobs.FailSave, "a prompt of one token has no state to hand over")
	}
	started, err := sl.server.importGate.open(ctx) // no request may take the slot in between
	if err != nil {
		return nil, err
	}
	defer started()
	f, err := sl.save(ctx, n, saveLimit)
	if err != nil {
		return nil, err
	}
	p.progress()
	l, rows, err := readState(f.Path, sl.prefix(), sl.server.config.Unread)
	if err != nil {
		sl.discard(f.Path)
		return nil, protocol.HandoverErrorf(jobs.FailSave, "the state just written is not understood: %w", err)
	}
	f.Fingerprint = sl.server.learn(l)
	if f.Rows = worth(rows, f.Bytes); f.Rows != nil {
		f.Prefix = sl.prefix()
	}
	first, err := sl.predict(ctx, p.Tokens)
	switch {
	case err != nil:
		err = handoverError(ctx, jobs.FailSave, "evaluate the prompt's last token after saving its state", err)
	case first.cached < sl.server.Proof(n):
		err = protocol.HandoverErrorf(jobs.FailSave, "slot %d held %d of the prompt's %d tokens after its state was saved, so another request has used it; let only the worker use this llama-server, and start it with --no-cache-idle-slots", sl.cache.id, first.cached, n)
	}
	if err != nil {
		sl.discard(f.Path)
		return nil, err
	}
	f.First = first.tokens
	return f, nil
}

// save writes the slot's state, of n tokens, to a file that only we can read, within the limit.
func (sl *Slot) save(ctx context.Context, n int, limit time.Duration) (f *engine.StateFile, err error) {
	name := sl.server.config.Prefix + strings.ToLower(rand.Text()) + suffix
	path := filepath.Join(sl.server.config.Dir, name)
	defer func() {
		if err != nil {
			sl.discard(path)
		}
	}()
	// The server writes the file to its end, or begins it later, even if nobody waits for it any more; then
	// it would be left behind.
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	begin := time.Now()
	done, err := sl.act(detached, "save", name)
	took := time.Since(begin)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, handoverError(ctx, jobs.FailSave, "save the state (is there room in "+sl.server.config.Dir+"?)", err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, protocol.HandoverErrorf(jobs.FailSave, "llama-server saved a state, but not to %s, which the worker was told; name the folder of its --slot-save-path: %w", sl.server.config.Dir, err)
	case info.Size() != done.Written || done.Written == 0:
		return nil, protocol.HandoverErrorf(jobs.FailSave, "the state file has %d bytes and llama-server says that it wrote %d; look for room in %s", info.Size(), done.Written, sl.server.config.Dir)
	case done.Saved != n:
		return nil, protocol.HandoverErrorf(jobs.FailSave, "slot %d held %d tokens where prefill left %d, so another request has used it; let only the worker use this llama-server, and start it with --no-cache-idle-slots", sl.cache.id, done.Saved, n)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		// The server may run as another user, whose file it is; the folder keeps others out then.
		sl.server.config.Log.Debug("a state file's mode could not be changed", "error", err)
	}
	return &engine.StateFile{Path: path, Bytes: done.Written, Tokens: n, Saved: took}, nil
}

// discard removes a file that is worth nothing.
func (sl *Slot) discard(path string) {
	if err := remove(path); err != nil {
		sl.server.config.Log.Warn("a state file could not be removed", "error", err)
	}
}
