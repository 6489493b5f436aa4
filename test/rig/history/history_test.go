package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/test/rig/history"
)

// written writes events to a log, and returns them as the log has them, and as it wrote them.
func written(t *testing.T, events ...history.Event) ([]history.Event, []byte) {
	t.Helper()
	var file bytes.Buffer
	log := history.New(&file)
	for _, e := range events {
		log.Add(e)
	}
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	return log.Events(), file.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	events, file := written(t,
		history.Event{Kind: history.Began, Note: "seed 7"},
		history.Event{Kind: history.Submitted, Process: "caller-1", Job: "a", Subject: "jobs.prefill.m.batch.a", Record: json.RawMessage(`{"prompt":"1 < 2 & 3\u2028"}`)},
		history.Event{Kind: history.Stored, Process: "decode-1", Job: "a", Stream: "RESULTS", Seq: 1<<64 - 1, Again: true},
		history.Event{Kind: history.Expected, Job: "a", Text: "two\nlines <b>"},
		history.Event{Kind: history.Ended},
	)
	got, err := history.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Error(diff)
	}
	if n := bytes.Count(file, []byte("\n")); n != len(events) {
		t.Errorf("%d events have %d lines", len(events), n)
	}
}

func TestAddFromManyGoroutines(t *testing.T) {
	const writers, each = 8, 200
	var file bytes.Buffer
	log := history.New(&file)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				log.Add(history.Event{Kind: history.Called, Job: fmt.Sprint(w), Seq: uint64(i)})
				if i%50 == 0 {
					_ = log.Flush() // asked again below
					log.Events()
				}
			}
		})
	}
	all.Wait()
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	events, err := history.Read(&file) // which checks the numbers
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != writers*each {
		t.Fatalf("%d events were added, %d were read", writers*each, len(events))
	}
	next := map[string]uint64{}
	for i, e := range events {
		if i > 0 && e.At < events[i-1].At {
			t.Errorf("event %d is earlier than the one before", i)
		}
		if e.Seq != next[e.Job] {
			t.Errorf("writer %s: event %d stands where %d belongs", e.Job, e.Seq, next[e.Job])
		}
		next[e.Job]++
	}
	if diff := cmp.Diff(log.Events(), events); diff != "" {
		t.Error(diff)
	}
}

func TestLastLineMayBeCutOff(t *testing.T) {
	events, file := written(t,
		history.Event{Kind: history.Submitted, Job: "a", Record: json.RawMessage(`{"v":1,"stream":true,"text":"a \"b\" \u00e9"}`)},
		history.Event{Kind: history.Stored, Job: "a", Stream: "RESULTS", Seq: 12, Again: true, Record: json.RawMessage(`[1,-2.5e3,null]`)},
	)
	first := bytes.IndexByte(file, '\n') + 1
	for end := range len(file) + 1 {
		whole := 0
		switch {
		case end >= len(file)-1: // the last line's end may be missing
			whole = 2
		case end >= first-1:
			whole = 1
		}
		got, err := history.Read(bytes.NewReader(file[:end]))
		if err != nil {
			t.Fatalf("cut off after %d of %d bytes: %v", end, len(file), err)
		}
		if len(got) != whole || whole > 0 && !cmp.Equal(got, events[:whole]) {
			t.Fatalf("cut off after %d of %d bytes: read %d events, want %d", end, len(file), len(got), whole)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"a gap", `{"n":0,"at":1,"kind":"began"}` + "\n" + `{"n":2,"at":2,"kind":"ended"}` + "\n", "event 1 says that it is event 2"},
		{"an event twice", `{"n":0,"at":1,"kind":"began"}` + "\n" + `{"n":0,"at":1,"kind":"began"}` + "\n", "event 1 says that it is event 0"},
		{"a beginning that is missing", `{"n":1,"at":1,"kind":"began"}` + "\n", "event 0 says that it is event 1"},
		{"a line cut off in the middle", `{"n":0,"at":1,"ki` + "\n" + `{"n":1,"at":2,"kind":"ended"}` + "\n", "event 0"},
		{"what is no event", `{"n":0,"at":1,"kind":"began"}` + "\nrubbish\n", "event 1"},
		{"a wrong type", `{"n":0,"at":"soon","kind":"began"}`, "event 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := history.Read(strings.NewReader(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestRecordThatIsNoJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ name, record, want string }{
		{"an object", `{"a": 1}`, `{"a":1}`},
		{"rubbish", "\x1b[31m{\"a\":", `"\u001b[31m{\"a\":"`},
		{"two values", `1,2`, `"1,2"`},
		{"the end of an array", `1],[2`, `"1],[2"`},
		{"nothing", "", `""`},
		{"bytes that are no text", "\xff\x00", `"�\u0000"`},
		{"as deep as JSON may be by itself", deep(10_000), `"` + deep(10_000) + `"`},
		{"as deep as it may be in an event", deep(9_999), deep(9_999)},
		{"deeper", deep(100_000), `"` + deep(100_000) + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, file := written(t, history.Event{Kind: history.Found, Record: json.RawMessage(c.record)}, history.Event{Kind: history.Ended})
			events, err := history.Read(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != 2 || !sameJSON(events[0].Record, c.want) {
				t.Errorf("%d events, record %.80s", len(events), events[0].Record)
			}
		})
	}
	events, _ := written(t, history.Event{Kind: history.Ended})
	if events[0].Record != nil {
		t.Errorf("an event without a record has %s", events[0].Record)
	}
}

// sameJSON compares two texts of JSON by what they say, at any depth that encoding/json allows.
func sameJSON(got json.RawMessage, want string) bool {
	var a, b bytes.Buffer
	if json.Compact(&a, got) != nil || json.Compact(&b, []byte(want)) != nil {
		return false
	}
	if got[0] != '"' {
		return a.String() == b.String()
	}
	var x, y string
	return json.Unmarshal(got, &x) == nil && json.Unmarshal([]byte(want), &y) == nil && x == y
}

func TestRecordIsCopied(t *testing.T) {
	log := history.New(nil)
	buffer := []byte(`{"a":1}`)
	log.Add(history.Event{Kind: history.Found, Record: buffer})
	copy(buffer, `{"b":2}`) // as whoever reads a wire does with its next piece
	if got := string(log.Events()[0].Record); got != `{"a":1}` {
		t.Errorf("the log's record changed to %s", got)
	}
	if err := log.Flush(); err != nil {
		t.Errorf("a log without a file: %v", err)
	}
}

// full is a disk without room.
type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.room {
		n := f.room
		f.room = 0
		return n, errFull
	}
	f.room -= len(p)
	return len(p), nil
}

func TestFailedWriteIsSaid(t *testing.T) {
	log := history.New(&full{room: 10_000})
	for range 1000 {
		log.Add(history.Event{Kind: history.Called, Job: "a"})
	}
	if err := log.Flush(); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
	if n := len(log.Events()); n != 1000 {
		t.Errorf("the log holds %d events of 1000", n)
	}
}
