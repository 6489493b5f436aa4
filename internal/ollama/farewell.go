package ollama

import (
	"context"
	"errors"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

// Ollama 0.34 must not be left in the middle of a sentence. If the client's connection closes while
// Ollama writes a piece and the runner has the next one ready, the runner waits for ever for somebody
// to take it and its slot is lost: later requests hang until the model is unloaded. (Measured with a
// model that writes 2,000 tokens a second: once in 121 closed connections. Slow models are nearly
// always between two pieces.) So a request that ends early is read on until nothing comes for a
// moment, and only then is its connection closed.
const (
	quietTime    = 10 * time.Millisecond // without a line: Ollama waits for the runner
	farewellTime = 2 * time.Second       // for a model that never pauses
)

// leave calls hangUp once the context has ended and no line was heard for a moment, until hungUp is
// closed. Heard must be called for every line, wait when the request is over and hungUp closed.
func leave(ctx context.Context, hungUp <-chan struct{}, hangUp func()) (heard, wait func()) {
	lines := make(chan struct{}, 1)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-hungUp:
			return
		}
		limit := time.After(farewellTime)
		for {
			select {
			case <-lines:
			case <-time.After(quietTime):
				hangUp()
			case <-limit:
				hangUp()
			case <-hungUp:
				return
			}
		}
	})
	return func() {
		select {
		case lines <- struct{}{}:
		default:
		}
	}, watch.Wait
}

// left returns why the context of a request ended, which is to be the request's error.
func (e *Engine) left(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, jobs.ErrStalled) {
		e.restart(ctx)
	}
	return cause
}

// restart unloads the model, after a request that was given up because nothing came: the one way to
// have a lost slot back. Other requests of the model are finished first, and the next one loads it.
func (e *Engine) restart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTime)
	defer cancel()
	w := e.wire(engine.Request{})
	w.KeepAlive = "0s"
	var a answer
	err := e.client.ask(ctx, pathGenerate, w, &a)
	e.log.Warn("unloaded a model that gave no sign of life", "model", e.model, "url", e.client.String(), "error", err)
}
