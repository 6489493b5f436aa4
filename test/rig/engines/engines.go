// Package engines runs the engines of the rig as processes that can die: a no-op engine for volume, which is the fake Ollama that passes
// the conformance suite, real Ollamas and llama-servers with tiny models, and one that takes as long as a table says.
package engines

import (
	"context"
	"time"

	"tandem/internal/tinymodel"
	"tandem/test/rig/host"
)

// Engine is one engine process on a port that stays the same over restarts.
// Its methods may be called by several goroutines, but one of them alone may kill and restart.
type Engine interface {
	Name() string
	Addr() string              // host:port
	Flags(url string) []string // what a worker that reaches it under url is started with: --engine …, --engine-url …, --shim-run-dir …, --slot-dir …, --num-ctx, --threads, --slots
	Pid() int
	Kill() // with all its children, by SIGKILL; returns when they are gone
	Freeze() error
	Thaw() error
	Unload(ctx context.Context) error  // the model leaves memory; nil for what cannot do that
	Restart(ctx context.Context) error // after Kill; returns when it answers
	Close()
	// Ask has the engine generate by itself, past Tandem, for a job as it was submitted (docs/PROTOCOL.md), and returns the texts that are right: the one of a
	// run from an empty cache, and that of one whose prompt but the last token was cached. They are the same, since the engines compute one token at a time, but
	// for a sliding window once prompt and answer together have more tokens than its cache (256). Nothing else may use the engine meanwhile.
	Ask(ctx context.Context, job []byte) ([]string, error)
	// Answer has the engine generate by itself, in one request as of a client of its own, with whatever is in its cache. It may be called several times at once.
	Answer(ctx context.Context, job []byte) (string, error)
}

// Options describe an engine.
type Options struct {
	Name     string
	Dir      string         // everything of it
	Models   []string       // by the names that jobs use
	Slots    int            // 0 is 1
	NumCtx   int            // tokens; 0 is 2048
	PerToken time.Duration  // noop only: for each token, of the prompt and of the answer
	Programs *host.Programs // noop and paced only: with noopengine and pacedserver
	Fleet    string         // paced only: a file such as those of test/fleets
	Machine  string         // paced only: of the fleet
	// Specs are the real engines' models, by name; those that are not in it are small ones.
	Specs map[string]tinymodel.Spec
	// Batches has a real engine compute prompts as it does by default, many tokens at a time, which is faster. Then what happens to be cached changes the last
	// digits, and there is no one right text.
	Batches bool
}
