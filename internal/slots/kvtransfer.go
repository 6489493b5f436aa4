package slots

import (
	"context"
	"errors"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	sampleLimit = 5 * time.Second // for a server to write a sample state; it may be busy
	sampleAgain = 5 * time.Minute // until one that did not is asked again
	sampleText  = "A state of these few words shows how this server writes them."
)

// sample is what became of having a server write a small state.
type sample struct {
	layout Layout
	err    error
	again  time.Time // when to try again after err
}

// KVTransfer says how the server's states look, or why it has none, with the remedy. The first call has the
// server write a small one, unless it wrote another before, and so finds out what the server really does,
// whatever it was started with. An error is a *protocol.HandoverError, or that of a server that is gone.
func (s *Server) KVTransfer(ctx context.Context) (*engine.KVTransfer, error) {
	if err := s.canMove(); err != nil {
		return nil, err
	}
	l, err := s.sample(ctx)
	if err != nil {
		return nil, err
	}
	m := &engine.KVTransfer{Fingerprint: s.fingerprint(l), Start: s.id.Start, Dir: s.config.Dir, Prefix: s.config.Prefix}
	if h := s.config.Header; h != nil {
		if l.Digest == protocol.Unread {
			l.CacheK, l.CacheV = "f16", "f16" // llama-server's default
		}
		m.BytesPerToken, m.FixedBytes = h.StateBytes(l.CacheK, l.CacheV)
	}
	return m, nil
}

// canMove says why the server moves no states, as far as that is known.
func (s *Server) canMove() error {
	if s.config.Dir == "" {
		return protocol.HandoverErrorf(jobs.FailNoState, "the folder of llama-server's states is not known; start it with --slot-save-path DIR and name the folder to the worker (--slot-dir DIR)")
	}
	if s.config.Model() == "" {
		return protocol.HandoverErrorf(jobs.FailNoState, "the model file's digest is not known (%s); wait until it is computed, or run the worker on llama-server's machine as a user who can read the file, and give llama-server its absolute path", s.id.Model)
	}
	if s.id.Adapted {
		return protocol.HandoverErrorf(jobs.FailNoState, "llama-server changes the model with an adapter, and states of such models are not told apart; start it without --lora, or merge the adapter into the model's file")
	}
	if t := s.known(); t != nil {
		return t.err
	}
	return nil
}

func (s *Server) fingerprint(l Layout) jobs.Fingerprint {
	f := jobs.Fingerprint{Model: s.config.Model(), Build: s.id.Build, Positions: s.config.Settings}
	if h := s.config.Header; h != nil {
		f.Positions = strings.TrimSpace(h.Positions + " " + f.Positions)
	}
	return l.of(f)
}

// learn takes the layout of a state that the server wrote for the one of all of them, and returns its fingerprint. A
// server that somebody else looks after may have been started again with other flags.
func (s *Server) learn(l Layout) jobs.Fingerprint {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sampled = &sample{layout: l}
	return s.fingerprint(l)
}

// of puts the layout into a fingerprint.
func (l Layout) of(f jobs.Fingerprint) jobs.Fingerprint {
	f.Format, f.CacheK, f.CacheV, f.FlashAttention, f.Streams, f.Layout = l.Format, l.CacheK, l.CacheV, l.FlashAttention, l.Streams, l.Digest
	return f
}

// known is the sample, nil if there is none or it is time to try again.
func (s *Server) known() *sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.sampled; t != nil && (t.err == nil || time.Now().Before(t.again)) {
		return t
	}
	return nil
}

// sample returns the layout of a small state that the server wrote, once.
func (s *Server) sample(ctx context.Context) (Layout, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sampleLimit,
		protocol.HandoverErrorf(jobs.FailNoState, "llama-server was too busy to write a sample state; it is asked again soon"))
	defer cancel()
	sampled, err := s.sampling.open(ctx)
	if err != nil {
		return Layout{}, err
	}
	defer sampled()
	if t := s.known(); t != nil {
		return t.layout, t.err
	}
	l, err := s.writeSample(ctx)
	switch {
	case err == nil:
		s.learn(l)
	case ctx.Err() != nil: // says nothing of the server
		return Layout{}, context.Cause(ctx)
	default:
		if err = noState(ctx, s.config, err); Lost(err) || err == ErrLoading {
			return Layout{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sampled = &sample{err: err, again: time.Now().Add(sampleAgain)}
	}
	return l, err
}

func (s *Server) writeSample(ctx context.Context) (Layout, error) {
	tokens, err := s.Tokens(ctx, sampleText)
	if err != nil {
		return Layout{}, err
	}
	sl, err := s.Acquire(ctx, tokens)
	if err != nil {
		return Layout{}, err
	}
	defer sl.Release()
	if t := s.known(); t != nil { // learnt from whoever had the slot
		return t.layout, t.err
	}
	if _, err := sl.compute(ctx, tokens, func() {}); err != nil {
		return Layout{}, err
	}
	f, err := sl.save(ctx, len(tokens), sampleLimit) // it is small, and the worker waits for it
	if err != nil {
		return Layout{}, err
	}
	defer sl.discard(f.Path)
	return ReadLayout(f.Path, s.config.Unread...)
}

// noState explains why a server has no states to move.
func noState(ctx context.Context, c Config, err error) error {
	if strings.Contains(err.Error(), "Start it with `--slot-save-path`") {
		return protocol.HandoverErrorf(jobs.FailNoState, "llama-server at %s was started without --slot-save-path; start it with --slot-save-path %s", c.Endpoint.URL, c.Dir)
	}
	if failed, ok := errors.AsType[*protocol.HandoverError](err); ok {
		failed.Failure = jobs.FailNoState
		return failed
	}
	return handoverError(ctx, jobs.FailNoState, "have llama-server write a sample state", err)
}
