// Package slots works with the slots of a llama-server, for both engines: it computes prompts in
// them, writes a slot's KV state to a file and reads it back, with proof that it was used.
package slots

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tandem/internal/gguf"
	"tandem/jobs"
)

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
	Unread   []string      // formats of states that are moved although they cannot be read here, as in ggsq.5
	Model    func() string // SHA-256 of the model file, in hex; empty as long as it is not known
	Log      *slog.Logger
}

// Server is one llama-server, from when it was connected to until it ends. It is safe for concurrent use.
type Server struct {
	config     Config
	id         Identity
	pool       *pool
	importGate importGate // nil unless the server is shared
	turn       importGate // of the prompt that is computed; see Prefill
	recent     recent
	memo       memo

	sampling importGate // for one at a time
	mu       sync.Mutex
	sampled  *sample // what is known of the server's states; nil until it wrote one
}

// Identity is what a server says of itself.
type Identity struct {
	Build   string
	Model   string // path of the model file, as the server was given it
	Slots   int    // of a connected Server: used by us
	Context int    // tokens of each slot
	Adapted bool   // it has adapters (LoRA), which change what the model computes
	NoTools bool   // its chat template has no tools, and it leaves them out of the prompt; false if it does not say
	Start   string // another one at each start, of builds that make one up; else empty
}

// What a llama-server may say of itself: more is not one, and would be kept and published with every sign of life.
const (
	mostSlots   = 1024
	longestMark = 4 << 10 // bytes of a text; a path is the longest
)

// Describe asks a server what it is. It answers only when the model is loaded; before, the error is
// ErrLoading.
func Describe(ctx context.Context, c *Client, at Endpoint) (Identity, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second,
		jobs.Errorf(jobs.CodeEngineBusy, "llama-server at %s did not answer within 10 s", at.URL))
	defer cancel()
	var props struct {
		Build    string `json:"build_info"`
		Model    string `json:"model_path"`
		Slots    int    `json:"total_slots"`
		Start    string `json:"media_marker"` // random, so that a prompt cannot hold it
		Template *struct {
			Tools bool `json:"supports_tools"`
		} `json:"chat_template_caps"`
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := c.call(ctx, at, "/props", nil, &props); err != nil {
		return Identity{}, err
	}
	credible := props.Slots >= 1 && props.Slots <= mostSlots && props.Settings.Context >= 1 && props.Settings.Context <= jobs.MaxTokens &&
		max(len(props.Build), len(props.Model), len(props.Start)) <= longestMark
	if !credible {
		return Identity{}, jobs.Errorf(jobs.CodeEngineUnreachable, "%s does not describe itself as a llama-server with one model would; correct the engine URL", at.URL)
	}
	var adapters []struct{}
	if err := c.call(ctx, at, "/lora-adapters", nil, &adapters); err != nil && (Lost(err) || ctx.Err() != nil) {
		return Identity{}, err // any other says that it does not tell
	}
	return Identity{props.Build, props.Model, props.Slots, props.Settings.Context, len(adapters) > 0, props.Template != nil && !props.Template.Tools, props.Start}, nil
}

// Connect asks a server what it is, as Describe does, and makes its slots available.
func Connect(ctx context.Context, c Config) (*Server, error) {
	said, err := Describe(ctx, c.Client, c.Endpoint)
	if err != nil {
		return nil, err
	}
	return New(c, said)
}

// New makes the slots of a server available that has said what it is.
func New(c Config, said Identity) (*Server, error) {
	switch {
	case c.Slots > said.Slots:
		return nil, jobs.Errorf(jobs.CodeInvalid, "slots is %d, and llama-server at %s has %d; start it with -np %d or lower the worker's slots", c.Slots, c.Endpoint.URL, said.Slots, c.Slots)
	case c.Slots > 0:
		said.Slots = c.Slots
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: c, id: said, pool: newPool(said.Slots, c.plain()), turn: newImportGate(), sampling: newImportGate()}
	if c.Shared {
		s.importGate = newImportGate()
	}
	return s, nil
}

// plain reports whether the cache can be stepped back to anywhere.
func (c Config) plain() bool { return c.Header != nil && c.Header.Kind == gguf.Plain }

// Identity is what the server said when it was connected to.
func (s *Server) Identity() Identity { return s.id }

// Endpoint is where the server listens.
func (s *Server) Endpoint() Endpoint { return s.config.Endpoint }

// Call sends body, or asks with GET if it is nil, and reads the answer.
func (s *Server) Call(ctx context.Context, path string, body, answer any) error {
	return s.config.Client.call(ctx, s.config.Endpoint, path, body, answer)
}

// Stream sends body and gives take each event of the answer, until one is the last or take returns an
// error. Progress is called for each event: they come with every batch of the prompt and every token,
// but not while the server merely keeps the connection alive.
func (s *Server) Stream(ctx context.Context, path string, body any, progress func(), take func(*Event) error) error {
	return s.config.Client.stream(ctx, s.config.Endpoint, path, body, progress, take)
}

// Tokens cuts a rendered prompt into tokens: a beginning-of-text token is added where the model wants
// one, and control tokens are read as such. The list must not be changed.
func (s *Server) Tokens(ctx context.Context, text string) ([]int32, error) {
	cut := struct {
		Content string `json:"content"`
		Add     bool   `json:"add_special"`
		Parse   bool   `json:"parse_special"`
	}{text, true, true}
	answer, err := Constant[struct {
		Tokens []int32 `json:"tokens"`
	}](ctx, s, "/tokenize", cut)
	return answer.Tokens, err
}

// Prompt is a prompt on its way through a slot.
type Prompt struct {
	Tokens   []int32 // all N
	Shared   int     // of those, the part that other jobs begin with too, as far as it is known
	Sample   bool    // Import: compute it here, too, and compare
	Progress func()  // a sign of life; may be nil

	Restored func(took time.Duration) // Import: the state is used, and took so long to read; may be nil
}

// head is what is computed before the answer: all tokens but the last. The token that follows a
// prompt can only be predicted by computing the prompt's last token, so whoever generates must do at least
// that, and a state without it needs no step back, which not every kind of model can do.
func (p Prompt) head() []int32 { return p.Tokens[:max(0, len(p.Tokens)-1)] }

func (p Prompt) progress() {
	if p.Progress != nil {
		p.Progress()
	}
}

// Computed is what computing a prompt took.
type Computed struct {
	Cached, Computed int // tokens
	Duration         time.Duration
}
