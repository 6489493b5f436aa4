// Package history is what the fault rig saw: one event a line, in the order in which they happened, on one monotonic clock.
//
// It is written by whoever watches the wires and the streams, and read by the checker, which knows nothing else.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Kind says what happened.
type Kind string

// The kinds, and the fields that each fills beside N, At and Kind. All texts come off the wire or out of a stream, never from
// the programs' own accounts.
const (
	Began     Kind = "began"     // Note: the seed and what was asked for
	Submitted Kind = "submitted" // a job was published to the intake: Process, Job, Subject, Record
	Accepted  Kind = "accepted"  // the server acknowledged that: Process, Job, Stream, Seq, Again (it was known already)
	Refused   Kind = "refused"   // the server or the submitter said no: Process, Job, Note
	Delivered Kind = "delivered" // a stream's message was sent to a process: Process, Job, Subject, Stream, Seq, Count
	Published Kind = "published" // a process published a hop, a result or a dead letter: Process, Job, Subject, Record
	Stored    Kind = "stored"    // the server acknowledged that: Process, Job, Subject, Stream, Seq, Again
	Acked     Kind = "acked"     // a process acknowledged a delivery for good (+ACK, +TERM): Process, Job, Stream, Seq
	Called    Kind = "called"    // an engine call for the job began: Process (the engine), Job, Note (the path)
	Told      Kind = "told"      // the caller got the job's end: Process, Job, Record
	Cancelled Kind = "cancelled" // a cancel, or an expiry, was acknowledged to the caller: Process, Job
	Purged    Kind = "purged"    // somebody removed the job on purpose: Job
	Fault     Kind = "fault"     // the rig did something: Process (to whom), Note (what)
	Healed    Kind = "healed"    // the rig ended it: Process, Note
	Found     Kind = "found"     // at the end a stream holds it: Job, Subject, Stream, Seq, Record
	Expected  Kind = "expected"  // what an engine says when asked directly: Job, Text. Several: any of them is right
	Ended     Kind = "ended"     // the rig has read every stream to its end
)

// Event is one thing that happened.
type Event struct {
	N       int             `json:"n"`  // from 0, without gaps
	At      time.Duration   `json:"at"` // nanoseconds since the history began
	Kind    Kind            `json:"kind"`
	Process string          `json:"process,omitempty"`
	Job     string          `json:"job,omitempty"` // its id
	Subject string          `json:"subject,omitempty"`
	Stream  string          `json:"stream,omitempty"`
	Seq     uint64          `json:"seq,omitempty"`
	Count   int             `json:"count,omitempty"` // how often the server has delivered it
	Again   bool            `json:"again,omitempty"` // the server took it for a duplicate
	Text    string          `json:"text,omitempty"`
	Note    string          `json:"note,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"` // as it was on the wire or in the stream; JSON, or a JSON string of what is none
}

// Log takes events from many goroutines. The zero value is not usable; see [New].
type Log struct {
	began time.Time
	mu    sync.Mutex
	all   []Event
	out   *bufio.Writer
	enc   *json.Encoder
	err   error
}

// New returns an empty log that is also written to out, one event a line; out may be nil.
func New(out io.Writer) *Log {
	l := &Log{began: time.Now()}
	if out != nil {
		l.out = bufio.NewWriter(out)
		l.enc = json.NewEncoder(l.out)
		l.enc.SetEscapeHTML(false)
	}
	return l
}

// Add appends an event, whose N and At it sets. It keeps a copy of the record.
func (l *Log) Add(e Event) {
	e.Record = keep(e.Record)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.N, e.At = len(l.all), time.Since(l.began)
	l.all = append(l.all, e)
	if l.enc != nil && l.err == nil {
		l.err = l.enc.Encode(e)
	}
}

// keep copies a record, and makes a JSON string of what is no JSON, or is nested too deep to be read again within an event.
func keep(record json.RawMessage) json.RawMessage {
	if record == nil {
		return nil
	}
	within := slices.Concat([]byte("["), record, []byte("]"))
	if json.Valid(record) && json.Valid(within) {
		return within[1 : len(within)-1 : len(within)-1]
	}
	text, _ := json.Marshal(string(record)) // a string always can be
	return text
}

// Events is a copy of what was added so far.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// Flush writes out what was added so far.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil && l.err == nil {
		l.err = l.out.Flush()
	}
	return l.err
}

// Read reads a history that a [Log] wrote. The last line may be cut off, as a kill leaves it.
func Read(r io.Reader) ([]Event, error) {
	var all []Event
	dec := json.NewDecoder(r)
	for {
		var e Event
		switch err := dec.Decode(&e); err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return all, nil
		default:
			return all, fmt.Errorf("read history: event %d: %w", len(all), err)
		}
		if e.N != len(all) {
			return all, fmt.Errorf("read history: event %d says that it is event %d", len(all), e.N)
		}
		all = append(all, e)
	}
}
