package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tandem/internal/units"
	"tandem/jobs"
)

const (
	lanesSpan   = 10 * time.Minute
	laneCells   = 400 // of which each shows what took most of it
	laneHeight  = 16
	mostLanes   = 32   // of a worker, drawn
	keptVisits  = 1000 // of a worker
	keptMarks   = 16   // of a visit
	keptWorkers = 64   // of which visits are kept
)

const laneCell = lanesSpan / laneCells

// doing is what a request does at a worker, in a slot.
type doing int

const (
	prefills doing = iota
	saves
	moves
	restores
	decodes
	waits // for its KV state, to be checked, or to be taken on
)

// doings say how each is called and drawn: from the foot of a lane so high.
var doings = [...]struct {
	Name   string
	Height int
	Means  string
}{
	prefills: {"prefill", 13, "computes a prompt"}, saves: {"save", 5, "writes a KV state"}, moves: {"move", 5, "fetches a KV state"},
	restores: {"restore", 5, "reads a KV state"}, decodes: {"decode", 9, "generates text"}, waits: {"wait", 2, "holds a slot, and waits"},
}

// visit is the time of a request at a worker: what it did from each mark to the next.
type visit struct {
	marks []mark
	end   time.Time // zero while it is there
}

type mark struct {
	at   time.Time
	what doing
}

// turn notes what it does from now on.
func (v *visit) turn(now time.Time, what doing) {
	if len(v.marks) < keptMarks && (len(v.marks) == 0 || v.marks[len(v.marks)-1].what != what) {
		v.marks = append(v.marks, mark{now, what})
	}
}

// was notes what it did for some seconds until now. It may have come for that.
func (v *visit) was(now time.Time, what doing, seconds float64) {
	from := now.Add(-time.Duration(min(max(seconds, 0), lanesSpan.Seconds()) * float64(time.Second)))
	for len(v.marks) > 0 && !v.marks[len(v.marks)-1].at.Before(from) {
		v.marks = v.marks[:len(v.marks)-1]
	}
	v.turn(from, what)
	v.turn(now, waits)
}

// did reports whether it did something.
func (v *visit) did(what doing) bool {
	return slices.ContainsFunc(v.marks, func(m mark) bool { return m.what == what })
}

// atWork is a request that some worker has begun.
type atWork struct {
	said
	from   string // the worker that computed its prompt
	worker string // at which it is
	visit  *visit // its time there; nil between two workers
	began  time.Time
}

// begins are the events with which a worker begins with a request.
var begins = map[jobs.EventType]bool{jobs.EventPrefillBegun: true, jobs.EventFetched: true, jobs.EventDecodeBegun: true}

// follow takes what happened to a request into all that is drawn of the last minutes. The lock must be held.
func (w *watch) follow(now time.Time, id string, e *jobs.Event) {
	j := w.atWork[id]
	if j == nil && begins[e.Type] && len(w.atWork) < keptBegun {
		j = &atWork{began: now}
		w.atWork[id] = j
	}
	if j == nil {
		if e.Type != jobs.EventProgress { // which tells of all tokens so far, and the ones before may have been counted
			w.history.add(now, e, &said{})
		}
	} else {
		w.pairs.event(now, e, j)
		w.lanes.event(now, e, j)
		w.history.add(now, e, &j.said)
	}
	if e.Type == jobs.EventEnded {
		delete(w.atWork, id)
	}
	if now.Sub(w.asked) > 2*pollEvery { // or else the queue's own count is newer
		w.history.load(now, max(0, w.index.begun-w.lanes.running), w.lanes.running)
	}
}

// leave drops a request that has ended, if it is thought to be at work. The lock must be held.
func (w *watch) leave(now time.Time, id string) {
	if j := w.atWork[id]; j != nil {
		w.lanes.leave(now, j)
		delete(w.atWork, id)
	}
}

// forget drops requests of whose end nobody has heard. The lock must be held.
func (w *watch) forget(now time.Time) {
	for id, j := range w.atWork {
		if now.Sub(j.began) > keptUnended {
			w.leave(now, id)
		}
	}
}

// lanes are what each worker did in the last minutes.
type lanes struct {
	workers map[string][]*visit // by "machine/worker id"
	running int                 // requests that are at a worker
}

// event follows a request from worker to worker.
func (l *lanes) event(now time.Time, e *jobs.Event, j *atWork) {
	switch e.Type {
	case jobs.EventPrefillBegun:
		l.enter(now, e.Worker, j).turn(now, prefills)
		j.from = e.Worker
	case jobs.EventFetched:
		l.enter(now, e.Worker, j).was(now, moves, e.Seconds)
	case jobs.EventDecodeBegun:
		if v := l.enter(now, e.Worker, j); v.did(restores) {
			v.turn(now, decodes)
		} else { // the prompt comes first
			v.turn(now, prefills)
		}
	case jobs.EventOffered, jobs.EventRetried, jobs.EventRequeued, jobs.EventFellBack, jobs.EventEnded:
		l.leave(now, j)
	}
	if j.visit == nil {
		return
	}
	switch e.Type {
	case jobs.EventPrefillDone, jobs.EventHandoverFailed:
		j.visit.turn(now, waits)
	case jobs.EventSaved:
		j.visit.was(now, saves, e.Seconds)
	case jobs.EventRestored:
		j.visit.was(now, restores, e.Seconds)
	case jobs.EventFirstToken:
		j.visit.turn(now, decodes)
	}
}

// enter begins a visit, unless the request is there.
func (l *lanes) enter(now time.Time, worker string, j *atWork) *visit {
	if j.visit != nil && j.worker == worker {
		return j.visit
	}
	l.leave(now, j)
	j.worker, j.visit = worker, &visit{}
	l.running++
	if l.workers == nil {
		l.workers = map[string][]*visit{}
	}
	list, known := l.workers[worker]
	if !known && len(l.workers) >= keptWorkers {
		delete(l.workers, l.longestIdle())
	}
	old := 0
	for old < len(list) && (len(list)-old >= keptVisits || !list[old].end.IsZero() && now.Sub(list[old].end) > lanesSpan) {
		old++
	}
	l.workers[worker] = append(slices.Delete(list, 0, old), j.visit)
	return j.visit
}

func (l *lanes) leave(now time.Time, j *atWork) {
	if j.visit != nil {
		j.visit.end, j.visit = now, nil
		l.running--
	}
}

// longestIdle is the worker to which a request came before all others' last ones.
func (l *lanes) longestIdle() (idle string) {
	var since time.Time
	for name, list := range l.workers {
		last := list[len(list)-1]
		if at := cmp.Or(last.end, last.begun()); idle == "" || at.Before(since) {
			idle, since = name, at
		}
	}
	return idle
}

func (v *visit) begun() time.Time {
	if len(v.marks) == 0 {
		return v.end
	}
	return v.marks[0].at
}

// laneRow is a worker with what its slots did.
type laneRow struct {
	Machine, Role, Model string
	Slots, Requests      int
	Busy                 string
	Spent                []string // by doing
	Height               int      // of the picture, which is laneCells wide
	Paths                []lanePath
	Says                 string
}

// lanePath is all that a worker did of one kind, as a path of SVG.
type lanePath struct{ What, D string }

// draw has the picture of a worker's slots, of the time that ends now.
func (l *lanes) draw(now time.Time, w worker, since time.Time) laneRow {
	now = now.Truncate(laneCell)
	from := now.Add(-lanesSpan)
	if w.gone {
		now = w.seen
	}
	r := laneRow{Machine: w.Machine, Role: string(w.Role), Model: w.Model, Slots: max(1, w.Slots)}
	drawn := min(r.Slots, mostLanes)
	free := make([]time.Time, drawn) // when each lane is
	cells := make([][laneCells][len(doings)]time.Duration, drawn)
	var spent [len(doings)]time.Duration
	list := slices.SortedFunc(slices.Values(l.workers[w.Machine+"/"+w.Worker]), func(a, b *visit) int { return a.begun().Compare(b.begun()) })
	for _, v := range list {
		end := cmp.Or(v.end, now)
		if !end.After(from) {
			continue
		}
		r.Requests++
		lane := 0
		for i := range free { // the first that is free; if none is, the one that will be next
			if !free[i].After(v.begun()) {
				lane = i
				break
			}
			if free[i].Before(free[lane]) {
				lane = i
			}
		}
		begun := free[lane]
		free[lane] = end
		for i, m := range v.marks {
			until := end
			if i+1 < len(v.marks) {
				until = v.marks[i+1].at
			}
			at := latest(m.at, from, begun)
			if !until.After(at) {
				continue
			}
			spent[m.what] += until.Sub(at)
			for c := int(at.Sub(from) / laneCell); c < laneCells && until.After(at); c++ {
				next := earliest(until, from.Add(time.Duration(c+1)*laneCell))
				cells[lane][c][m.what] += next.Sub(at)
				at = next
			}
		}
	}
	r.Height = laneHeight * drawn
	var paths [len(doings)]strings.Builder
	for lane := range cells {
		for c, begun := 0, 0; c <= laneCells; c++ {
			if c < laneCells && most(&cells[lane][c]) == most(&cells[lane][begun]) {
				continue
			}
			if what := most(&cells[lane][begun]); what >= 0 {
				high := doings[what].Height
				fmt.Fprintf(&paths[what], "M%d %dh%dv%dh-%dz", begun, laneHeight*(lane+1)-1-high, c-begun, high, c-begun)
			}
			begun = c
		}
	}
	sum := time.Duration(0)
	for what := range doings {
		if paths[what].Len() > 0 {
			r.Paths = append(r.Paths, lanePath{doings[what].Name, paths[what].String()})
		}
		r.Spent = append(r.Spent, lasted(spent[what]))
		sum += spent[what]
	}
	span := min(lanesSpan, max(now.Sub(since), time.Second))
	r.Busy = fmt.Sprintf("%.0f %%", min(100, 100*sum.Seconds()/span.Seconds()/float64(r.Slots)))
	r.Says = fmt.Sprintf("The %s worker of %s on %s was busy %s of the last %s: %s; waited %s", r.Role, r.Model, r.Machine, r.Busy, units.Roughly(span), count(r.Requests, "request", "requests"), r.Spent[waits])
	return r
}

// most is what took most of a cell, -1 if nothing took any of it.
func most(cell *[len(doings)]time.Duration) doing {
	longest := doing(-1)
	for what, d := range cell {
		if d > 0 && (longest < 0 || d > cell[longest]) {
			longest = doing(what)
		}
	}
	return longest
}

// lasted is a time as the table of slots has it.
func lasted(d time.Duration) string {
	switch {
	case d <= 0:
		return none
	case d < 100*time.Second:
		return units.Duration(d)
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

func latest(times ...time.Time) time.Time   { return slices.MaxFunc(times, time.Time.Compare) }
func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

// lanesPart is what the overview shows of them.
type lanesPart struct {
	For    string
	Width  int
	Doings any
	Rows   []laneRow
}
