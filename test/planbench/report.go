package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"tandem/test/rig/paced/fleet"
)

// printFleet writes a fleet's table.
func printFleet(w io.Writer, f *fleet.Fleet, policies []string, rows []*row) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n\n", f.Name, f.About)
	head := []string{"load", "jobs", "bound"}
	head = append(append(head, policies...), "auto ÷ best other", "foretold (÷ took)", "moved", "auto's ways", "goals")
	line(w, head...)
	line(w, slices.Repeat([]string{"---"}, len(head))...)
	for _, r := range rows {
		printRow(w, r, policies)
	}
}

func printRow(w io.Writer, r *row, policies []string) {
	cells := []string{r.Load, fmt.Sprint(r.Jobs), seconds(r.Bound)}
	var moved, foretold []string
	ways := "–"
	for i, p := range policies {
		o := r.Outcomes[i]
		cells = append(cells, fmt.Sprintf("%s (%.3f)", seconds(r.seconds(p)), r.seconds(p)/r.Bound))
		switch {
		case o.Foretold > 0 && p == auto:
			foretold = append(foretold, fmt.Sprintf("%s %s (%.3f)", p, seconds(o.Foretold), r.foretold(o)))
		case o.Foretold > 0:
			foretold = append(foretold, fmt.Sprintf("%s %.3f", p, r.foretold(o)))
		}
		if p == disaggregated || p == auto {
			moved = append(moved, fmt.Sprintf("%.1f GB", o.Bytes/1e9))
		}
		if p == auto {
			ways = waysOf(o.Methods)
		}
	}
	ratio := "–"
	if name, best := r.bestOther(); best > 0 && r.seconds(auto) > 0 {
		ratio = fmt.Sprintf("%.3f (%s)", r.seconds(auto)/best, name)
	}
	goals := verdict(r.goals())
	if r.Late > tooLate {
		goals += fmt.Sprintf(" (disturbed: this machine woke sleepers %.0f ms late)", r.Late.Seconds()*1000)
	}
	line(w, append(cells, ratio, strings.Join(foretold, ", "), strings.Join(moved, " / "), ways, goals)...)
}

func waysOf(count map[string]int) string {
	var parts []string
	for _, way := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[way], way))
	}
	return strings.Join(parts, ", ")
}

// seconds are printed with four digits that count.
func seconds(s float64) string {
	switch {
	case s >= 1000:
		return fmt.Sprintf("%.0f s", s)
	case s >= 100:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.2f s", s)
}

func line(w io.Writer, cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |") }

// printSum writes how many goals were met, and reports whether all were.
func printSum(w io.Writer, rows []*row) bool {
	met, all := 0, 0
	for _, r := range rows {
		for _, g := range r.goals() {
			all++
			if g.Met {
				met++
			}
		}
	}
	fmt.Fprintf(w, "\n%d classes measured; %d of %d goals met, %d NOT MET.\n", len(rows), met, all, all-met)
	return met == all
}

// figures are a row in the JSON file.
type figures struct {
	Fleet     string          `json:"fleet"`
	Load      string          `json:"load"`
	Jobs      int             `json:"jobs"`
	TimeScale float64         `json:"time_scale"`
	Bound     float64         `json:"bound_seconds"`
	Late      float64         `json:"late_seconds"` // by which one in a hundred sleepers on this machine was woken too late, or more
	Policies  []policyFigures `json:"policies"`
	Goals     []goal          `json:"goals"`
}

type policyFigures struct {
	Policy   string         `json:"policy"`
	Seconds  float64        `json:"seconds"`                    // of the fleet's time
	Foretold float64        `json:"foretold_seconds,omitempty"` // by the submitter, just before
	OfBound  float64        `json:"of_bound"`
	Bytes    float64        `json:"bytes_moved"`
	Ways     map[string]int `json:"ways"`
	Wrong    []string       `json:"wrong,omitempty"`
	Slots    []slotFigures  `json:"slots"`
}

type slotFigures struct {
	Machine string      `json:"machine"`
	Slot    int         `json:"slot"`
	Start   float64     `json:"idle_at_start_seconds"`
	Between float64     `json:"idle_between_seconds"`
	Share   float64     `json:"idle_between_share"`
	End     float64     `json:"idle_at_end_seconds"`
	Pauses  []pauseTime `json:"pauses"`
}

type pauseTime struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"` // all of them
}

func (r *row) figures() figures {
	f := figures{Fleet: r.Fleet, Load: r.Load, Jobs: r.Jobs, TimeScale: r.TimeScale, Bound: r.Bound, Late: r.Late.Seconds(), Goals: r.goals()}
	for _, o := range r.Outcomes {
		took := r.seconds(o.Policy)
		p := policyFigures{Policy: o.Policy, Seconds: took, Foretold: o.Foretold, OfBound: took / r.Bound, Bytes: o.Bytes, Ways: o.Methods, Wrong: o.Wrong}
		for _, l := range o.Lanes {
			i, pauses := l.idle(took)
			s := slotFigures{Machine: l.Machine, Slot: l.Slot, Start: i.Start, Between: i.Between, Share: i.share(), End: i.End}
			for _, g := range pauses {
				s.Pauses = append(s.Pauses, pauseTime{g.From, g.To, g.Count, g.Total})
			}
			p.Slots = append(p.Slots, s)
		}
		f.Policies = append(f.Policies, p)
	}
	return f
}

// writeFigures writes the JSON file.
func writeFigures(path string, rows []*row) error {
	list := make([]figures, len(rows))
	for i, r := range rows {
		list[i] = r.figures()
	}
	data, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}
