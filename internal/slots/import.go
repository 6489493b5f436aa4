package slots

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// maxDivergence is how far apart the two engines' first predictions may be, as engine.Divergence has it.
//
// Measured on llama.cpp 0.7.0 with small models of each shape, 24 prompts of 24 to 2,000 tokens each. Their
// weights are random, which is the hard case: no token is much likelier than others. The same prompt cold and
// cached differed by at most 0.016, in other batch sizes 0.011, without flash attention 0.016. A state from a processor
// with AVX-512, used with the kernels for older ones down to SSE2, differed by 0.0003, with another number of threads by
// 0.013. Another prompt differed by at least 0.45, other weights of the same shape by 0.54.
//
// Random weights in twelve layers, half of them experts, magnify the last digits: there other kernels gave up
// to 0.11, another number of threads 0.18, and the gpt-oss shape 0.35, where another prompt gave at least 0.59.
// A quarter lies between. If it is too little for a pair of machines, prompts are computed again, and that is said.
//
// The check is no more than it is: models that are certain of their first token give it after a wrong
// prompt too. That the state is the prompt's is shown by its tokens, and that it arrived whole by its digest.
const maxDivergence = 0.25

// Import has the server read a state into the slot and proves, by evaluating the prompt's last token,
// that it is used and predicts what its writer predicted. Nothing else starts on a shared server until Started
// is called, or Release. An error is a *protocol.HandoverError, or that of a server that is gone.
func (sl *Slot) Import(ctx context.Context, p Prompt, f *engine.StateFile) (engine.Imported, error) {
	if err := sl.fits(p, f); err != nil {
		return engine.Imported{}, err
	}
	started, err := sl.server.importGate.open(ctx)
	if err != nil {
		return engine.Imported{}, err
	}
	sl.window = started
	done, err := sl.readInto(ctx, p, f)
	if err != nil {
		sl.erase(ctx) // also if the connection broke off: the server may live on
		sl.Started()
		return engine.Imported{}, err
	}
	return done, nil
}

// fits checks what can be checked without the server, which a damaged file may end.
func (sl *Slot) fits(p Prompt, f *engine.StateFile) error {
	if n := len(p.head()); f.Tokens != n || n == 0 {
		return protocol.HandoverErrorf(jobs.FailRestore, "the state holds %d tokens and the prompt has %d, of which %d are wanted; the two engines read the prompt differently, so give both the same model and template", f.Tokens, len(p.Tokens), n)
	}
	if dir := sl.server.config.Dir; filepath.Dir(f.Path) != filepath.Clean(dir) {
		return protocol.HandoverErrorf(jobs.FailRestore, "the state is not in the server's folder %s", dir)
	}
	info, err := os.Stat(f.Path)
	if err != nil {
		return protocol.HandoverErrorf(jobs.FailRestore, "find state file: %w", err)
	}
	if info.Size() != f.Bytes {
		return protocol.HandoverErrorf(jobs.FailTruncated, "the state file has %d bytes and was written with %d", info.Size(), f.Bytes)
	}
	switch l, err := VerifyState(f.Path, p.head(), sl.server.config.Unread...); {
	case err != nil:
		return protocol.HandoverErrorf(jobs.FailRestore, "check the state file: %w", err)
	case len(l.of(f.Fingerprint).Differences(f.Fingerprint, true)) > 0:
		return protocol.HandoverErrorf(jobs.FailRestore, "check the state file: it is not of the layout that its fingerprint says")
	}
	return nil
}

// readInto restores the state and proves it.
func (sl *Slot) readInto(ctx context.Context, p Prompt, f *engine.StateFile) (engine.Imported, error) {
	if err := sl.move(ctx, p.Tokens); err != nil {
		return engine.Imported{}, err
	}
	var own prediction
	if p.Sample {
		var err error
		if own, err = sl.afresh(ctx, p, len(p.head())); err != nil {
			return engine.Imported{}, handoverError(ctx, jobs.FailRestore, "compute the prompt of a sampled state", err)
		}
	}
	begin := time.Now()
	if err := sl.restore(ctx, p, f); err != nil {
		return engine.Imported{}, err
	}
	done := engine.Imported{Tokens: f.Tokens, Restored: time.Since(begin)}
	p.progress()
	first, err := sl.predict(ctx, p.Tokens)
	if err != nil {
		return engine.Imported{}, handoverError(ctx, jobs.FailRestore, "evaluate the prompt's last token after its state was restored", err)
	}
	if first.cached < sl.server.Proof(f.Tokens) {
		return engine.Imported{}, protocol.HandoverErrorf(jobs.FailSilentMiss, "llama-server took a state of %d tokens and used %d of them", f.Tokens, first.cached)
	}
	p.progress()
	done.Divergence = engine.Divergence(first.tokens, f.First)
	if done.Divergence > maxDivergence {
		failed := protocol.HandoverErrorf(jobs.FailFirstToken, "the first prediction differs by %.3f from the prefill engine's, and %.3f is the limit; compare the two machines' models and builds", done.Divergence, maxDivergence)
		failed.Divergence = done.Divergence
		return engine.Imported{}, failed
	}
	if p.Sample {
		done.Sampled, done.Own = true, engine.Divergence(own.tokens, first.tokens)
		if done.Own > maxDivergence {
			failed := protocol.HandoverErrorf(jobs.FailDiffer, "what is predicted from this state differs by %.3f from what the decode engine predicts after it has computed the prompt by itself, and %.3f is the limit; "+
				"compare the two machines' drivers and builds (submitter doctor --handover)", done.Own, maxDivergence)
			failed.Divergence = done.Own
			return engine.Imported{}, failed
		}
	}
	done.Checked = first.took
	if !sl.server.config.plain() {
		// Its cache cannot be stepped back by the one token that was just evaluated.
		begin := time.Now()
		if err := sl.restore(ctx, p, f); err != nil {
			return engine.Imported{}, err
		}
		done.Restored += time.Since(begin)
	}
	if p.Restored != nil {
		p.Restored(done.Restored)
	}
	return done, nil
}

// restore has the server read the file.
func (sl *Slot) restore(ctx context.Context, p Prompt, f *engine.StateFile) error {
	sl.cache.forget()
	done, err := sl.act(ctx, "restore", filepath.Base(f.Path))
	if err != nil {
		return handoverError(ctx, jobs.FailRestore, "restore the state (llama-server's log has the cause)", err)
	}
	if done.Restored != f.Tokens {
		return protocol.HandoverErrorf(jobs.FailRestore, "llama-server read %d tokens from a state of %d", done.Restored, f.Tokens)
	}
	sl.cache.hold(p.head(), false)
	return nil
}
