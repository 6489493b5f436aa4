// Package slots works with the slots of a llama-server, for both engines: it computes prompts in
// them, writes a slot's KV state to a file and reads it back, with proof that it was used.
package slots

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tandem/internal/engine"
	"tandem/internal/gguf"
)

// Endpoint is where a llama-server listens. Each start of one has its own.
type Endpoint struct {
	URL string
	Key string // sent as a bearer token
}

// Config is what is known of a server beforehand.
type Config struct {
	Endpoint Endpoint
	Client   *Client
	Slots    int           // used by us; 0 means all it has
	Dir      string        // its --slot-save-path, as this process sees it; empty: it moves no states
	Prefix   string        // of the names of the files written here
	Header   *gguf.Header  // of the model file; nil if it cannot be read here, and then the model is taken for a recurrent one
	Shared   bool          // others send requests too, for which the server chooses the slot (an Ollama does)
	Settings string        // flags it was started with that change how positions are computed; empty: none
	Model    func() string // SHA-256 of the model file, in hex; empty as long as it is not known
	Log      *slog.Logger
}

// Server is one llama-server. It is safe for concurrent use.
type Server struct{}

// Identity is what a server says of itself.
type Identity struct {
	Build   string
	Model   string // path of the model file, as the server was given it
	Slots   int
	Context int // tokens of each slot
}

// Connect asks a server what it is.
func Connect(ctx context.Context, c Config) (*Server, error) { return nil, errors.New("not built yet") }

// Identity is what the server said when it was connected to.
func (s *Server) Identity() Identity { return Identity{} }

// Mover says how the server's states look, or why it has none, with the remedy. The first call has the
// server write a small one.
func (s *Server) Mover(ctx context.Context) (*engine.Mover, error) {
	return nil, errors.New("not built yet")
}

// Tokens cuts a rendered prompt into tokens: a beginning-of-text token is added where the model wants
// one, and control tokens are read as such.
func (s *Server) Tokens(ctx context.Context, text string) ([]int32, error) {
	return nil, errors.New("not built yet")
}

// Prompt is a prompt on its way through a slot.
type Prompt struct {
	Tokens   []int32 // all N
	Shared   int     // of those, the part that other jobs begin with too, as far as it is known
	Progress func()  // a sign of life; may be nil
}

// Computed is what computing a prompt took.
type Computed struct {
	Cached, Computed int // tokens
	Duration         time.Duration
}

// Cached is how many tokens of the prompt the best slot is thought to hold.
func (s *Server) Cached(prompt []int32) int { return 0 }

// Acquire waits for a free slot and takes the best one for the prompt.
func (s *Server) Acquire(ctx context.Context, prompt []int32) (*Slot, error) {
	return nil, errors.New("not built yet")
}

// Begin waits until no state is being imported, so that a request whose slot the server chooses does not
// take the one that the state is in. Call started at the first byte of the request's answer, or when it
// has ended; further calls do nothing.
func (s *Server) Begin(ctx context.Context) (started func(), err error) {
	return nil, errors.New("not built yet")
}

// Slot is one slot, held by one request.
type Slot struct{}

// ID is the server's number of the slot.
func (sl *Slot) ID() int { return 0 }

// Release gives the slot back. Further calls do nothing.
func (sl *Slot) Release() {}

// Prefill computes all tokens of the prompt but the last, the shared part by itself first, unless the slot
// holds them already.
func (sl *Slot) Prefill(ctx context.Context, p Prompt) (Computed, error) {
	return Computed{}, errors.New("not built yet")
}

// Export writes the state of a slot that was prefilled to a file, and then evaluates the last token.
// An error is a *jobs.HandoverError, or that of a server that is gone.
func (sl *Slot) Export(ctx context.Context, p Prompt) (*engine.StateFile, error) {
	return nil, errors.New("not built yet")
}

// Import has the server read a state into the slot and proves, by evaluating the prompt's last token,
// that it is used and predicts what its writer predicted. Nothing else starts on the server until Started
// is called, or Release. An error is a *jobs.HandoverError, or that of a server that is gone.
func (sl *Slot) Import(ctx context.Context, p Prompt, f *engine.StateFile) (engine.Imported, error) {
	return engine.Imported{}, errors.New("not built yet")
}

// Started says that the first byte of the answer to an imported prompt has come.
func (sl *Slot) Started() {}

// Held says what the slot's cache holds after a request of ours, of which the server was told the slot.
func (sl *Slot) Held(tokens []int32) {}
