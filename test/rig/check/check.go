// Package check reads a history and says whether every promise was kept. It knows the history and docs/PROTOCOL.md, and
// nothing of the code under test: the records are read with encoding/json alone.
//
// [Check] gathers what the history says of each job (dossier.go), holds every rule against it (rules.go), and cuts out the
// events that show what was broken (slice.go).
package check

import (
	"cmp"
	"slices"
	"strings"

	"tandem/test/rig/history"
)

// Rule is a promise, by the name under which docs/RELIABILITY.md lists it.
type Rule string

// The promises.
const (
	Lost       Rule = "lost"       // accepted, and neither ended nor visible in a stream
	Duplicate  Rule = "duplicate"  // more than one terminal record was stored or found
	Repeated   Rule = "repeated"   // a job entered a stage twice though NATS was not restarted in between: work is done again, without harm
	Invented   Rule = "invented"   // a result, or a stream's message, of a job that was never submitted
	WrongText  Rule = "wrong text" // a greedy job succeeded with a text that the engine does not give when asked directly
	Unverified Rule = "unverified" // a greedy job succeeded and nobody asked the engine directly: the rig's own fault
	Restarted  Rule = "restarted"  // after a cancel or expiry was acknowledged an engine call began, or another record was stored
	Untold     Rule = "untold"     // a job ended and its caller was not told, or was told something else than the stream says
	Miscounted Rule = "miscounted" // attempts were counted against a job though nothing had failed
	Strayed    Rule = "strayed"    // a job went another way than the one it asked for, though nothing had failed
	Unsettled  Rule = "unsettled"  // the history has no end: the rig did not look
	Left       Rule = "left"       // accepted and still in a stream at the end, which is no loss, but the run was to wait for it
)

// Rules are all rules, in the order in which a verdict lists what was broken.
func Rules() []Rule {
	return []Rule{Unsettled, Lost, Duplicate, Repeated, Invented, WrongText, Restarted, Untold, Miscounted, Strayed, Left, Unverified}
}

// Violation is a promise that was broken.
type Violation struct {
	Rule  Rule
	Job   string          // empty for Unsettled, and for records that name no job
	What  string          // one sentence, without a text of the job
	Slice []history.Event // the shortest part of the history that shows it, in order: the job's own events, and the faults of processes that held it
}

// Counts are what a run was.
type Counts struct {
	Submitted, Accepted                   int            // jobs; accepted by an acknowledgement that was seen
	Refused                               int            // jobs that were refused at least once, and perhaps accepted later
	Succeeded, Failed, Cancelled, Expired int            // jobs, by the terminal record in the stream
	Left                                  int            // jobs that are still in a stream
	Kept                                  int            // jobs that have ended and are in INTAKE or RELAY all the same
	Compared                              int            // texts held against the engine's own
	HandedOver                            int            // jobs that were decoded from a KV state, as their results say
	Delivered, Calls                      int            // deliveries to workers, and engine calls
	Faults                                map[string]int // by the note up to its first colon, such as "kill", "nats kill"; never nil
	Ways                                  map[string]int // the same by the note up to its first comma, such as "kill: before publish"; never nil
}

// Verdict is the outcome of a run.
type Verdict struct {
	Counts     Counts
	Violations []Violation // at most one for each rule and job, sorted by rule, as in [Rules], and job
}

// Check judges a history. Without an [history.Ended] event nobody has looked into the streams, so it does not say then what is
// not there: neither Lost nor Left, nor Unverified, nor that a caller was not told.
func Check(events []history.Event) Verdict {
	byN := func(a, b history.Event) int { return cmp.Compare(a.N, b.N) }
	if !slices.IsSortedFunc(events, byN) {
		events = slices.Clone(events)
		slices.SortStableFunc(events, byN)
	}
	settled := slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.Ended })

	v := Verdict{Counts: count(events)}
	if !settled {
		v.Violations = append(v.Violations, Violation{
			Rule: Unsettled, What: "the history does not say that the streams were read to their end", Slice: slices.Clone(events[max(0, len(events)-1):]),
		})
	}
	cut := newCutter(events)
	for _, d := range gather(events) {
		d.count(&v.Counts)
		for _, f := range d.broken(settled) {
			v.Violations = append(v.Violations, Violation{Rule: f.rule, Job: d.id, What: f.what, Slice: cut.slice(d, f)})
		}
	}
	order := map[Rule]int{}
	for i, r := range Rules() {
		order[r] = i
	}
	slices.SortStableFunc(v.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(order[a.Rule], order[b.Rule]), cmp.Compare(a.Job, b.Job))
	})
	return v
}

// Broken counts the violations of each rule that was broken.
func (v Verdict) Broken() map[Rule]int {
	n := map[Rule]int{}
	for _, violation := range v.Violations {
		n[violation.Rule]++
	}
	return n
}

// count counts what is not a matter of one job.
func count(events []history.Event) Counts {
	c := Counts{Faults: map[string]int{}, Ways: map[string]int{}}
	for _, e := range events {
		switch e.Kind {
		case history.Delivered:
			if e.Stream == intake || e.Stream == relay { // what RESULTS delivers goes to callers
				c.Delivered++
			}
		case history.Called:
			c.Calls++
		case history.Fault:
			what, _, _ := strings.Cut(e.Note, ":")
			c.Faults[strings.TrimSpace(what)]++
			way, _, _ := strings.Cut(e.Note, ",")
			c.Ways[strings.TrimSpace(way)]++
		}
	}
	return c
}
