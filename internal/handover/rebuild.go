package handover

import (
	"context"
	"errors"
	"slices"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// run fetches the state: only what is new of it, if the rows of its prefix are here, and else the whole. If that fails in any way, the
// whole travels; and either way it is the SHA-256 of the whole that says whether it is the state.
func (t *transfer) run(ctx context.Context) error {
	p, err := t.askPrefix(ctx)
	if err != nil {
		return err
	}
	if p == nil {
		return t.pull(ctx)
	}
	t.name = p.Name
	found, turn, err := t.client.bases.take(ctx, p, t.progress)
	if err != nil {
		return err
	}
	if found != nil {
		defer t.client.bases.giveBack(found)
		if err := t.rebuild(ctx, p, found); err == nil || !t.failed {
			return err
		}
		return t.pull(ctx)
	}
	if turn == nil {
		return t.pull(ctx)
	}
	if err := t.pull(ctx); err != nil {
		turn()
		return err
	}
	if file, err := t.target.written(); err == nil {
		t.client.bases.keep(p, file, t.target.dir, t.target.prefix, t.state.Bytes, turn)
	} else {
		turn() // without rows for the next ones; the state is there
	}
	return nil
}

// askPrefix asks where the rows are that other states have too; nil if they are not known, or of no use here. An error is one that the
// whole state would meet as well.
func (t *transfer) askPrefix(ctx context.Context) (*prefix, error) {
	if t.state.Prefix <= 0 || t.client.bases.budget <= 0 {
		return nil, nil
	}
	answer, err := t.ask(ctx, wantPrefix, prefixWait, mostPrefix)
	var p *prefix
	if err == nil && answer != nil {
		p, err = parsePrefix(answer, t.state.Bytes)
	}
	b, broken := errors.AsType[brokenError](err)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case broken:
		return nil, b.error
	case hopeless(err):
		return nil, err
	case err != nil:
		t.notRebuilt(err)
		return nil, nil
	}
	return p, nil
}

// rebuild puts the state together from rows that are here and what is new. If that fails in a way in which the whole may not, the rows are
// dropped and all is as before.
func (t *transfer) rebuild(ctx context.Context, p *prefix, found *base) error {
	t.rows, t.base, t.rest = p.Rows, found, newRest(nil, p.Rows, t.state.Bytes)
	err := t.pull(ctx)
	if err == nil || ctx.Err() != nil || hopeless(err) {
		return err
	}
	t.notRebuilt(err)
	t.client.bases.drop(found)
	t.rows, t.base, t.rest = nil, nil, nil
	if resetErr := t.target.reset(); resetErr != nil {
		t.failed = false
		return resetErr
	}
	return err
}

// hopeless reports whether a failure has nothing to do with what was asked for: the network, the sender or the disk failed.
func hopeless(err error) bool {
	h, ok := errors.AsType[*protocol.HandoverError](err)
	return ok && slices.Contains([]jobs.Failure{jobs.FailUnreachable, jobs.FailTooSlow, jobs.FailRefusedURL, jobs.FailDisk}, h.Failure)
}

// refusedPart is the failure of a sender that answers, but not with the part that was asked for: the whole may be there all the same.
func refusedPart(err error) error { return protocol.HandoverErrorf(jobs.FailNotFound, "%w", err) }

// notRebuilt notes that the whole state has to travel although only a part should.
func (t *transfer) notRebuilt(why error) {
	t.failed = true
	t.client.log.Warn("the shared part of a KV state was of no use, and all of it is fetched", "from", t.url.Host, "error", why)
}
