package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// span is one piece of an engine's work, in seconds of the fleet's time since the jobs were submitted.
type span struct {
	Kind  string  `json:"kind"` // prefill, decode, save or restore
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
}

// lane is what one slot of a machine did.
type lane struct {
	Machine string `json:"machine"`
	Slot    int    `json:"slot"`
	Spans   []span `json:"spans"`
}

// idle is when a slot did nothing, in seconds: before its first work, between that and its last, and after it, until the last result was there.
type idle struct {
	Start, Between, End, Worked float64
}

// share is that of the time between first and last work in which the slot did nothing.
func (i idle) share() float64 {
	if i.Between+i.Worked == 0 {
		return 0
	}
	return i.Between / (i.Between + i.Worked)
}

// gaps are the pauses between one kind of work and another.
type gaps struct {
	From, To string
	Count    int
	Total    float64
}

// sorted are the spans that lie in the run, which took so many seconds, in order.
func (l lane) sorted(took float64) []span {
	list := slices.DeleteFunc(slices.Clone(l.Spans), func(s span) bool { return s.End <= 0 || s.Begin >= took })
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.Begin, b.Begin) })
	return list
}

// idle sums up the slot's run, which took so many seconds, and lists its pauses, the longest sums first.
func (l lane) idle(took float64) (i idle, pauses []gaps) {
	list := l.sorted(took)
	if len(list) == 0 {
		return idle{Start: took}, nil
	}
	i.Start = max(0, list[0].Begin)
	until, last := list[0].Begin, ""
	found := map[[2]string]gaps{}
	for _, s := range list {
		if gap := s.Begin - until; gap > 0 {
			i.Between += gap
			g := found[[2]string{last, s.Kind}]
			found[[2]string{last, s.Kind}] = gaps{last, s.Kind, g.Count + 1, g.Total + gap}
		}
		if s.End > until {
			i.Worked += s.End - max(until, s.Begin)
			until, last = s.End, s.Kind
		}
	}
	i.End = max(0, took-until)
	return i, slices.SortedFunc(maps.Values(found), func(a, b gaps) int { return cmp.Compare(b.Total, a.Total) })
}

// timeline is what all slots did under one policy.
type timeline struct {
	Title string
	Took  float64 // seconds until the last result
	Lanes []lane
}

// kinds of work, each with its letter in text and its colour in pictures.
func works() []struct{ kind, letter, colour string } {
	return []struct{ kind, letter, colour string }{
		{"prefill", "P", "#2563eb"}, {"decode", "D", "#16a34a"}, {"save", "S", "#d97706"}, {"restore", "R", "#c026d3"},
	}
}

// text draws a row of letters for each slot, one for each part of the time in which its work was mostly of one kind, and says below how long it was idle and
// between what. scale is how many seconds of this machine one of the fleet's is.
func (t timeline) text(w io.Writer, width int, scale float64) {
	fmt.Fprintf(w, "%s: %.1f s\n", t.Title, t.Took)
	for _, l := range t.Lanes {
		var row strings.Builder
		for i := range width {
			row.WriteString(mostly(l.Spans, t.Took*float64(i)/float64(width), t.Took*float64(i+1)/float64(width)))
		}
		fmt.Fprintf(w, "  %-10s %d |%s|\n", l.Machine, l.Slot, row.String())
	}
	for _, l := range t.Lanes {
		i, pauses := l.idle(t.Took)
		fmt.Fprintf(w, "  %-10s %d idle %5.2f s at the start, %4.1f %% (%.2f s) between, %5.2f s at the end\n", l.Machine, l.Slot, i.Start, 100*i.share(), i.Between, i.End)
		for _, g := range pauses {
			fmt.Fprintf(w, "               %7s → %-7s %3d × %6.3f s (%.1f ms here)\n", g.From, g.To, g.Count, g.Total/float64(g.Count), 1000*scale*g.Total/float64(g.Count))
		}
	}
}

// mostly is the letter of the work that takes most of a time, a dot if that is none.
func mostly(spans []span, begin, end float64) string {
	letter, most := ".", (end-begin)/2
	for _, work := range works() {
		sum := 0.0
		for _, s := range spans {
			if s.Kind == work.kind {
				sum += max(0, min(s.End, end)-max(s.Begin, begin))
			}
		}
		if sum > most {
			letter, most = work.letter, sum
		}
	}
	return letter
}
