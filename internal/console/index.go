package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"tandem/client/admin"
	"tandem/jobs"
)

const (
	keptJobs   = 200_000 // of those that have ended, the first to be accepted are forgotten
	keptBegun  = 20_000  // jobs that have not ended; of more only the end is noted
	keptSteps  = 100     // of one that has not ended
	maxMessage = 500     // bytes of an error's text
	tailPart   = 500     // messages that are taken in at once

	tailEvery      = time.Second            // what streams hold is read on, while somebody looks at jobs
	unreadEvery    = 15 * time.Second       // if they cannot be read
	forgetsWish    = 30 * time.Second       // after nobody has looked any more
	firstRead      = 300 * time.Millisecond // that a page waits for what streams hold
	reconcileEvery = time.Minute
)

// state is where a job is; the words are those of the filter.
type state string

const (
	waiting    state = "waiting"
	running    state = "running"
	anyLetter  state = "dead letter" // of the filter alone: a failed job that lies in the stream of dead letters
	unfinished state = "unfinished"  // of the filter alone: waiting or running
)

// states are what may be filtered by.
var states = []state{unfinished, waiting, running, state(jobs.Succeeded), state(jobs.Failed), anyLetter, state(jobs.Cancelled), state(jobs.Expired)}

// word is a name that many jobs share, kept once.
type word = unique.Handle[string]

func wordOf(s string) word { return unique.Make(s) }

// jobKey names a job: ids are made by clients, so two users may have the same.
type jobKey struct {
	user word
	id   string
}

// job is what is known of one, without texts.
type job struct {
	jobKey
	batch, model word
	state        word // of the words above
	stage        word // where it waits or runs; of a dead letter, which gave up
	method       word
	worker       word // that it is at, or that ended it
	code         word
	message      word
	accepted     time.Time
	seconds      float32 // from accepted to finished
	prompt       int32   // tokens
	generated    int32
	result       uint64       // sequence of its result; 0 if that has not been read
	letter       uint64       // of its dead letter; 0 if there is none
	heard        time.Time    // of an event last
	steps        []jobs.Event // until it ends
}

func (j *job) ended() bool {
	return j.state != wordOf(string(waiting)) && j.state != wordOf(string(running))
}

// index is every job that the streams hold or events told of. It is guarded by the lock of the watch.
type index struct {
	byKey            map[jobKey]*job
	order            []*job // by when they were accepted
	sorted           bool
	begun            int               // that have not ended
	results, letters int               // that were read and are not known to be gone
	tails            map[string]uint64 // up to where each stream was read
	read             bool              // all streams, once
}

func newIndex() *index {
	return &index{byKey: map[jobKey]*job{}, sorted: true, tails: map[string]uint64{}}
}

// find has the entry of a job, which it makes if need be; nil if there is no room for one more.
func (x *index) find(user, id string, accepted time.Time) *job {
	key := jobKey{wordOf(user), id}
	if j := x.byKey[key]; j != nil {
		return j
	}
	j := &job{jobKey: key, accepted: accepted, state: wordOf(string(waiting)), batch: wordOf(""), model: wordOf(""), stage: wordOf(""), method: wordOf(""), worker: wordOf(""), code: wordOf(""), message: wordOf("")}
	if n := len(x.order); n > 0 && x.order[n-1].accepted.After(accepted) {
		x.sorted = false
	}
	x.byKey[key], x.order = j, append(x.order, j)
	x.begun++
	if len(x.order) > keptJobs+keptJobs/20 {
		x.forget(len(x.order) - keptJobs)
	}
	return j
}

// end notes that a job has ended.
func (x *index) end(j *job, status jobs.Status) {
	if !j.ended() {
		x.begun--
	}
	j.state, j.steps = wordOf(string(status)), nil
}

// forget removes so many of the jobs that have ended, those that were accepted first; if there are not enough, others, too.
func (x *index) forget(n int) {
	x.sort()
	for _, endedOnly := range []bool{true, false} {
		x.order = slices.DeleteFunc(x.order, func(j *job) bool {
			if n == 0 || endedOnly && !j.ended() {
				return false
			}
			n--
			x.remove(j)
			return true
		})
	}
}

// remove takes a job out of all but the order.
func (x *index) remove(j *job) {
	if !j.ended() {
		x.begun--
	}
	if j.result > 0 {
		x.results--
	}
	if j.letter > 0 {
		x.letters--
	}
	delete(x.byKey, j.jobKey)
}

func (x *index) sort() {
	if !x.sorted {
		slices.SortStableFunc(x.order, func(a, b *job) int { return a.accepted.Compare(b.accepted) })
		x.sorted = true
	}
}

// event takes what happened to a job.
func (x *index) event(e *jobs.Event) {
	e.Why, e.Extra = cut(e.Why), nil
	if _, known := x.byKey[jobKey{wordOf(e.User), e.JobID}]; !known && x.begun >= keptBegun && e.Type != jobs.EventEnded {
		return
	}
	j := x.find(e.User, e.JobID, e.At)
	if j.ended() && j.result > 0 {
		return // its result was read already, which says more
	}
	j.batch, j.model, j.heard = wordOf(e.Batch), wordOf(e.Model), time.Now()
	if e.Type == jobs.EventEnded {
		x.end(j, e.Status)
		j.method, j.code = wordOf(string(e.Method)), wordOf(string(e.Code))
		if e.Usage != nil {
			j.prompt, j.generated = int32(e.Usage.PromptTokens), int32(e.Usage.GeneratedTokens)
		}
		if e.Timings != nil {
			j.seconds = float32(e.Timings.TotalSeconds)
		}
		return
	}
	if j.ended() { // an older event of it was late
		return
	}
	if e.Type == jobs.EventAccepted && len(j.steps) > 0 { // its submitter tells of it, and a worker was faster
		j.steps = slices.Insert(j.steps, 0, *e)
		return
	}
	if e.Stage != "" {
		j.stage = wordOf(string(e.Stage))
	}
	switch e.Type {
	case jobs.EventAccepted, jobs.EventOffered, jobs.EventRetried, jobs.EventRequeued, jobs.EventFellBack:
		j.state, j.worker = wordOf(string(waiting)), wordOf("")
		if e.Type == jobs.EventOffered {
			j.stage = wordOf(string(jobs.StageDecode))
		}
	default:
		j.state, j.worker = wordOf(string(running)), wordOf(e.Worker)
		if e.Type == jobs.EventProgress {
			j.generated = int32(e.Tokens)
		}
	}
	if last := len(j.steps) - 1; e.Type == jobs.EventProgress && last >= 0 && j.steps[last].Type == jobs.EventProgress {
		j.steps[last] = *e
	} else if len(j.steps) < keptSteps {
		j.steps = append(j.steps, *e)
	}
}

// kept takes what a stream holds of a job.
func (x *index) kept(stream string, k *admin.Kept) {
	x.tails[stream] = max(x.tails[stream], k.Sequence)
	if max(len(k.Model), len(k.User), len(k.Batch)) > 4*jobs.MaxName { // nothing of ours
		return
	}
	accepted := k.Accepted
	if accepted.IsZero() {
		accepted = k.Stored
	}
	j := x.find(k.User, k.JobID, accepted)
	if accepted.Before(j.accepted) { // of which nothing had been heard when it was
		j.accepted, x.sorted = accepted, false
	}
	if j.batch.Value() == "" {
		j.batch = wordOf(k.Batch)
	}
	if j.model.Value() == "" {
		j.model = wordOf(k.Model)
	}
	switch stream {
	case admin.StreamIntake, admin.StreamRelay:
		if !j.ended() && len(j.steps) == 0 { // else it is known better
			j.stage = wordOf(string(k.Stage))
		}
	case admin.StreamResults:
		x.end(j, k.Status)
		if j.result == 0 {
			x.results++
		}
		j.result, j.method, j.seconds = k.Sequence, wordOf(string(k.Method)), float32(k.Seconds)
		j.prompt, j.generated = int32(k.Usage.PromptTokens), int32(k.Usage.GeneratedTokens)
		j.worker = wordOf(cmp.Or(k.Workers.Decode, k.Workers.Prefill))
		j.code, j.message = wordOf(string(k.Error.Code)), wordOf(cut(k.Error.Message))
	case admin.StreamDLQ:
		if !j.ended() {
			x.end(j, jobs.Failed)
		}
		if j.letter == 0 {
			x.letters++
		}
		j.letter, j.stage, j.code, j.message = k.Sequence, wordOf(string(k.Stage)), wordOf(string(k.Error.Code)), wordOf(cut(k.Error.Message))
	}
}

func cut(message string) string {
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage], "") + " …"
	}
	return message
}

// streamsOfJobs are read in the order in which jobs move, so that one that moves meanwhile is not missed.
var streamsOfJobs = []string{admin.StreamIntake, admin.StreamRelay, admin.StreamResults, admin.StreamDLQ}

// readOn takes what the streams hold that has not been read.
func (w *watch) readOn(ctx context.Context) error {
	for _, stream := range streamsOfJobs {
		w.mu.Lock()
		after := w.index.tails[stream]
		w.mu.Unlock()
		var some []*admin.Kept
		take := func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, k := range some {
				w.index.kept(stream, k)
				if stream == admin.StreamResults {
					w.leave(time.Now(), k.User+" "+k.JobID) // if the event of its end was lost
				}
			}
			if len(some) > 0 {
				some = some[:0]
				w.changed()
			}
		}
		for k, err := range w.system.Kept(ctx, stream, after) {
			if err != nil {
				take()
				return fmt.Errorf("read what stream %s holds: %w", stream, err)
			}
			if some = append(some, k); len(some) == tailPart { // so that others get the lock, too
				take()
			}
		}
		take()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.index.read {
		w.index.read = true
		w.changed()
	}
	return nil
}

// tail reads what the streams hold while somebody looks at jobs, until ctx ends.
func (w *watch) tail(ctx context.Context) {
	for {
		var again <-chan time.Time
		w.mu.Lock()
		wanted := time.Since(w.wanted) < forgetsWish
		w.mu.Unlock()
		if wanted {
			err := w.readOn(ctx)
			if err == nil {
				err = w.reconcile(ctx)
			}
			pause := tailEvery
			if err != nil {
				pause = unreadEvery
			}
			w.mu.Lock()
			if why := textOf(err); why != w.unread && ctx.Err() == nil {
				w.unread = why
				w.changed()
			}
			w.mu.Unlock()
			again = time.After(pause)
		}
		want := w.want
		if wanted {
			want = nil // it is read on anyway
		}
		select {
		case <-again:
		case <-want:
		case <-ctx.Done():
			return
		}
	}
}

// wantJobs has the streams read on for a while, and waits a moment for the first time that they are read.
func (w *watch) wantJobs(ctx context.Context) {
	w.mu.Lock()
	w.wanted = time.Now()
	w.mu.Unlock()
	select {
	case w.want <- struct{}{}:
	default: // it is about to
	}
	limit := time.NewTimer(firstRead)
	defer limit.Stop()
	for {
		w.mu.Lock()
		read, stirred := w.index.read || w.unread != "", w.stirred
		w.mu.Unlock()
		if read {
			return
		}
		select {
		case <-stirred:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// compare notes whether the streams hold fewer jobs than are known, and begins one anew that was made anew. The lock must be held.
func (w *watch) compare(streams []admin.StreamStatus) {
	x := w.index
	if len(streams) == 0 || !x.read {
		return
	}
	held, anew := map[string]int{}, false
	for _, s := range streams {
		held[s.Name] = int(s.Messages)
		if s.LastSequence < x.tails[s.Name] {
			x.tails[s.Name], anew = 0, true
		}
	}
	if x.results > held[admin.StreamResults] || x.letters > held[admin.StreamDLQ] || x.begun > held[admin.StreamIntake]+held[admin.StreamRelay] {
		w.surplus++
	} else {
		w.surplus = 0
	}
	if anew {
		w.surplus = 2
	}
}

// reconcile forgets jobs of which the streams hold nothing any more: results and letters that were removed, or became too old. That shows when they hold fewer than are
// known, twice in a row.
func (w *watch) reconcile(ctx context.Context) error {
	w.mu.Lock()
	due := w.surplus >= 2 && time.Since(w.reconciled) > reconcileEvery
	began := time.Now()
	w.mu.Unlock()
	if !due {
		return nil
	}
	in := map[string]map[jobKey]bool{}
	for _, stream := range streamsOfJobs {
		in[stream] = map[jobKey]bool{}
		names, err := w.system.KeptNames(ctx, stream)
		if err != nil {
			return err
		}
		for _, n := range names {
			in[stream][jobKey{wordOf(n.User), n.JobID}] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reconciled, w.surplus = time.Now(), 0
	x := w.index
	x.order = slices.DeleteFunc(x.order, func(j *job) bool {
		if j.letter > 0 && !in[admin.StreamDLQ][j.jobKey] {
			j.letter = 0
			x.letters--
		}
		if j.result > 0 && !in[admin.StreamResults][j.jobKey] {
			j.result = 0
			x.results--
		}
		if slices.ContainsFunc(streamsOfJobs, func(s string) bool { return in[s][j.jobKey] }) || j.heard.After(began.Add(-time.Minute)) { // events of it may be ahead of the streams
			return false
		}
		x.remove(j)
		return true
	})
	w.changed()
	return nil
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
