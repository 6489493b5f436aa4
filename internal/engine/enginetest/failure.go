package enginetest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// promptly is how long a call may take to return once it was told to end. It is generous, because
// the machines that run the suite are busy.
const promptly = 5 * time.Second

// long is how many tokens a request asks for that is to be ended early. An engine that cannot be interrupted at once, as a fast Ollama, comes to their end.
const long = 256

var discard engine.Emit = func(jobs.Chunk) error { return nil }

// cancel: a cancelled call returns the cause at once, and the engine goes on with the next request.
func (s *suite) cancel(t *testing.T) {
	cause := errors.New("the suite cancelled")
	long := greedy("Never stop talking.", long)

	t.Run("generating", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(patient(t))
		defer cancel(nil)
		var told time.Time
		_, err := s.Engine.Generate(ctx, long, func(jobs.Chunk) error {
			if told.IsZero() {
				told = time.Now()
				cancel(cause)
			}
			return nil
		})
		if !errors.Is(err, cause) || time.Since(told) > promptly {
			t.Errorf("returned %v after %v; want the cause at once", err, time.Since(told))
		}
		s.generate(t, greedy("And the next, please.", 4))
	})
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, generate := s.Engine.Generate(ctx, long, discard)
		_, prefill := s.Engine.Prefill(ctx, long)
		_, decode := s.Engine.Decode(ctx, long, engine.Prefilled{Kind: jobs.KindNone}, discard)
		_, describe := s.Engine.Describe(ctx)
		load := s.Engine.Load(ctx)
		for i, err := range []error{generate, prefill, decode, describe, load} {
			if !errors.Is(err, cause) {
				t.Errorf("%s with a cancelled context: %v; want the cause", [...]string{"Generate", "Prefill", "Decode", "Describe", "Load"}[i], err)
			}
		}
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, jobs.ErrDeadline)
		defer cancel()
		start := time.Now()
		_, err := s.Engine.Generate(ctx, long, func(jobs.Chunk) error {
			<-ctx.Done() // however fast the engine is
			return nil
		})
		if !errors.Is(err, jobs.ErrDeadline) || time.Since(start) > promptly {
			t.Errorf("returned %v after %v; want the deadline's cause at once", err, time.Since(start))
		}
		s.generate(t, greedy("Still there?", 4))
	})
}

// emitError: an error of emit ends the generation and comes back.
func (s *suite) emitError(t *testing.T) {
	stop := errors.New("enough")
	calls := 0
	start := time.Now()
	_, err := s.Engine.Generate(patient(t), greedy("Talk on.", long), func(jobs.Chunk) error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 3 || time.Since(start) > promptly {
		t.Errorf("returned %v after %d pieces and %v; want emit's error after 3", err, calls, time.Since(start))
	}
	s.generate(t, greedy("Next.", 4))
}

// overflow: a request that needs more context than there is fails for good, with both numbers and
// without the prompt.
func (s *suite) overflow(t *testing.T) {
	var words strings.Builder
	for i := range s.about.ContextTokens {
		fmt.Fprintf(&words, "word%d ", i)
	}
	long := greedy(words.String(), 4)
	wide := greedy("small", 4)
	wide.Options.NumCtx = new(s.about.ContextTokens + 1)
	for name, req := range map[string]engine.Request{"prompt": long, "num_ctx": wide} {
		_, generate := s.Engine.Generate(patient(t), req, discard)
		_, prefill := s.Engine.Prefill(patient(t), req)
		_, decode := s.Engine.Decode(patient(t), req, engine.Prefilled{Kind: jobs.KindNone}, discard)
		for i, err := range []error{generate, prefill, decode} {
			call := name + ": " + [...]string{"Generate", "Prefill", "Decode"}[i]
			hasCode(t, call, err, jobs.CodeContextOverflow, protocol.Permanent)
			if err == nil {
				continue
			}
			if numbers := regexp.MustCompile(`\d+`).FindAllString(err.Error(), -1); len(numbers) < 2 || !strings.Contains(err.Error(), strconv.Itoa(s.about.ContextTokens)) {
				t.Errorf("%s: %q names not both numbers, need and have", call, err)
			}
			if strings.Contains(err.Error(), "word1 ") {
				t.Errorf("%s: the error quotes the prompt", call)
			}
		}
	}
	s.generate(t, greedy("Back to normal.", 4))
}

// refuse: what is no request never reaches the model.
func (s *suite) refuse(t *testing.T) {
	_, err := s.Engine.Generate(patient(t), greedy("", 4), discard)
	hasCode(t, "Generate without a prompt", err, jobs.CodeInvalid, protocol.Permanent)
	_, err = s.Engine.Prefill(patient(t), greedy("", 4))
	hasCode(t, "Prefill without a prompt", err, jobs.CodeInvalid, protocol.Permanent)
}

func (s *suite) missing(t *testing.T) {
	if s.Missing == nil {
		return // Run has said why
	}
	for call, err := range every(patient(t), s.Missing) {
		hasCode(t, call, err, jobs.CodeModelMissing, protocol.HandBack)
	}
}

func (s *suite) unreachable(t *testing.T) {
	for call, err := range every(patient(t), s.Unreachable) {
		hasCode(t, call, err, jobs.CodeEngineUnreachable, protocol.Retry)
	}
}

// every calls each method of an engine that cannot work, and returns the errors by method.
func every(ctx context.Context, e engine.Engine) map[string]error {
	req := greedy("Anybody?", 2)
	_, describe := e.Describe(ctx)
	_, generate := e.Generate(ctx, req, discard)
	_, prefill := e.Prefill(ctx, req)
	_, decode := e.Decode(ctx, req, engine.Prefilled{Kind: jobs.KindNone}, discard)
	return map[string]error{"Describe": describe, "Load": e.Load(ctx), "Generate": generate, "Prefill": prefill, "Decode": decode}
}

func hasCode(t *testing.T, call string, err error, code jobs.Code, class protocol.ErrorClass) {
	t.Helper()
	if err == nil || jobs.CodeOf(err) != code || protocol.Classify(err) != class {
		t.Errorf("%s: %v (code %s); want code %s", call, err, jobs.CodeOf(err), code)
	}
}
