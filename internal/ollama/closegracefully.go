package ollama

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

// Ollama 0.34 must not be left in the middle of a sentence. If the client's connection closes while
// Ollama writes a piece and the runner has the next one ready, the runner waits for ever for somebody
// to take it and its slot is lost: later requests hang until the model is unloaded. (Measured with a
// model that writes 2,000 tokens a second: once in 121 closed connections.) So a request that ends early
// is read on, and its connection closed in the middle between two pieces of a model that takes its time for each:
// a piece that Ollama, paused on a busy machine, still had would have come by then. One that does not mostly comes to its end.
const (
	slowPace   = 5 * time.Millisecond // for a piece: Ollama has long been done with one when the next comes
	slowPieces = 3                    // in a row show the model's pace
	quietTime  = 100 * time.Millisecond
	closeLimit = 3 * time.Second // for a model that never pauses
)

// closeGracefully calls hangUp once the context has ended and it is safe to, until hungUp is closed. Heard must be
// called for every line, wait when the request is over and hungUp closed.
func closeGracefully(ctx context.Context, hungUp <-chan struct{}, hangUp func()) (heard, wait func()) {
	quiet := make(chan time.Duration, 1) // after the last line, until it is safe
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-hungUp:
			return
		}
		limit := time.After(closeLimit)
		for d := quietTime; ; {
			select {
			case d = <-quiet:
			case <-time.After(d):
				if len(quiet) == 0 {
					hangUp()
				}
			case <-limit:
				hangUp()
			case <-hungUp:
				return
			}
		}
	})
	last := time.Now()
	var gaps [slowPieces]time.Duration // between the last lines
	return func() {
		now := time.Now()
		copy(gaps[:], gaps[1:])
		gaps[slowPieces-1], last = now.Sub(last), now
		d := quietTime
		if pace := slices.Min(gaps[:]); pace >= slowPace {
			d = min(d, pace/2)
		}
		select {
		case <-quiet: // of a line before
		default:
		}
		quiet <- d
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	w := e.wire(ctx, engine.Request{})
	w.KeepAlive = "0s"
	var a answer
	err := e.client.ask(ctx, pathGenerate, w, &a)
	e.log.Warn("unloaded a model that gave no sign of life", "model", e.model, "url", e.client.String(), "error", err)
}
