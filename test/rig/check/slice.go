package check

import (
	"slices"
	"strings"

	"tandem/test/rig/history"
)

// few is how many of the events that repeat each other a slice keeps at each end.
const few = 3

// cutter cuts slices out of a history.
type cutter struct {
	events []history.Event
	faults map[string][]int // positions of Fault and Healed, by process; all NATS servers are one
}

// server is the name under which a cutter keeps the faults of every NATS server, which hold all jobs.
const server = "nats"

func newCutter(events []history.Event) *cutter {
	c := &cutter{events: events, faults: map[string][]int{}}
	for at := range events {
		if e := &events[at]; e.Kind == history.Fault || e.Kind == history.Healed {
			p := party(e.Process)
			c.faults[p] = append(c.faults[p], at)
		}
	}
	return c
}

func party(process string) string {
	if strings.HasPrefix(process, server) {
		return server
	}
	return process
}

// slice is the shortest part of the history that shows a finding: the events of the job, and between the first and the last
// thing that happened to it the faults of whoever held it. If the finding is that something is missing, the next fault belongs
// to it, since a job is lost when nothing seems to happen to it. Of what repeats itself the beginning and the end are kept.
func (c *cutter) slice(d *dossier, f finding) []history.Event {
	first, last := d.events[0], d.events[0]
	held := map[string]bool{server: true}
	for _, at := range d.events {
		switch e := &c.events[at]; e.Kind {
		case history.Found, history.Expected: // read later, when all was over
			continue
		case history.Submitted, history.Delivered, history.Published, history.Called:
			held[party(e.Process)] = true
		}
		last = at
	}

	next := len(c.events)
	positions := slices.Clone(d.events)
	for p := range held {
		faults := c.faults[p]
		from, _ := slices.BinarySearch(faults, first)
		to, _ := slices.BinarySearch(faults, last)
		positions = append(positions, faults[from:to]...)
		if i := slices.IndexFunc(faults[to:], func(at int) bool { return c.events[at].Kind == history.Fault }); i >= 0 {
			next = min(next, faults[to+i])
		}
	}
	if f.missing && next < len(c.events) {
		positions = append(positions, next)
	}
	slices.Sort(positions)

	positions = c.thin(positions, f.at)
	part := make([]history.Event, len(positions))
	for i, at := range positions {
		part[i] = c.events[at]
	}
	return part
}

// thin leaves out the middle of what is there many times, but nothing of keep.
func (c *cutter) thin(positions, keep []int) []int {
	type same struct {
		kind   history.Kind
		stream string
		party  string // of faults only: a job may go from process to process
	}
	sort := func(at int) same {
		e := &c.events[at]
		s := same{kind: e.Kind, stream: e.Stream}
		if e.Kind == history.Fault || e.Kind == history.Healed {
			s.party = e.Process
		}
		return s
	}
	keep = slices.Sorted(slices.Values(keep))
	total, passed := map[same]int{}, map[same]int{}
	for _, at := range positions {
		total[sort(at)]++
	}
	return slices.DeleteFunc(positions, func(at int) bool {
		s := sort(at)
		passed[s]++
		_, kept := slices.BinarySearch(keep, at)
		return passed[s] > few && passed[s] <= total[s]-few && !kept
	})
}
