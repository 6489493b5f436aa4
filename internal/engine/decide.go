package engine

import (
	"time"
)

// Way is one of the ways that a job with plan auto can go.
type Way string

// The ways.
const (
	WayHandover Way = "hand over"                    // the prompt on the prefill machine, its KV state moved, the text on the decode machine
	WayDecode   Way = "whole on the decode machine"  // both phases there
	WayPrefill  Way = "whole on the prefill machine" // both phases there
)

// Question is what a decision rests on. Tokens are of one prompt, or of its answer.
type Question struct {
	Tokens          int           // of the prompt
	UncachedPrefill int           // of these, not in the prefill machine's cache
	UncachedDecode  int           // of these, not in the decode machine's cache
	Generated       int           // of the answer
	StateBytes      int64         // of the prompt's KV state
	QueuePrefill    time.Duration // until the prefill machine is free
	QueueDecode     time.Duration // until the decode machine is free
	Prefill, Decode Speeds        // of the two machines
	Link            Speed         // from one to the other, in bytes per second
	NoHandover      string        // why no KV state can be handed over; empty if one can
	NoDecode        bool          // there is no decode machine
}

// Cost is what one way takes, in seconds.
type Cost struct {
	Way        Way     `json:"way"`
	Possible   bool    `json:"possible"`
	Queue      float64 `json:"queue_seconds"`       // waiting that nothing else fills
	Prefill    float64 `json:"prefill_seconds"`     // the prompt computed
	Save       float64 `json:"save_seconds"`        // its state written to a file
	Transfer   float64 `json:"transfer_seconds"`    // moved from machine to machine
	Restore    float64 `json:"restore_seconds"`     // read
	Check      float64 `json:"check_seconds"`       // the last token computed and compared
	FirstToken float64 `json:"first_token_seconds"` // all of these
	Generate   float64 `json:"generate_seconds"`    // the answer
	Total      float64 `json:"total_seconds"`       // until its end
}

// Decision says which way a job goes, and why.
type Decision struct {
	Question
	Way       Way
	Handover  Cost
	OnDecode  Cost
	OnPrefill Cost
	Saves     float64 // by handing over rather than computing the prompt on the decode machine; negative if that costs
	Margin    float64 // that a hand-over has to save
}

// A way away from the decode machine must save more than this, since the figures are estimates.
const (
	leastSaving      = 0.150 // seconds
	leastSavingShare = 0.10  // of what the decode machine needs
)

func margin(seconds float64) float64 { return max(leastSaving, leastSavingShare*seconds) }

// longestWait is more than a queue ever takes.
const longestWait = 24 * time.Hour

// Wait is how long a job waits for one of so many slots, where so many jobs run or wait already and each keeps a slot for
// so many seconds: until as many have ended as are before it. Those that run are half done.
func Wait(jobs, slots int, seconds float64) time.Duration {
	before := jobs - slots
	if before < 0 || slots <= 0 || !(seconds > 0) {
		return 0
	}
	return time.Duration(min((float64(before)+0.5)/float64(slots)*seconds, longestWait.Seconds()) * float64(time.Second))
}

// Decide estimates the three ways and takes the fastest. A state is handed over only if
//
//	queueDecode + U_decode/rateDecodeHost(N) − [queuePrefill + U_prefill/ratePrefillHost(N) + save + bytes(N)/link + check + restore] > max(150 ms, 10 % of the first term)
//
// where U are the uncached tokens. While the prompt is computed here a job waits for the decode machine, too: what is left of
// that wait then is part of the bracket. The whole request on the prefill machine is compared by the time until the end of
// the answer, since that machine generates at a speed of its own, and has to save the margin, too: each job it keeps
// is one that waits before it.
func Decide(q Question) Decision {
	n := q.Tokens
	d := Decision{Question: q, Way: WayDecode}

	d.OnPrefill = Cost{
		Way: WayPrefill, Possible: true, Queue: q.QueuePrefill.Seconds(),
		Prefill:  float64(q.UncachedPrefill) / q.Prefill.Prefill(n, n-q.UncachedPrefill).Value,
		Generate: float64(q.Generated) / q.Prefill.Decode(n).Value,
	}
	d.OnPrefill.sum()

	onDecode := float64(q.Generated) / q.Decode.Decode(n).Value
	d.OnDecode = Cost{
		Way: WayDecode, Possible: !q.NoDecode, Queue: q.QueueDecode.Seconds(),
		Prefill:  float64(q.UncachedDecode) / q.Decode.Prefill(n, n-q.UncachedDecode).Value,
		Generate: onDecode,
	}
	d.OnDecode.sum()

	d.Handover = Cost{
		Way: WayHandover, Possible: !q.NoDecode && q.NoHandover == "", Queue: q.QueuePrefill.Seconds(),
		Prefill:  d.OnPrefill.Prefill,
		Save:     float64(q.StateBytes) / q.Prefill.Save().Value,
		Transfer: float64(q.StateBytes) / q.Link.Value,
		Restore:  float64(q.StateBytes) / q.Decode.Restore().Value,
		Check:    1/q.Prefill.Decode(n).Value + q.Decode.Check(n).Value, // on either side
		Generate: onDecode,
	}
	here := d.Handover.Queue + d.Handover.Prefill + d.Handover.Save
	d.Handover.Queue += max(0, q.QueueDecode.Seconds()-here)
	d.Handover.sum()

	d.Saves, d.Margin = d.OnDecode.FirstToken-d.Handover.FirstToken, margin(d.OnDecode.FirstToken)
	best := d.OnDecode
	if d.Handover.Possible && d.Saves > d.Margin {
		best = d.Handover
	}
	if !best.Possible || best.Total-d.OnPrefill.Total > margin(best.Total) {
		best = d.OnPrefill
	}
	d.Way = best.Way
	return d
}

func (c *Cost) sum() {
	c.FirstToken = c.Queue + c.Prefill + c.Save + c.Transfer + c.Restore + c.Check
	c.Total = c.FirstToken + c.Generate
}

// Ways are the three, with what they take.
func (d Decision) Ways() []Cost { return []Cost{d.Handover, d.OnDecode, d.OnPrefill} }

// Crossover is from which length of prompt on handing over pays: breaksEven where it is at all faster than computing the prompt
// on the decode machine, pays where it saves the margin. ask makes the question for a prompt of so many tokens. 0 says that
// there is no such length up to limit.
func Crossover(limit int, ask func(tokens int) Question) (breaksEven, pays int) {
	from := func(since *int, n int, so bool) {
		switch {
		case !so:
			*since = 0
		case *since == 0:
			*since = n
		}
	}
	for n := 16; n <= limit; n += max(1, n/64) {
		d := Decide(ask(n))
		from(&breaksEven, n, d.Handover.Possible && d.Saves > 0)
		from(&pays, n, d.Handover.Possible && d.Saves > d.Margin)
	}
	return breaksEven, pays
}
