package slots

import (
	"context"
	"errors"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

const (
	sampleLimit = 5 * time.Second // for a server to write a sample state; it may be busy
	sampleAgain = time.Minute     // until one that did not is asked again
	sampleText  = "A state of these few words shows how this server writes them."
)

// sample is what became of having a server write a small state.
type sample struct {
	layout Layout
	err    error
	again  time.Time // when to try again after err
}

// Mover says how the server's states look, or why it has none, with the remedy. The first call has the
// server write a small one, and so finds out what the server really does, whatever it was started with.
// An error is a *jobs.HandoverError, or that of a server that is gone.
func (s *Server) Mover(ctx context.Context) (*engine.Mover, error) {
	c := s.config
	if c.Dir == "" {
		return nil, jobs.HandoverErrorf(jobs.FailNoState, "the folder of llama-server's states is not known; start it with --slot-save-path DIR and name the folder to the worker (--slot-dir DIR)")
	}
	model := c.Model()
	if model == "" {
		return nil, jobs.HandoverErrorf(jobs.FailNoState, "the model file's digest is not known; wait until it is computed, or name the file to the worker if it cannot read the one that llama-server was given")
	}
	l, err := s.sample(ctx)
	if err != nil {
		return nil, err
	}
	m := &engine.Mover{
		Fingerprint: jobs.Fingerprint{
			Model: model, Build: s.id.Build, Format: l.Format, CacheK: l.CacheK, CacheV: l.CacheV,
			FlashAttention: l.FlashAttention, Streams: l.Streams, Layout: l.Digest,
		},
		Dir: c.Dir, Prefix: c.Prefix,
	}
	positions := []string{c.Settings}
	if h := c.Header; h != nil {
		positions = []string{h.Positions, c.Settings}
		m.BytesPerToken, m.FixedBytes = h.StateBytes(l.CacheK, l.CacheV)
	}
	m.Fingerprint.Positions = strings.TrimSpace(strings.Join(positions, " "))
	return m, nil
}

// sample returns the layout of a small state that the server wrote, once.
func (s *Server) sample(ctx context.Context) (Layout, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.sampled; t != nil && (t.err == nil || time.Now().Before(t.again)) {
		return t.layout, t.err
	}
	limited, cancel := context.WithTimeoutCause(ctx, sampleLimit,
		jobs.HandoverErrorf(jobs.FailNoState, "llama-server was too busy to write a sample state; it is asked again soon"))
	defer cancel()
	l, err := s.writeSample(limited)
	if err != nil {
		if limited.Err() != nil {
			return Layout{}, context.Cause(limited) // says nothing of the server
		}
		if err = noState(ctx, s.config, err); Lost(err) || err == ErrLoading {
			return Layout{}, err
		}
	}
	s.sampled = &sample{layout: l, err: err, again: time.Now().Add(sampleAgain)}
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
	if _, err := sl.compute(ctx, tokens, func() {}); err != nil {
		return Layout{}, err
	}
	f, err := sl.save(ctx, len(tokens))
	if err != nil {
		return Layout{}, err
	}
	defer sl.discard(f.Path)
	return ReadLayout(f.Path)
}

// noState explains why a server has no states to move.
func noState(ctx context.Context, c Config, err error) error {
	if strings.Contains(err.Error(), "Start it with `--slot-save-path`") {
		return jobs.HandoverErrorf(jobs.FailNoState, "llama-server at %s was started without --slot-save-path; start it with --slot-save-path %s", c.Endpoint.URL, c.Dir)
	}
	if failed, ok := errors.AsType[*jobs.HandoverError](err); ok {
		failed.Failure = jobs.FailNoState
		return failed
	}
	return handoverError(ctx, jobs.FailNoState, "have llama-server write a sample state", err)
}
