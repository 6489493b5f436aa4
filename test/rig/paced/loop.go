package paced

import (
	"errors"
	"slices"
	"time"

	"tandem/test/rig/paced/fleet"
)

const (
	chunkTokens = 2048                  // of a prompt, computed before anything else has a turn
	burst       = 20 * time.Millisecond // how often text that is streamed flows
	longestWait = time.Second           // between two looks at answers that are not
	mostLate    = 20 * time.Millisecond // that is made good to a requester who was told late
)

// errEnded is the answer to whoever comes when the server ends.
var errEnded = errors.New("the server is being closed")

// loop is an engine's one loop over its slots, as llama-server has it, over a virtual clock. It works out when the next thing of
// interest happens (a chunk of a prompt, a state or an answer is done, or text is due), sleeps until then, and goes on from
// that moment, not from when it woke up: late timers do not add up, and no token wakes it.
//
// States are written and read while nothing else goes on. A chunk of a prompt comes next, the longest waiting prompt first; those
// that generate gain a token by it, at most. Otherwise all that generate do, each at the rate for its position and for so many at once.
type loop struct {
	fleet    *fleet.Fleet
	machine  *fleet.Machine
	scale    float64 // of all durations
	start    time.Time
	commands chan func()
	ended    chan struct{} // closed when run returns

	// Of run's goroutine alone, and so of the commands.
	slower  float64
	now     time.Duration // virtual, since start
	late    time.Duration // how long after its end the last finished task was told
	slots   []*slot
	waiting []*task // for a slot, in order
	given   uint64  // tasks that have got one
	phase   phase
}

// phase is what the loop does from now until end.
type phase struct {
	kind Kind  // empty: nothing
	task *task // whose turn it is, before which nothing else has one; nil if all generate
	to   int   // of a prompt's chunk: how many of its tokens are done afterwards
	end  time.Duration
}

func newLoop(f *fleet.Fleet, m *fleet.Machine, scale, slower float64) *loop {
	l := &loop{fleet: f, machine: m, scale: scale, slower: slower, start: time.Now(), commands: make(chan func()), ended: make(chan struct{})}
	for id := range m.Slots {
		l.slots = append(l.slots, &slot{id: id})
	}
	return l
}

// run works until stop is closed.
func (l *loop) run(stop <-chan struct{}) {
	defer close(l.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if l.phase.kind != "" {
			timer.Reset(l.phase.end - l.elapsed())
			due = timer.C
		}
		select {
		case <-stop:
			return
		case <-due:
			l.catchUp()
		case f := <-l.commands:
			l.catchUp()
			f()
			if l.phase.task == nil {
				l.plan()
			}
		}
	}
}

// do has the loop call f between two of its steps, and returns when it has.
func (l *loop) do(f func()) error {
	done := make(chan struct{})
	select {
	case l.commands <- func() { f(); close(done) }:
		<-done
		return nil
	case <-l.ended:
		return errEnded
	}
}

func (l *loop) elapsed() time.Duration { return time.Since(l.start) }

// scaled makes seconds of the tables a duration.
func (l *loop) scaled(seconds float64) time.Duration {
	return time.Duration(seconds * l.slower * l.scale * float64(time.Second))
}

// catchUp brings the virtual clock to the present.
func (l *loop) catchUp() {
	t := l.elapsed()
	for l.phase.kind != "" && l.phase.end <= t {
		l.complete()
		l.plan()
	}
	if l.phase.kind == Decode {
		l.advance(t)
	}
}

// submit has a task wait for its slot that came at a moment since start. An idle engine has begun at that moment, whatever reading the
// request took, and even earlier if the last requester was told late: without that, the next one would have been here already.
func (l *loop) submit(t *task, came time.Duration) error {
	return l.do(func() {
		if l.phase.kind == "" {
			l.now = max(l.now, came-min(l.late, mostLate))
		}
		l.waiting = append(l.waiting, t)
	})
}

// plan gives slots to those who wait and begins the next phase.
func (l *loop) plan() {
	l.waiting = slices.DeleteFunc(l.waiting, l.give)
	l.phase = l.next()
	if t := l.phase.task; t != nil && !t.report.begun {
		t.report.begun, t.began = true, l.now
		t.slot.open(l.phase.kind, l.now)
		t.tell()
	}
}

// next is what is to be done now.
func (l *loop) next() phase {
	var first *task
	for _, s := range l.slots {
		if t := s.task; t != nil && !t.decodes() && (first == nil || t.before(first)) {
			first = t
		}
	}
	switch {
	case first == nil:
		return l.decoding()
	case first.move != "":
		rate := l.machine.SaveBytesPerSecond
		if first.move == Restore {
			rate = l.machine.RestoreBytesPerSecond
		}
		return phase{kind: first.move, task: first, end: l.now + l.scaled(l.fleet.StateBytes(len(first.prompt))/rate)}
	}
	to := min(first.done+chunkTokens, len(first.prompt))
	return phase{Prefill, first, to, l.now + l.scaled(l.machine.PrefillSeconds(to, first.done))}
}

// decoding is the phase in which all answers advance: until one is at its end, or text is due.
func (l *loop) decoding() phase {
	list := l.decoders()
	if len(list) == 0 {
		return phase{}
	}
	least := longestWait
	for _, t := range list {
		if t.stream {
			least = min(least, burst)
		}
		takes := -t.credit
		for i := t.report.generated; i < t.answer.tokens && takes < least; i++ {
			takes += l.tokenTime(t, i, len(list))
			if i == 0 && t.stream {
				break // the first one waits for no others
			}
		}
		least = min(least, takes)
	}
	return phase{kind: Decode, end: l.now + least}
}

// complete ends the phase, at its end.
func (l *loop) complete() {
	p := l.phase
	switch p.kind {
	case Decode:
		l.advance(p.end)
	case Prefill:
		took := p.end - l.now
		l.now = p.end
		list := l.decoders()
		for _, t := range list {
			l.generate(t, min(took, l.tokenTime(t, t.report.generated, len(list))), len(list))
		}
		l.computed(p.task, p.to)
	default:
		l.now = p.end
		l.finish(p.task)
	}
}

// advance has all answers go on until t, which is not after the next one's end.
func (l *loop) advance(t time.Duration) {
	took := t - l.now
	l.now = t
	list := l.decoders()
	for _, t := range list {
		l.generate(t, took, len(list))
	}
}

// decoders are the tasks that generate.
func (l *loop) decoders() (list []*task) {
	for _, s := range l.slots {
		if s.task != nil && s.task.decodes() {
			list = append(list, s.task)
		}
	}
	return list
}

// tokenTime is how long the answer's token i takes.
func (l *loop) tokenTime(t *task, i, busy int) time.Duration {
	return l.scaled(l.machine.TokenSeconds(len(t.prompt)+i, busy))
}

// generate spends time on an answer.
func (l *loop) generate(t *task, d time.Duration, busy int) {
	t.credit += d
	before := t.report.generated
	for t.report.generated < t.answer.tokens {
		takes := l.tokenTime(t, t.report.generated, busy)
		if t.credit < takes {
			break
		}
		t.credit -= takes
		if t.report.generated++; t.report.generated == 1 && t.answer.tokens > 1 {
			t.began = l.now - t.credit
		}
	}
	switch n := t.report.generated; {
	case n == t.answer.tokens:
		l.finish(t)
	case n > before && t.stream:
		t.tell()
	}
}
