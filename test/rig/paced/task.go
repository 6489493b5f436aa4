package paced

import (
	"slices"
	"time"
)

// erase is a move that takes no time.
const erase Kind = "erase"

// slot is a sequence in the cache, and one task at a time.
type slot struct {
	id    int
	held  []int32
	task  *task  // nil if it is idle
	used  uint64 // number of the last task
	spans []Span
}

// task is a request for a slot: a completion, or, with move, one to save, restore or erase its state.
type task struct {
	move   Kind
	want   int     // slot; -1 is any
	prompt []int32 // of a move: the state's tokens
	cache  bool    // what the slot holds of the prompt is used
	stream bool
	answer answer
	latest chan report // the last one that was not read yet

	// Of the loop.
	slot   *slot         // nil: it waits for one
	number uint64        // in the order in which slots were given
	done   int           // tokens of the prompt
	credit time.Duration // spent on the next token
	began  time.Duration // its prompt or move, then its answer, from whose first token on the engine counts
	report report
}

// report is how far a task has come.
type report struct {
	begun, finished bool
	held            []int32 // what the slot held when it was given
	cached, done    int     // tokens of the prompt
	generated       int     // tokens of the answer
	prefill, decode time.Duration
}

func newTask(slot int) *task { return &task{want: slot, latest: make(chan report, 1)} }

// tell lets the requester know.
func (t *task) tell() {
	select {
	case <-t.latest: // which was not read
	default:
	}
	t.latest <- t.report
}

// decodes reports whether the task's prompt is done and its answer is not.
func (t *task) decodes() bool { return t.move == "" && t.done == len(t.prompt) }

// before says which of two tasks has the first turn: moves do.
func (t *task) before(other *task) bool {
	if moves := t.move != ""; moves != (other.move != "") {
		return moves
	}
	return t.number < other.number
}

// give gives a waiting task its slot, and reports whether there was one.
func (l *loop) give(t *task) bool {
	s := l.choose(t)
	if s == nil {
		return false
	}
	l.given++
	s.task, s.used = t, l.given
	t.slot, t.number, t.report.held = s, l.given, s.held
	switch t.move {
	case Save:
		t.prompt = s.held
	case Restore:
		s.held = nil
	case erase:
		s.held, s.task = nil, nil
		t.report.finished = true
	default:
		if t.cache {
			t.done = min(common(s.held, t.prompt), len(t.prompt)-1) // the last token predicts the next one
		}
		t.report.cached, t.report.done = t.done, t.done
		s.held = t.prompt[:t.done]
	}
	t.tell()
	return true
}

// choose finds the task's slot, nil if it is busy: the one it names, else that with the longest common beginning of more than a tenth of
// the prompt, which is llama-server's own rule, else the one that was idle for the longest time.
func (l *loop) choose(t *task) *slot {
	if t.want >= 0 {
		if s := l.slots[t.want%len(l.slots)]; s.task == nil {
			return s
		}
		return nil
	}
	var best, oldest *slot
	longest := len(t.prompt) / 10
	for _, s := range l.slots {
		if s.task != nil {
			continue
		}
		if n := common(s.held, t.prompt); n > longest {
			best, longest = s, n
		}
		if oldest == nil || s.used < oldest.used {
			oldest = s
		}
	}
	if best != nil {
		return best
	}
	return oldest
}

// computed notes how many of the prompt's tokens are done.
func (l *loop) computed(t *task, n int) {
	t.done, t.report.done = n, n
	if n < len(t.prompt) {
		t.tell()
		return
	}
	t.report.prefill, t.began = l.now-t.began, l.now
	if t.answer.tokens == 0 {
		l.finish(t)
		return
	}
	t.slot.shut(l.now)
	t.slot.open(Decode, l.now)
	t.tell()
}

// finish ends a task whose work is done.
func (l *loop) finish(t *task) {
	if t.answer.tokens > 0 {
		t.report.decode = l.now - t.began
	}
	t.report.finished = true
	l.release(t)
	t.tell()
	l.late = max(0, l.elapsed()-l.now)
}

// release leaves in the slot what was computed. Of an answer that is all but the last token, which nothing was computed from.
func (l *loop) release(t *task) {
	s := t.slot
	s.shut(l.now)
	s.task = nil
	if t.move == "" {
		generated := tokens(t.answer.whole[:max(0, t.report.generated-1)*tokenBytes])
		s.held = slices.Concat(t.prompt[:t.done], generated)
	}
}

// cancel ends a task at once, wherever it is.
func (l *loop) cancel(t *task) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *task) bool { return other == t })
	if t.slot == nil || t.slot.task != t {
		return
	}
	if l.phase.task == t {
		l.now, l.phase = min(l.elapsed(), l.phase.end), phase{}
	}
	l.release(t)
}

// common is the length of the longest common beginning.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
