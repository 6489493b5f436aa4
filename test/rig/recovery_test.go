package rig

import (
	"strings"
	"testing"
	"time"

	"tandem/test/rig/history"
)

// told is a history in which the events are a second apart.
func told(events ...history.Event) story {
	for i := range events {
		events[i].N, events[i].At = i, time.Duration(i)*time.Second
	}
	return events
}

// The events of hand-made histories.
func submitted(job string) history.Event {
	return history.Event{Kind: history.Submitted, Process: "caller", Job: job}
}
func taken(job string) history.Event {
	return history.Event{Kind: history.Accepted, Process: "caller", Job: job, Stream: intake}
}
func given(to, job string) history.Event {
	return history.Event{Kind: history.Delivered, Process: to, Job: job}
}
func called(at, job string) history.Event {
	return history.Event{Kind: history.Called, Process: enginePrefix + at, Job: job}
}
func result(from, job string) history.Event {
	return history.Event{Kind: history.Published, Process: from, Job: job, Record: []byte(`{}`)}
}
func kept(from, job string) history.Event {
	return history.Event{Kind: history.Stored, Process: from, Job: job, Stream: "RESULTS"}
}
func hurt(process string) history.Event {
	return history.Event{Kind: history.Fault, Process: process, Note: Kill}
}
func gone(process, how string) history.Event {
	return history.Event{Kind: history.Healed, Process: process, Note: endedNote + how}
}
func toldOf(job, record string) history.Event {
	return history.Event{Kind: history.Told, Job: job, Record: []byte(record)}
}

// TestTimesOfHistories: what a time of recovery begins and ends with, in the history.
func TestTimesOfHistories(t *testing.T) {
	elsewhere := func(s story) (time.Duration, bool, error) { return s.elsewhere(faultOf(s)) }
	takenOver := func(s story) (time.Duration, bool, error) {
		d, found := s.takenOver(faultOf(s))
		return d, found, nil
	}
	accepted := func(s story) (time.Duration, bool, error) {
		d, found := s.accepted(faultOf(s))
		return d, found, nil
	}
	done := func(s story) (time.Duration, bool, error) {
		d, found := s.done(faultOf(s), faultOf(s)+1)
		return d, found, nil
	}
	calls := func(s story) (time.Duration, bool, error) {
		d, _, err := s.drained(faultOf(s))
		return d, true, err
	}
	exits := func(s story) (time.Duration, bool, error) {
		_, d, err := s.drained(faultOf(s))
		return d, true, err
	}
	for _, tt := range []struct {
		name string
		time func(story) (time.Duration, bool, error)
		told story
		want time.Duration // negative: it is not over
		err  string
	}{
		{"killed, and called at another", elsewhere, told(
			given("d1", "a"), called("d1", "a"), hurt("d1"), called("d2", "b"), given("d2", "a"), called("d2", "a"),
		), 3 * time.Second, ""},
		{"killed, and delivered to another only", elsewhere, told(given("d1", "a"), called("d1", "a"), hurt("d1"), given("d2", "a")), -1, ""},
		{"killed, and back at the same one", elsewhere, told(given("d1", "a"), called("d1", "a"), hurt("d1"), given("d1", "a"), called("d1", "a")), -1, ""},
		{"called at another that had it before", elsewhere, told(
			given("d2", "a"), called("d2", "a"), given("d1", "a"), called("d1", "a"), hurt("d1"), called("d2", "a"),
		), -1, ""},
		{"killed when it had published", elsewhere, told(given("d1", "a"), called("d1", "a"), result("d1", "a"), hurt("d1"), given("d2", "b")), 0, "not in an engine call"},
		{"killed before its first call", elsewhere, told(given("d1", "a"), hurt("d1")), 0, "not in an engine call"},

		{"taken over", takenOver, told(
			taken("a"), taken("b"), given("prefill-1", "a"), called("prefill-1", "a"), hurt("prefill-1"),
			called("decode-1", "a"), given("decode-1", "b"), called("decode-1", "b"),
		), 3 * time.Second, ""},
		{"a hand-over is no take-over", takenOver, told(
			taken("a"), taken("b"), hurt("prefill-1"), called("prefill-1", "b"), called("decode-1", "b"),
		), -1, ""},
		{"what came later did not wait", takenOver, told(taken("a"), hurt("prefill-1"), taken("b"), called("decode-1", "b")), -1, ""},

		{"accepted", accepted, told(submitted("a"), hurt("nats-1"), taken("a"), submitted("b"), taken("b")), 3 * time.Second, ""},
		{"accepted of an earlier submit", accepted, told(submitted("a"), hurt("nats-1"), taken("a")), -1, ""},

		{"done", done, told(
			result("d1", "a"), hurt("nats"), kept("d1", "a"), kept("d1", "a"), result("d2", "b"), kept("d2", "b"),
		), 4 * time.Second, ""},
		{"done only as far as the dead server knew", done, told(hurt("nats"), result("d1", "a"), kept("d1", "a")), -1, ""},

		{"drained: the call", calls, told(called("d1", "a"), hurt("d1"), called("d2", "b"), kept("d1", "a"), gone("d1", "0")), 2 * time.Second, ""},
		{"drained: the exit", exits, told(called("d1", "a"), hurt("d1"), called("d2", "b"), kept("d1", "a"), gone("d1", "0")), time.Second, ""},
		{"drained without a result", calls, told(called("d1", "a"), hurt("d1"), kept("d2", "a"), gone("d1", "0")), 0, "stored no result"},
		{"drained with another status", exits, told(called("d1", "a"), hurt("d1"), kept("d1", "a"), gone("d1", "1")), 0, endedNote + "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			took, found, err := tt.time(tt.told)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
			case err != nil:
				t.Error(err)
			case found != (tt.want >= 0), found && took != tt.want:
				t.Errorf("%v, %v; want %v", took, found, tt.want)
			}
		})
	}
}

func TestClassTimes(t *testing.T) {
	again := kept("d1", "a")
	again.Again = true
	s := told(
		kept("d1", "z"), called("d1", "z"), // before
		called("p1", "a"), called("d1", "b"), called("p1", "a"), result("p1", "a"), kept("p1", "a"), again, kept("KV", "a"), result("d1", "b"), kept("d1", "b"),
		called("d1", "c"),
	)
	s[8].Stream = "KV_x"
	if ends := s.results(2); len(ends) != 2 || ends[0] != 6 || ends[1] != 10 {
		t.Errorf("results at %d, want 6 and 10", ends)
	}
	if d := s.longest(2); d != 6*time.Second {
		t.Errorf("the longest took %v, want the 6 s from b's call to its record", d)
	}
	if job, err := s.working("d1"); job != "c" || err != nil {
		t.Errorf("d1 works at %q, %v; want c", job, err)
	}
	if job, err := s.working("p1"); err == nil {
		t.Errorf("p1 works at %q; want nothing", job)
	}
}

func faultOf(s story) int {
	at, _ := s.next(-1, func(e history.Event) bool { return e.Kind == history.Fault })
	return at
}

func TestBlame(t *testing.T) {
	for _, tt := range []struct{ record, err string }{
		{`{"status":"succeeded","attempts":{"prefill":1,"decode":1}}`, ""},
		{`{"status":"succeeded","attempts":{"prefill":1,"decode":2}}`, "2 attempts"},
		{`{"status":"failed","attempts":{"prefill":1,"decode":1}}`, "failed"},
		{`[`, "read result"},
	} {
		err := told(toldOf("b", `{}`), toldOf("a", tt.record)).miscounted("a")
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.record, err, tt.err)
		}
	}
	if err := told().miscounted("a"); err == nil {
		t.Error("a job of which nobody was told is not miscounted")
	}
}

func TestRecoveriesTable(t *testing.T) {
	list := []Recovery{
		{What: "in time", Goal: 3 * time.Second, Took: []time.Duration{3 * time.Second, time.Second, 2 * time.Second}},
		{What: "too late", Goal: 3 * time.Second, Took: []time.Duration{time.Second, 3*time.Second + 1}},
		{What: "without a goal", Took: []time.Duration{time.Hour}},
		{What: "never measured", Goal: time.Second},
	}
	if list[0].Median() != 2*time.Second || list[0].Max() != 3*time.Second || list[1].Median() != 3*time.Second+1 || list[3].Max() != 0 {
		t.Errorf("median and max: %v %v, %v, %v", list[0].Median(), list[0].Max(), list[1].Median(), list[3].Max())
	}
	var b strings.Builder
	if err := WriteRecoveries(&b, list); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n")[1:] {
		if missed := strings.Contains(line, "goal missed"); missed != list[i].Missed() || missed != (i == 1) {
			t.Errorf("missed is %v in the line %q", missed, line)
		}
	}
}
