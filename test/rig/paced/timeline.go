package paced

import "time"

// Kind is what a slot is busy with.
type Kind string

// The kinds of work.
const (
	Prefill Kind = "prefill"
	Decode  Kind = "decode"
	Save    Kind = "save"
	Restore Kind = "restore"
)

// Timeline is what the slots of a server were busy with: the answer to GET /paced.
type Timeline struct {
	Machine string   `json:"machine"`
	Start   int64    `json:"start_unix_nano"` // wall clock when the server started
	Slots   [][]Span `json:"slots"`           // of each slot, in order
}

// Span is one piece of work: from its beginning to its end, also where it stood still meanwhile because the loop had other
// work. Both are seconds since the server started.
type Span struct {
	Kind  Kind    `json:"kind"`
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
}

// open begins a span of the slot's.
func (s *slot) open(kind Kind, now time.Duration) {
	s.spans = append(s.spans, Span{kind, now.Seconds(), -1})
}

// shut ends the span that is open, if there is one.
func (s *slot) shut(now time.Duration) {
	if n := len(s.spans); n > 0 && s.spans[n-1].End < 0 {
		s.spans[n-1].End = now.Seconds()
	}
}

// timeline is a copy; what is still being done ends now.
func (l *loop) timeline() Timeline {
	t := Timeline{Machine: l.machine.Name, Start: l.start.UnixNano()}
	for _, s := range l.slots {
		spans := append([]Span{}, s.spans...)
		if n := len(spans); n > 0 && spans[n-1].End < 0 {
			spans[n-1].End = max(spans[n-1].Begin, l.elapsed().Seconds())
		}
		t.Slots = append(t.Slots, spans)
	}
	return t
}

// forget drops all spans but those that are open.
func (l *loop) forget() {
	for _, s := range l.slots {
		n := len(s.spans)
		if n > 0 && s.spans[n-1].End < 0 {
			s.spans = append([]Span{}, s.spans[n-1])
			continue
		}
		s.spans = nil
	}
}
