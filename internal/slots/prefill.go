package slots

import "context"

// fillsBatch is how many tokens of a prompt keep a server as busy as several prompts together would: its micro batch, unless it was told otherwise.
const fillsBatch = 512

// Prefill computes all tokens of the prompt but the last, the shared part by itself first, beside what
// the slot holds already. The slot then holds exactly these, and a state of it can be exported.
//
// Prompts of several slots have their turn one after the other, each until its state is exported or its answer has begun: side by side
// none would be done sooner, and the last token of the first would wait for all of the others.
func (sl *Slot) Prefill(ctx context.Context, p Prompt) (Computed, error) {
	head := p.head()
	var total Computed
	if len(head) == 0 {
		return total, nil
	}
	if s := sl.server; sl.turn == nil && s.id.Slots > 1 && len(head)-sl.cache.use(p.Tokens, s.config.plain()) >= fillsBatch {
		end, err := s.turn.open(ctx)
		if err != nil {
			return total, err
		}
		sl.turn = end
	}
	if n := sl.shared(p); n > 0 {
		c, err := sl.compute(ctx, head[:n], p.progress)
		if err != nil {
			return Computed{}, err
		}
		total = c
	}
	c, err := sl.compute(ctx, head, p.progress)
	if err != nil {
		return Computed{}, err
	}
	total.Computed += c.Computed
	total.Cached = max(0, len(head)-total.Computed)
	total.Duration += c.Duration
	return total, nil
}

// endTurn lets the next prompt be computed.
func (sl *Slot) endTurn() {
	if sl.turn != nil {
		sl.turn()
		sl.turn = nil
	}
}

// shared is how much of the prompt to compute by itself first, 0 if nothing. A cache that can be stepped
// back needs no such care. Any other can be used again by the next prompt only from where a
// computation ended.
func (sl *Slot) shared(p Prompt) int {
	s := sl.server
	n := min(p.Shared, len(p.Tokens)-1)
	if n <= 0 {
		n = s.recent.shared(p.Tokens)
	}
	s.recent.add(p.Tokens)
	sl.common = n
	if s.config.plain() || n < leastShared || n >= len(p.Tokens)-1 || sl.cache.use(p.Tokens, false) >= n {
		return 0
	}
	return n
}

// compute has the server compute tokens in the slot, beside what it finds there.
func (sl *Slot) compute(ctx context.Context, tokens []int32, progress func()) (Computed, error) {
	body := completion{
		Prompt: tokens, Fields: []string{"stop", "timings"}, Placement: sl.Placement(),
	}
	var c Computed
	err := sl.stream(ctx, "/completion", body, tokens, progress, func(e *Event) error {
		if t := e.Timings; t != nil {
			c = Computed{Cached: t.Cached, Computed: t.Computed, Duration: t.PromptTime()}
		}
		return nil
	})
	return c, err
}

// completion is the body of /completion: tokens as they are, without any template.
type completion struct {
	Prompt      []int32  `json:"prompt"`
	NumPredict  int      `json:"n_predict"`
	NumProbs    int      `json:"n_probs,omitempty"`
	Temperature float64  `json:"temperature"`
	Fields      []string `json:"response_fields"` // or the whole prompt would come back
	Placement
}
