package pipeline

import (
	"math"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
)

// course is how one task goes on, as far as it was foreseen.
type course struct {
	began     time.Time
	turn      float64 // seconds until the engine turns to it
	before    float64 // seconds until its first token, or until its end if it hands over
	tokens    float64 // of its answer
	perSecond float64
	hands     bool
	relayed   bool
	waits     bool           // for a slot
	expected  bool           // it is about to be fetched
	place     protocol.Place // of it, then
	prefix    string         // which shared prefix is in its slot's cache then, by its key
	hops      bool           // it is done here, and others cannot see yet that it waits for decode

	first time.Time     // token; zero before
	last  time.Time     // token
	made  float64       // tokens so far
	spent time.Duration // on these
	held  time.Duration // of that, while the engine was at others' prompts
	said  time.Time     // when it will end, as others have heard
}

// foresee notes how a task of this size will probably go on, now that its way is known, as course says.
func (s *Stage) foresee(t *protocol.Task, size engine.Size, hands bool, state int64, turn float64) {
	c := s.course(t.Job.Model, size, hands, state, turn)
	c.relayed = !t.Intake
	s.running.begin(t, c)
	s.prefixes.Begins(c.prefix, s.running.with(c.prefix))
}

// course is how a job of this size will probably go on to which the engine turns in so many seconds: computed and handed over; from a KV state of so many
// bytes, unless that is 0; or whole.
func (s *Stage) course(model string, size engine.Size, hands bool, state int64, turn float64) course {
	self := engine.Peer{Role: s.role, Slots: s.slotCount(), Rates: s.rates.With(s.about().KVTransfer)}
	bytes := float64(state)
	if state == 0 {
		bytes = engine.SpeedsOf(model, s.role, self.Rates).StateBytes(size.Tokens, "").Value
	}
	times := self.Times(model, "", size, bytes)
	c := course{turn: turn, before: turn, hands: hands, prefix: size.Key}
	if state > 0 {
		c.before += times.Restore
	} else if c.before += times.Prompt; size.Key != "" {
		if _, slots := s.prefixes.Held(); slots[size.Key] <= s.running.with(size.Key) {
			c.before += times.Prefix
		}
	}
	if hands {
		c.before += times.Save
		return c
	}
	c.tokens = float64(size.Generated)
	c.perSecond = c.tokens / max(times.Generate[min(s.slotCount(), s.running.busy()+1)-1], 1e-9)
	return c
}

// atPrompt reports whether the engine has the task's prompt still.
func (c *course) atPrompt() bool { return c.first.IsZero() && !c.waits && !c.hops }

// pause is by how many times longer than expected tokens take if the engine did not work on them all that time, but on a prompt of another slot.
const pause = 4

// spend notes tokens that came after so long, and whether the engine was at others' prompts meanwhile.
func (c *course) spend(took time.Duration, tokens float64, prompts bool) {
	c.made += tokens
	c.spent += took
	if !prompts || c.perSecond <= 0 {
		return
	}
	if expected := seconds(tokens / c.perSecond); took > pause*expected {
		c.held += took - expected
	}
}

// worked is for how long the engine was at the answer so far.
func (c *course) worked() time.Duration { return c.spent - c.held }

// enough is after how many tokens the speed that is seen counts, and no longer the one that was expected.
const enough = 16

// ends is when the course will probably end.
func (c *course) ends(now time.Time) time.Time {
	if c.first.IsZero() {
		at := c.computed(now)
		if c.hands || c.perSecond <= 0 {
			return at
		}
		return at.Add(seconds(c.tokens / c.perSecond))
	}
	perSecond := c.perSecond
	if worked := c.worked(); c.made > enough && worked > 0 {
		perSecond = c.made / worked.Seconds()
	}
	if perSecond <= 0 {
		return now
	}
	left := max(c.tokens-c.made, 0.1*c.made) // an answer that is longer than expected goes on for a while
	return now.Add(seconds(left / perSecond))
}

// answers is when the course's answer will probably begin; zero if that goes on, or does not come here.
func (c *course) answers(now time.Time) time.Time {
	if !c.first.IsZero() || c.hands {
		return time.Time{}
	}
	return c.computed(now)
}

// computed is when what comes before the answer will probably have ended.
func (c *course) computed(now time.Time) time.Time {
	if at := c.began.Add(seconds(c.before)); c.before == 0 || !at.Before(now) {
		return at
	}
	return now.Add(now.Sub(c.began) / 10) // it takes longer than expected: who knows how long
}

// left is how many seconds there are until then, at least 0.
func left(at, now time.Time) float64 {
	return math.Round(1000*max(0, at.Sub(now).Seconds())) / 1000
}
