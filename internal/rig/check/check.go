// Package check reads a history and says whether every promise was kept. It knows the history and docs/PROTOCOL.md, and
// nothing of the code under test: the records are read with encoding/json alone.
package check

import (
	"tandem/internal/rig/history"
)

// Rule is a promise, by the name under which docs/RELIABILITY.md lists it.
type Rule string

// The promises.
const (
	Lost       Rule = "lost"       // accepted, and neither ended nor visible in a stream
	Duplicate  Rule = "duplicate"  // more than one terminal record was stored or found
	Invented   Rule = "invented"   // a result, or a stream's message, of a job that was never submitted
	WrongText  Rule = "wrong text" // a greedy job succeeded with a text that the engine does not give when asked directly
	Unverified Rule = "unverified" // a greedy job succeeded and nobody asked the engine directly: the rig's own fault
	Restarted  Rule = "restarted"  // after a cancel or expiry was acknowledged an engine call began, or another record was stored
	Untold     Rule = "untold"     // a job ended and its caller was not told, or was told something else than the stream says
	Unsettled  Rule = "unsettled"  // the history has no end: the rig did not look
	Left       Rule = "left"       // accepted and still in a stream at the end, which is no loss, but the run was to wait for it
)

// Violation is a promise that was broken.
type Violation struct {
	Rule  Rule
	Job   string
	What  string          // one sentence
	Slice []history.Event // the shortest part of the history that shows it: the job's own events, and the faults of processes that held it
}

// Counts are what a run was.
type Counts struct {
	Submitted, Accepted, Refused          int            // jobs
	Succeeded, Failed, Cancelled, Expired int            // jobs, by the terminal record in the stream
	Left                                  int            // jobs that are still in a stream
	Compared                              int            // texts held against the engine's own
	Delivered, Calls                      int            // deliveries to workers, and engine calls
	Faults                                map[string]int // by the note up to its first colon, such as "kill", "nats kill"
}

// Verdict is the outcome of a run.
type Verdict struct {
	Counts     Counts
	Violations []Violation // sorted by rule and job
}
