package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"tandem/jobs"
)

// What measuring an engine takes. Longer prompts than the first are computed only if that is expected to be quick.
const (
	measureLimit  = 20 * time.Second // for all of it
	quickPrefill  = 3 * time.Second
	quickDecode   = 1500 * time.Millisecond
	firstBytes    = 512  // of the first prompt's text: about 128 tokens
	shortTokens   = 448  // of a prompt that is still of the shortest of protocol.RateLengths
	longTokens    = 2000 // of one that is computed at nearly the speed of much longer ones
	busyBytes     = 128  // of each of the prompts' texts that are computed together: they are there to generate after
	fewestAnswers = 4    // tokens
	mostAnswers   = 32
)

// errMeasured ends what is left of a measurement that takes too long.
var errMeasured = jobs.Errorf(jobs.CodeTimeout, "measuring the engine took longer than %v", measureLimit)

// Known reports whether the speed of the engine is known, for one request and for as many at once as it has slots.
func (r *Rates) Known(slots int) bool {
	now := r.Snapshot()
	return len(now.PrefillByLength) > 0 && len(now.DecodeByLength) > 0 && (slots < 2 || len(now.DecodeByBusy) > 0)
}

// Measure measures an engine that does nothing else meanwhile, in seconds: prompts of a fixed text that begin differently and are of some hundred and
// some thousand tokens, a few tokens of answers, as many requests at once as there are slots, and, if the engine moves KV states, one that it writes and reads. A
// slow engine is measured by less. What was measured before an error, or until time was up, counts.
func (r *Rates) Measure(ctx context.Context, e Engine, about Description, slots int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, measureLimit, errMeasured)
	defer cancel()
	m := &measurement{rates: r, engine: e, about: about}
	err := m.run(ctx, slots)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// measurement is what is known of an engine while it is measured.
type measurement struct {
	rates  *Rates
	engine Engine
	about  Description

	bytesPerToken float64
	prefill       float64 // computed tokens per second
	answer        int     // tokens to generate
	moved         bool    // a KV state was
}

func (m *measurement) run(ctx context.Context, slots int) error {
	m.answer = fewestAnswers
	size := firstBytes
	if room := m.about.ContextTokens; room > 0 {
		size = min(size, room/2) // a token has a byte or more
	}
	c, err := m.one(ctx, size, false)
	if err != nil {
		return err
	}
	switch {
	case m.quick(shortTokens):
		c, err = m.one(ctx, m.bytes(shortTokens), !m.quick(longTokens))
	case m.quick(c.PromptTokens):
		c, err = m.one(ctx, size, true)
	}
	if err != nil {
		return err
	}
	m.take(c) // a first request may be slower than others, so it counts only if there is no other
	if slots > 1 {
		if err := m.together(ctx, slots); err != nil {
			return err
		}
	}
	if m.quick(longTokens) {
		if c, err = m.one(ctx, m.bytes(longTokens), true); err != nil {
			return err
		}
		m.take(c)
	}
	return nil
}

// one runs one request with a prompt of about so many bytes, if it may by way of a KV state, and learns from it what the next ones should be like.
func (m *measurement) one(ctx context.Context, size int, state bool) (c Completion, err error) {
	if state && !m.moved && m.about.KVTransfer != nil {
		m.moved = true
		c, err = m.move(ctx, m.request(size))
	} else {
		c, err = m.engine.Generate(ctx, m.request(size), ignore)
	}
	if err != nil {
		return c, err
	}
	m.bytesPerToken = float64(size) / float64(max(c.PromptTokens, 1))
	m.prefill = PerSecond(max(c.ComputedTokens, 1), max(c.PrefillDuration, time.Microsecond))
	decode := PerSecond(max(c.GeneratedTokens, 1), max(c.DecodeDuration, time.Microsecond))
	m.answer = int(min(max(decode*quickDecode.Seconds(), fewestAnswers), mostAnswers))
	return c, nil
}

// move has the engine write the KV state of a prompt and go on from it. What it says of computing the prompt is in the completion.
func (m *measurement) move(ctx context.Context, req Request) (Completion, error) {
	req.Export = true
	p, err := m.engine.Prefill(ctx, req)
	if err != nil {
		return Completion{}, err
	}
	if f := p.State; f != nil {
		defer func() { _ = os.Remove(f.Path) }() // what is left of it the worker's next start removes
		m.rates.ObserveSave(f.Tokens, f.Bytes, m.about.KVTransfer.FixedBytes, f.Saved)
	}
	req.Export = false
	c, err := m.engine.Decode(ctx, req, p, ignore)
	if err != nil {
		return Completion{}, err
	}
	if c.Imported != nil {
		m.rates.ObserveRestore(p.State.Bytes, c.Imported.Restored, c.Imported.Checked)
	}
	c.ComputedTokens, c.PrefillDuration = p.ComputedTokens, p.Duration
	return c, nil
}

// quick reports whether a prompt of so many tokens fits and is expected to be computed soon.
func (m *measurement) quick(tokens int) bool {
	room := m.about.ContextTokens
	return (room == 0 || tokens+tokens/4+m.answer < room) && float64(tokens) < m.prefill*quickPrefill.Seconds()
}

func (m *measurement) bytes(tokens int) int { return int(float64(tokens) * m.bytesPerToken) }

// take keeps what a request alone showed.
func (m *measurement) take(c Completion) {
	m.rates.ObservePrefill(0, c.PromptTokens, c.ComputedTokens, 1, c.PrefillDuration)
	m.rates.ObserveDecode(c.PromptTokens, c.GeneratedTokens-1, 1, c.DecodeDuration)
}

// together has as many requests generate at once as there are slots. What counts is their mean.
func (m *measurement) together(ctx context.Context, slots int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done, errs := make([]Completion, slots), make([]error, slots)
	var wg sync.WaitGroup
	for i := range slots {
		wg.Go(func() {
			if done[i], errs[i] = m.engine.Generate(ctx, m.request(busyBytes), ignore); errs[i] != nil {
				stop()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%d requests at once: %w", slots, err)
	}
	var took time.Duration
	generated, tokens := 0, 0
	for _, c := range done {
		took += c.DecodeDuration
		generated += c.GeneratedTokens - 1
		tokens = max(tokens, c.PromptTokens)
	}
	m.rates.ObserveDecode(tokens, generated, float64(slots), took)
	return nil
}

// request has a prompt of about so many bytes, whose beginning is in no cache, and asks for few tokens.
func (m *measurement) request(size int) Request {
	const begin, end = ". Text to measure an engine by: ", "\nCount from one to five hundred, in words."
	fill := max(0, size-len(begin)-len(end)-26)
	text := rand.Text() + begin + strings.Repeat(measuredText, fill/len(measuredText)+1)[:fill] + end
	return Request{
		Prompt: text, Options: jobs.Options{Temperature: new(0.0), NumPredict: new(m.answer)}, Progress: func() {},
	}
}

// measuredText is half prose and half code, as the prompts of a grader are.
const measuredText = "The analysis reads a table of prices, leaves out the rows in which a value is missing, and compares the mean of each group with the median. " +
	"df <- read.csv(\"prices.csv\"); df <- df[!is.na(df$price), ]; m <- aggregate(price ~ region, data = df, FUN = mean); print(summary(m)) "

func ignore(jobs.Chunk) error { return nil }
