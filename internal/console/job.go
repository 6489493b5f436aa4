package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/internal/sanitize"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	maxText    = 200_000         // bytes of a text that are shown: its end
	forgetsJob = 2 * time.Minute // that nobody looks at
	askLimit   = 5 * time.Second // for NATS to give the records of a job
	maxDetails = 200             // jobs whose records are kept
)

// details are the records of jobs whose pages are open, or were a moment ago.
type details struct {
	mu sync.Mutex
	m  map[jobKey]*detail
}

type detail struct {
	mu     sync.Mutex // one question at a time
	result *jobs.Result
	letter *admin.Letter
	stop   func()      // of listening to its text; nil if nobody does
	forget *time.Timer // nobody looks at it any more

	text struct {
		sync.Mutex
		attempt, next  int
		gap            bool
		said, thinking []byte
	}
}

// of has the details of a job, until nobody has asked for them for a while. They are kept of a job that is known, if there are not too many.
func (d *details) of(key jobKey, known bool) *detail {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.m[key]
	if one == nil && (!known || len(d.m) >= maxDetails) {
		return &detail{}
	}
	if one == nil {
		one = &detail{}
		one.forget = time.AfterFunc(forgetsJob, func() {
			d.mu.Lock()
			delete(d.m, key)
			d.mu.Unlock()
			one.mu.Lock()
			defer one.mu.Unlock()
			one.silence()
		})
		d.m[key] = one
	}
	one.forget.Reset(forgetsJob)
	return one
}

// listen takes the pieces of a job's text, until silence is called. The lock must be held.
func (d *detail) listen(open context.Context, w *watch, user, batch, id string) {
	ctx, stop := context.WithCancel(open)
	tokens, err := w.system.For(user).Tokens(ctx, batch, id)
	if err != nil {
		stop() // it is tried again when the page is drawn again
		return
	}
	d.stop = stop
	go func() {
		defer tokens.Close()
		for chunk := range tokens.Chunks(ctx) {
			d.take(chunk)
			w.mu.Lock()
			w.changed()
			w.mu.Unlock()
		}
	}()
}

// silence ends listening. The lock must be held.
func (d *detail) silence() {
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
}

// take adds a piece of text.
func (d *detail) take(chunk *jobs.Chunk) {
	t := &d.text
	t.Lock()
	defer t.Unlock()
	if chunk.Attempt < t.attempt {
		return
	}
	if chunk.Attempt > t.attempt {
		t.attempt, t.next, t.gap, t.said, t.thinking = chunk.Attempt, 0, false, nil, nil
	}
	t.gap = t.gap || chunk.Seq != t.next
	t.next = chunk.Seq + 1
	add := func(to []byte, text string) []byte {
		if to = append(to, text...); len(to) > 2*maxText {
			to = append([]byte(nil), to[len(to)-maxText:]...)
		}
		return to
	}
	t.said, t.thinking = add(t.said, chunk.Text), add(t.thinking, chunk.Thinking)
}

// jobPage is the answer to: where is this job, and what became of it?
type jobPage struct {
	jobRow
	Ended    bool
	Words    string
	Facts    []fact
	Phases   []phase
	Steps    []happening
	Warnings []string
	Decision string
	Text     string // empty if it may not be seen, or is not there
	Thinking string
	TextNote string
	Replays  string // the path of the job that this one repeats
	Verbs    []verbOf
}

// fact is a figure, or a name.
type fact struct{ Name, Value, Note string }

// phase is a part of the time that a job took.
type phase struct {
	Name    string
	Seconds float64
	Note    string
	X, W    float64 // of the whole, in thousandths
}

// happening is a moment of a job.
type happening struct{ At, After, What, Where, Note string }

// job draws the page of a job.
func (c *Console) job(r *http.Request) (any, error) {
	user, err := "", error(nil) // of a record that could not be read
	if token := r.PathValue("user"); token != protocol.NoUser {
		user, err = jobs.DecodeToken(token)
	}
	id := r.PathValue("id")
	if err != nil || jobs.CheckID("job id", id) != nil {
		return nil, refuse(http.StatusNotFound, "%.80q of user %.80q is no job: an id is a UUID", id, r.PathValue("user"))
	}
	who, now, key := people.From(r.Context()), time.Now(), jobKey{wordOf(user), id}
	known := c.watch.jobCopy(key)
	d := c.details.of(key, known != nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), askLimit)
	defer cancel()
	system := c.watch.system.For(user)
	if d.result == nil && user != "" && (known == nil || known.ended()) {
		if d.result, err = system.OwnResult(ctx, id); err != nil {
			return nil, err
		}
		if r := d.result; r != nil { // of which the rest may have megabytes
			r.Text, r.Thinking, r.Logprobs, r.Embeddings, r.ToolCalls = tail(r.Text), tail(r.Thinking), nil, nil, nil
		}
	}
	if known == nil && d.result == nil {
		return nil, refuse(http.StatusNotFound, "job %s of %s is not known: no stream holds anything of it; results are kept for 7 days", id, cmp.Or(user, "nobody"))
	}
	if known == nil {
		if known = jobOf(d.result); known == nil {
			return nil, refuse(http.StatusNotFound, "the result of job %s has names that are too long", id)
		}
	}
	if known.letter > 0 && d.letter == nil {
		if d.letter, err = system.OwnLetter(ctx, id); err != nil {
			d.letter = nil // it was dropped meanwhile
		}
	}
	p := jobPage{jobRow: rowOfJob(known, who, now), Ended: known.ended()}
	touch := who.MayTouch(user)
	if touch && !p.Ended && d.stop == nil && d.forget != nil {
		d.listen(c.open, c.watch, user, known.batch.Value(), id)
	}
	if p.Ended {
		d.silence()
	}
	for _, v := range verbs {
		if touch && v.Fits(known) {
			p.Verbs = append(p.Verbs, v)
		}
	}
	p.describe(known, d, touch, now)
	return p, nil
}

// jobCopy is what the index knows of a job; nil if nothing.
func (w *watch) jobCopy(key jobKey) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.index.byKey[key]
	if j == nil {
		return nil
	}
	whole := *j
	return &whole
}

// jobOf is a job of which only the result is known.
func jobOf(r *jobs.Result) *job {
	x := newIndex()
	x.kept(admin.StreamResults, &admin.Kept{
		JobID: r.JobID, User: r.User, Batch: r.Batch, Model: r.Model, Status: r.Status, Method: r.Method, Seconds: r.Timings.TotalSeconds, Usage: r.Usage, Workers: r.Servers,
		Accepted: r.FinishedAt.Add(-time.Duration(r.Timings.TotalSeconds * float64(time.Second))), Sequence: 1,
	})
	if len(x.order) == 0 { // a worker wrote what is none of ours
		return nil
	}
	return x.order[0]
}

// describe fills in what is known of the job.
func (p *jobPage) describe(j *job, d *detail, touch bool, now time.Time) {
	r := d.result
	moments := make([]jobs.Event, 0, len(j.steps))
	moments = append(moments, j.steps...)
	if r != nil {
		moments = moments[:0]
		for _, m := range r.Timeline {
			moments = append(moments, jobs.Event{Type: m.Type, At: m.At, Worker: m.Worker, Why: m.Why})
		}
		p.ofResult(r)
	}
	first := j.accepted
	if len(moments) > 0 {
		first = moments[0].At
	}
	for _, m := range moments {
		p.Steps = append(p.Steps, happening{m.At.UTC().Format("15:04:05.000"), after(m.At.Sub(first)), strings.ReplaceAll(string(m.Type), "_", " "), m.Worker, noteOf(&m)})
	}
	if l := d.letter; l != nil {
		p.Facts = append(p.Facts, fact{"Dead letter", fmt.Sprintf("given up at %s", l.Stage), fmt.Sprintf("%s by %s, after %s", l.FailedAt.UTC().Format("2 Jan 15:04:05"), l.Worker, count(l.Attempts, "attempt", "attempts"))})
	}
	switch {
	case p.Ended && p.Seconds > 0:
		p.Words = "after " + seconds(p.Seconds)
	case !p.Ended:
		p.Words = p.Where + ", accepted " + units.Roughly(now.Sub(j.accepted)) + " ago"
	}
	switch {
	case !touch:
		p.TextNote = "What it was asked and what it answered, its own user and operators see."
	case r != nil:
		p.Text, p.Thinking = r.Text, r.Thinking
		if p.Text == "" {
			p.TextNote = "It has no text."
		}
	case !p.Ended:
		d.text.Lock()
		p.Text, p.Thinking = tail(string(d.text.said)), tail(string(d.text.thinking))
		switch {
		case p.Text == "" && p.Thinking == "":
			p.TextNote = "Nothing has been heard of its text yet. Only jobs that stream send theirs while they run; the text of others is here when they end."
		case d.text.gap:
			p.TextNote = "Live. The beginning, or a piece of it, is missing here; the result will have it."
		default:
			p.TextNote = "Live."
		}
		d.text.Unlock()
	}
}

// ofResult adds what the result says.
func (p *jobPage) ofResult(r *jobs.Result) {
	p.Warnings, p.Decision = r.Warnings, r.Decision
	if r.ReplayOf != "" {
		p.Replays = pathOf(r.User, r.ReplayOf)
	}
	if r.Error != nil {
		p.Code, p.Message = string(r.Error.Code), r.Error.Message
	}
	t, u := r.Timings, r.Usage
	add := func(name, value, note string) { p.Facts = append(p.Facts, fact{name, value, note}) }
	if u.PromptTokens > 0 {
		cached := u.PrefillCached
		computed := u.PrefillComputed
		if r.Servers.Prefill == "" {
			cached, computed = u.DecodeCached, u.DecodeComputed
		}
		add("Prompt", units.Count(u.PromptTokens)+" tokens", units.Count(computed)+" computed, "+units.Count(cached)+" found in a cache")
	}
	if u.GeneratedTokens > 0 {
		add("Answer", units.Count(u.GeneratedTokens)+" tokens", rate(t.DecodeTokensPerSecond)+" tok/s")
	}
	if h := r.Handover; h != nil {
		switch {
		case h.Failure != "":
			add("Hand-over", "not used", string(h.Failure)+": "+h.Message)
		default:
			add("Hand-over", units.Bytes(h.Bytes), units.Bytes(h.MovedBytes)+" over the network, "+units.Bytes(int64(h.BytesPerSecond))+"/s; "+units.Count(u.HandedOver)+" tokens")
		}
	}
	add("Attempts", fmt.Sprintf("%d + %d", r.Attempts.Prefill, r.Attempts.Decode), "of prefill and decode")
	if r.Servers.Prefill != "" {
		add("Prefill by", r.Servers.Prefill, "")
	}
	if r.Servers.Decode != "" {
		add("Decode by", r.Servers.Decode, strings.TrimSpace(r.Provenance.Engine+" "+r.Provenance.EngineVersion))
	}
	x := 0.0
	for _, one := range []phase{
		{Name: "Wait for prefill", Seconds: t.QueuePrefillSeconds}, {Name: "Prefill", Seconds: t.PrefillSeconds, Note: rate(t.PrefillTokensPerSecond) + " tok/s"}, {Name: "Save", Seconds: t.SaveSeconds},
		{Name: "Wait for decode", Seconds: t.QueueDecodeSeconds}, {Name: "Move", Seconds: t.TransferSeconds}, {Name: "Restore", Seconds: t.RestoreSeconds}, {Name: "Check", Seconds: t.CheckSeconds},
		{Name: "Prefill at decode", Seconds: t.DecodePrefillSeconds}, {Name: "Decode", Seconds: t.DecodeSeconds, Note: rate(t.DecodeTokensPerSecond) + " tok/s"},
	} {
		if one.Seconds <= 0 {
			continue
		}
		one.X = x
		x += one.Seconds
		p.Phases = append(p.Phases, one)
	}
	for i := range p.Phases {
		p.Phases[i].X, p.Phases[i].W = 1000*p.Phases[i].X/x, max(2, 1000*p.Phases[i].Seconds/x)
	}
}

// tail is the end of a text that is too long to be shown, with nothing in it that acts.
func tail(s string) string {
	if len(s) > maxText {
		s = "… " + strings.ToValidUTF8(s[len(s)-maxText:], "")
	}
	return sanitize.Text(s)
}

func after(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return "+" + units.Duration(d)
}

// noteOf says what a moment brought.
func noteOf(e *jobs.Event) string {
	var list []string
	if e.Tokens > 0 {
		list = append(list, count(e.Tokens, "token", "tokens"))
	}
	if e.CachedTokens > 0 {
		list = append(list, units.Count(e.CachedTokens)+" cached")
	}
	if e.Bytes > 0 {
		list = append(list, units.Bytes(e.Bytes))
	}
	if e.MovedBytes > 0 {
		list = append(list, units.Bytes(e.MovedBytes)+" moved")
	}
	if e.Seconds > 0 {
		list = append(list, seconds(e.Seconds))
	}
	if e.Failure != "" {
		list = append(list, string(e.Failure))
	}
	if e.Why != "" {
		list = append(list, e.Why)
	}
	return strings.Join(list, ", ")
}

// brief is the end of an id, which tells jobs apart: ids of one moment begin alike.
func brief(id string) string { return "…" + id[max(0, len(id)-8):] }

// kindOf is the class of a phase: those of a kind have a colour.
func kindOf(phase string) string {
	switch phase {
	case "Prefill", "Prefill at decode":
		return "prefill"
	case "Decode":
		return "decode"
	case "Wait for prefill", "Wait for decode":
		return "wait"
	case "Save":
		return "save"
	case "Restore", "Check":
		return "restore"
	}
	return "move"
}
