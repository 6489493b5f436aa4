package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
)

// record is JSON with one part of it replaced.
func record(json, old, new string) string {
	if !strings.Contains(json, old) {
		panic("no " + old)
	}
	return strings.Replace(json, old, new, 1)
}

func TestRules(t *testing.T) {
	type events = []history.Event
	purged := ev(history.Purged, "")
	cancel := ev(history.Cancelled, "caller-1")
	unattended := func(e history.Event) history.Event { return noted("unattended", e) }

	for _, c := range []struct {
		name   string
		events events
		want   []string
	}{
		{"nothing happened", events{ended()}, nil},
		{"all went well", whole(), nil},

		// Lost.
		{"nowhere", events{submitted(job), accepted(), ended()}, []string{"lost a"}},
		{"nowhere after a retry that was known", events{submitted(job), submitted(job), again(accepted()), ended()}, []string{"lost a"}},
		{"nowhere, and never acknowledged", events{submitted(job), delivered("prefill-1", "INTAKE", 1), ended()}, nil},
		{"nowhere, and refused", events{submitted(job), ev(history.Refused, "caller-1"), ended()}, nil},
		{"nowhere, never acknowledged, but its hop was", events{submitted(job), stored("RELAY", 1), ended()}, []string{"lost a"}},
		{"purged", events{submitted(job), accepted(), purged, ended()}, nil},
		{"dead letter only", events{submitted(job), accepted(), found("DLQ", 1, letter), ended()}, []string{"lost a"}},
		{"dead letter only, never acknowledged", events{submitted(job), found("DLQ", 1, letter), ended()}, []string{"lost a"}},
		{"dead letter of a job that names no owner", events{submitted(`{"v":2}`), accepted(), found("DLQ", 1, nobody), ended()}, nil},
		{"dead letter of a job that names a user only", events{submitted(`{"user":"u"}`), accepted(), found("DLQ", 1, record(unread, `"batch":"b",`, ``)), ended()}, nil},
		{"dead letter of what is no JSON", events{submitted(`"{{{"`), accepted(), found("DLQ", 1, nobody), ended()}, nil},
		{"job that names no owner is nowhere", events{submitted(`{"v":2}`), accepted(), ended()}, []string{"lost a"}},
		{"dead letter of a job that could not be read", events{submitted(job), accepted(), found("DLQ", 1, unread), ended()}, []string{"lost a"}},
		{"the result was stored and is gone", events{submitted(job), accepted(), stored("RESULTS", 7), ended()}, []string{"lost a"}},
		{"the caller was told, and no stream knows", events{submitted(job), accepted(), told(success), ended()}, []string{"lost a"}},
		{"rubbish in the result's place", events{submitted(job), accepted(), found("RESULTS", 7, record(success, "succeeded", "done")), ended()}, []string{"lost a"}},
		{"no JSON in the result's place", events{submitted(job), accepted(), found("RESULTS", 7, `"{"`), ended()}, []string{"lost a", "invented a"}},
		{"one of two", slices.Concat(of("b", submitted(record(job, `"id":"a"`, `"id":"b"`)), accepted()), whole()), []string{"lost b"}},

		// Left.
		{"still in INTAKE", events{submitted(job), accepted(), found("INTAKE", 1, job), ended()}, []string{"left a"}},
		{"still in RELAY", events{submitted(job), accepted(), found("RELAY", 1, hop), ended()}, []string{"left a"}},
		{"still in INTAKE, never acknowledged", events{submitted(job), found("INTAKE", 1, job), ended()}, []string{"left a"}},
		{"rubbish still in INTAKE", events{submitted(`"{"`), accepted(), found("INTAKE", 1, `"{"`), ended()}, []string{"left a"}},
		{"still in RELAY beside its result", slices.Concat(events{found("RELAY", 1, hop)}, whole()), nil},

		// Duplicate.
		{"two found", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, success), found("RESULTS", 8, success), ended()}, []string{"duplicate a"}},
		{"two found, nobody knows where", events{submitted(warm), accepted(), told(success), found("RESULTS", 0, success), found("RESULTS", 0, success), ended()}, []string{"duplicate a"}},
		{"stored twice", slices.Concat(events{stored("RESULTS", 6)}, whole()), []string{"duplicate a"}},
		{"stored twice in one place", slices.Concat(events{stored("RESULTS", 7)}, whole()), nil},
		{"stored again", slices.Concat(events{again(stored("RESULTS", 6))}, whole()), nil},
		{"acknowledged, and replaced by one that was not", events{submitted(warm), accepted(), stored("RESULTS", 6), told(success), found("RESULTS", 7, success), ended()}, []string{"duplicate a"}},
		{"purged between", slices.Concat(events{stored("RESULTS", 6), purged}, whole()), nil},
		{"purged before both", slices.Concat(events{purged, stored("RESULTS", 6)}, whole()), []string{"duplicate a"}},
		{"failed, with its dead letter", events{submitted(job), accepted(), told(failure), found("DLQ", 1, letter), found("RESULTS", 7, failure), ended()}, nil},
		{"cancelled, with a dead letter", events{submitted(job), accepted(), told(stopped), found("DLQ", 1, letter), found("RESULTS", 7, stopped), ended()}, nil},
		{"two dead letters", events{submitted(job), accepted(), told(failure), found("DLQ", 1, letter), found("DLQ", 2, letter), found("RESULTS", 7, failure), ended()}, []string{"duplicate a"}},
		{"succeeded, with a dead letter", slices.Concat(events{found("DLQ", 1, letter)}, whole()), []string{"duplicate a"}},

		// Repeated.
		{"a hop stored twice", slices.Concat(events{hopped(9), hopped(10)}, whole()), []string{"repeated a"}},
		{"a hop stored again", slices.Concat(events{hopped(9), again(hopped(9))}, whole()), nil},
		{"a hop stored once more after NATS was restarted", slices.Concat(events{hopped(9), fault("nats", "nats kill: anywhere"), hopped(10)}, whole()), nil},
		{"a hop stored twice after NATS was restarted", slices.Concat(events{fault("nats", "nats kill: anywhere"), hopped(9), hopped(10)}, whole()), []string{"repeated a"}},
		{"a hop stored twice while a worker was killed", slices.Concat(events{hopped(9), fault("prefill-1", "kill: anywhere"), hopped(10)}, whole()), []string{"repeated a"}},
		{"a hop stored by a server that was about to die, and once more by the next", slices.Concat(events{fault("nats", "nats kill: anywhere"), hopped(9), healed("nats"), hopped(10)}, whole()), nil},
		{"accepted twice", slices.Concat(events{submitted(warm), placed(8, accepted()), accepted()}, whole()[2:]), []string{"repeated a"}},
		{"accepted, and known when it came again", slices.Concat(events{submitted(warm), accepted(), again(placed(8, accepted()))}, whole()[2:]), nil},
		{"accepted once more after NATS was restarted", slices.Concat(events{submitted(warm), placed(8, accepted()), fault("nats", "nats stop: anywhere"), accepted()}, whole()[2:]), nil},
		{"a hop stored once more after a purge", slices.Concat(events{hopped(9), purged, hopped(10)}, whole()), nil},
		{"a hop to decode and one to fallback", slices.Concat(events{hopped(9), at("jobs.fallback.m.batch.a", hopped(10))}, whole()), nil},

		// Invented.
		{"found, never submitted", events{found("RESULTS", 7, success), ended()}, []string{"invented a"}},
		{"found in INTAKE, never submitted", events{found("INTAKE", 7, job), ended()}, []string{"invented a"}},
		{"told, never submitted", events{told(success), ended()}, []string{"invented a"}},
		{"stored, never submitted", events{stored("RESULTS", 7), ended()}, []string{"invented a"}},
		{"of no job", of("", found("RESULTS", 7, success), ended()), []string{"invented "}},
		{"told of no job", of("", told(success), ended()), []string{"invented "}},
		{"stored of no job", of("", stored("RESULTS", 7), ended()), []string{"invented "}},
		{"in a stream of another kind, never submitted", events{found("OTHER", 1, `{}`), ended()}, []string{"invented a"}},
		{"another user", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, record(success, `"user":"u"`, `"user":"x"`)), ended()}, []string{"invented a"}},
		{"another batch", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, record(success, `"batch":"b"`, `"batch":"x"`)), ended()}, []string{"invented a"}},
		{"another custom_id", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, record(success, `"custom_id":"c",`, ``)), ended()}, []string{"invented a"}},
		{"another model", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, record(success, `m:1`, `m:2`)), ended()}, []string{"invented a"}},
		{"another job", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, record(success, `"job_id":"a"`, `"job_id":"b"`)), ended()}, []string{"invented a"}},
		{"told of another batch", events{submitted(warm), accepted(), told(record(success, `"batch":"b"`, `"batch":"x"`)), found("RESULTS", 7, success), ended()}, []string{"invented a"}},
		{"hop of another batch", events{submitted(job), accepted(), found("RELAY", 1, record(hop, `"batch":"b"`, `"batch":"x"`)), ended()}, []string{"invented a", "left a"}},
		{"hop without a job", events{submitted(job), accepted(), found("RELAY", 1, `{"v":1}`), ended()}, []string{"invented a", "left a"}},
		{"job of another user in INTAKE", events{submitted(job), accepted(), found("INTAKE", 1, record(job, `"user":"u"`, `"user":"x"`)), ended()}, []string{"invented a", "left a"}},
		{"another job in INTAKE", events{submitted(job), accepted(), found("INTAKE", 1, record(job, `"id":"a"`, `"id":"b"`)), ended()}, []string{"invented a", "left a"}},
		{"letter of another model", events{submitted(job), accepted(), told(failure), found("RESULTS", 7, failure), found("DLQ", 1, record(letter, "m:1", "m:2")), ended()}, []string{"invented a"}},
		{"letter of another user, of a job that could not be read", events{submitted(job), accepted(), told(invalid), found("RESULTS", 7, invalid), found("DLQ", 1, record(unread, `"user":"u"`, `"user":"x"`)), ended()}, []string{"invented a"}},
		{"letter of another batch, of a job that could not be read", events{submitted(job), accepted(), told(invalid), found("RESULTS", 7, invalid), found("DLQ", 1, record(unread, `"batch":"b"`, `"batch":"x"`)), ended()}, []string{"invented a"}},
		{"result of a job that could not be read", events{submitted(job), accepted(), told(invalid), found("RESULTS", 7, invalid), found("DLQ", 1, unread), ended()}, nil},
		{"that of another batch", events{submitted(job), accepted(), told(invalid), found("RESULTS", 7, record(invalid, `"batch":"b"`, `"batch":"x"`)), ended()}, []string{"invented a"}},
		{"submitted twice, the second is meant", slices.Concat(events{submitted(record(job, `"batch":"b"`, `"batch":"x"`))}, whole()), nil},

		// WrongText and Unverified.
		{"another text", events{submitted(job), accepted(), told(other), found("RESULTS", 7, other), expect("yes"), ended()}, []string{"wrong text a"}},
		{"one of several texts", slices.Insert(whole(), 12, expect("yes."), expect("no")), nil},
		{"the first of several texts", slices.Insert(whole(), 13, expect("yes."), expect("no")), nil},
		{"none of several texts", events{submitted(job), accepted(), told(success), found("RESULTS", 7, success), expect("yes."), expect("no"), ended()}, []string{"wrong text a"}},
		{"nobody asked", but(history.Expected, "", whole()), []string{"unverified a"}},
		{"warm, and another text", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, success), expect("no"), ended()}, nil},
		{"warm, and nobody asked", events{submitted(warm), accepted(), told(success), found("RESULTS", 7, success), ended()}, nil},
		{"no temperature, and nobody asked", events{submitted(record(job, `"temperature":0`, ``)), accepted(), told(success), found("RESULTS", 7, success), ended()}, nil},
		{"failed, and another text", events{submitted(job), accepted(), told(failure), found("RESULTS", 7, failure), expect("yes"), ended()}, nil},
		{"an empty text that should be none", events{submitted(job), accepted(), told(record(success, "yes", "")), found("RESULTS", 7, record(success, "yes", "")), expect("yes"), ended()}, []string{"wrong text a"}},

		// Restarted.
		{"cancelled", events{submitted(job), accepted(), called(), stored("RESULTS", 7), cancel, told(stopped), found("RESULTS", 7, stopped), ended()}, nil},
		{"called after a cancel", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, called(), told(stopped), found("RESULTS", 7, stopped), ended()}, []string{"restarted a"}},
		{"called after the first of two", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, called(), cancel, told(stopped), found("RESULTS", 7, stopped), ended()}, []string{"restarted a"}},
		{"a hop after a cancel", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, stored("RELAY", 3), told(stopped), found("RESULTS", 7, stopped), ended()}, []string{"restarted a"}},
		{"a letter after a cancel", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, stored("DLQ", 3), told(stopped), found("RESULTS", 7, stopped), ended()}, []string{"restarted a"}},
		{"a result after a cancel", events{submitted(job), accepted(), cancel, stored("RESULTS", 7), told(late), found("RESULTS", 7, late), ended()}, []string{"restarted a"}},
		{"a hop again after a cancel", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, again(stored("RELAY", 3)), told(stopped), found("RESULTS", 7, stopped), ended()}, nil},
		{"delivered after a cancel", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, delivered("decode-1", "RELAY", 3), told(stopped), found("RESULTS", 7, stopped), ended()}, nil},
		{"something else stored after a cancel", events{submitted(job), accepted(), stored("RESULTS", 7), cancel, stored("KV_handbacks", 3), told(stopped), found("RESULTS", 7, stopped), ended()}, nil},

		// Untold.
		{"nobody was told", but(history.Told, "", whole()), []string{"untold a"}},
		{"nobody was told, nor saw the acknowledgement", but(history.Accepted, "", but(history.Told, "", whole())), []string{"untold a"}},
		{"nobody waits", events{unattended(submitted(warm)), accepted(), found("RESULTS", 7, success), ended()}, nil},
		{"nobody waits at first", events{unattended(submitted(warm)), submitted(warm), accepted(), found("RESULTS", 7, success), ended()}, []string{"untold a"}},
		{"nobody waits at last", events{submitted(warm), unattended(submitted(warm)), accepted(), found("RESULTS", 7, success), ended()}, []string{"untold a"}},
		{"nobody waits, and somebody is told something else", events{unattended(submitted(warm)), accepted(), told(other), found("RESULTS", 7, success), ended()}, []string{"untold a"}},
		{"purged and not told", events{submitted(warm), accepted(), purged, found("RESULTS", 7, success), ended()}, nil},
		{"told another text", events{submitted(warm), accepted(), told(other), found("RESULTS", 7, success), ended()}, []string{"untold a"}},
		{"told another status", events{submitted(warm), accepted(), told(stopped), found("RESULTS", 7, late), ended()}, []string{"untold a"}},
		{"told another code", events{submitted(warm), accepted(), told(crash), found("RESULTS", 7, failure), ended()}, []string{"untold a"}},
		{"told rubbish", events{submitted(warm), accepted(), told(`"x"`), found("RESULTS", 7, failure), ended()}, []string{"invented a", "untold a"}},
		{"told twice", slices.Insert(whole(), 10, told(success)), nil},
		{"told two things", slices.Insert(whole(), 11, told(other)), []string{"untold a"}},
		{"told two things, and purged", events{submitted(warm), accepted(), told(success), told(other), purged, ended()}, []string{"untold a"}},

		// Miscounted.
		{"tried twice", tried(success2, delivered("prefill-1", "INTAKE", 1)), []string{"miscounted a"}},
		{"failed for good", tried(record(failure, `"text":""`, `"text":"","attempts":{"prefill":1,"decode":3}`), delivered("decode-1", "RELAY", 1), delivered("decode-2", "RELAY", 1)), []string{"miscounted a"}},
		{"tried twice after a fault", tried(success2, delivered("prefill-1", "INTAKE", 1), fault("decode-9", "kill: anywhere")), nil},
		{"tried twice, and a fault later", slices.Concat(tried(success2, delivered("prefill-1", "INTAKE", 1)), events{fault("decode-9", "kill: anywhere")}), []string{"miscounted a"}},
		{"handed back uncounted", tried(record(success2, `"prefill":2`, `"prefill":1`), delivered("prefill-1", "INTAKE", 1)), nil},
		{"one that no worker saw, and one handed back", tried(success2, counted(3, delivered("prefill-1", "INTAKE", 1))), nil},
		{"one that no worker saw, and one of a failure", tried(record(success2, `"prefill":2`, `"prefill":3`), counted(3, delivered("prefill-1", "INTAKE", 1))), []string{"miscounted a"}},
		{"tried twice, and nobody knows since when", but(history.Stored, "", tried(success2, delivered("prefill-1", "INTAKE", 1))), nil},

		// Strayed.
		{"fallback in spite of all", tried(record(success, `"text"`, `"method":"fallback","text"`)), []string{"strayed a"}},
		{"fallback after a fault", tried(record(success, `"text"`, `"method":"fallback","text"`), fault("prefill-1", "stop: by its operator")), nil},
		{"as asked", tried(record(success, `"text"`, `"method":"disaggregated","text"`)), nil},
		{"local, as asked", asking("local", tried(record(success, `"text"`, `"method":"local","text"`))), nil},
		{"another way than local", asking("local", tried(record(success, `"text"`, `"method":"disaggregated","text"`))), []string{"strayed a"}},
		{"as the workers liked", asking("auto", tried(record(success, `"text"`, `"method":"local","text"`))), nil},

		// Unsettled.
		{"nothing at all", nil, []string{"unsettled "}},
		{"no end", events{submitted(job), accepted()}, []string{"unsettled "}},
		{"no end, but what is seen is seen", events{submitted(job), accepted(), found("RESULTS", 7, other), expect("yes"), told(success), stored("RESULTS", 6), cancel, called()},
			[]string{"unsettled ", "duplicate a", "wrong text a", "restarted a", "untold a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := check.Check(story(c.events...))
			if diff := cmp.Diff(c.want, broken(v)); diff != "" {
				t.Errorf("%s\n%s", diff, v)
			}
		})
	}
}

// Each rule hangs on an event: with it the promise is kept, or without it.
func TestEachRuleHangsOnItsEvent(t *testing.T) {
	type events = []history.Event
	cancelled := events{submitted(job), accepted(), stored("RESULTS", 7), ev(history.Cancelled, "caller-1"), called(), told(stopped), found("RESULTS", 7, stopped), ended()}
	for _, c := range []struct {
		name          string
		kind          history.Kind // that is taken out
		stream        string
		events        events
		before, after []string
	}{
		{"lost: the found result", history.Found, "", whole(), nil, []string{"lost a"}},
		{"lost: the acknowledgement", history.Accepted, "", events{submitted(job), accepted(), ended()}, []string{"lost a"}, nil},
		{"lost: the purge", history.Purged, "", events{submitted(job), accepted(), ev(history.Purged, ""), ended()}, nil, []string{"lost a"}},
		{"left: what is found in INTAKE", history.Found, "INTAKE", events{submitted(job), accepted(), found("INTAKE", 1, job), ended()}, []string{"left a"}, []string{"lost a"}},
		{"left: the result", history.Found, "RESULTS", slices.Concat(events{found("RELAY", 1, hop)}, but(history.Told, "", whole())), []string{"untold a"}, []string{"left a"}},
		{"duplicate: the letter", history.Found, "DLQ", slices.Concat(events{found("DLQ", 1, letter)}, whole()), []string{"duplicate a"}, nil},
		{"duplicate: the purge", history.Purged, "", slices.Concat(events{stored("RESULTS", 6), ev(history.Purged, "")}, whole()), nil, []string{"duplicate a"}},
		{"invented: the submit", history.Submitted, "", whole(), nil, []string{"invented a"}},
		{"wrong text: what the engine says", history.Expected, "", events{submitted(job), accepted(), told(success), found("RESULTS", 7, success), expect("no"), ended()}, []string{"wrong text a"}, []string{"unverified a"}},
		{"unverified: what the engine says", history.Expected, "", whole(), nil, []string{"unverified a"}},
		{"restarted: the cancel", history.Cancelled, "", cancelled, []string{"restarted a"}, nil},
		{"miscounted: the time of the result", history.Stored, "RESULTS", tried(success2, delivered("prefill-1", "INTAKE", 1)), []string{"miscounted a"}, nil},
		{"miscounted: the fault", history.Fault, "", tried(success2, fault("prefill-1", "kill: anywhere")), nil, []string{"miscounted a"}},
		{"restarted: the call", history.Called, "", cancelled, []string{"restarted a"}, nil},
		{"untold: the word", history.Told, "", whole(), nil, []string{"untold a"}},
		{"unsettled: the end", history.Ended, "", whole(), nil, []string{"unsettled "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.before, broken(check.Check(story(slices.Clone(c.events)...)))); diff != "" {
				t.Errorf("with it: %s", diff)
			}
			if diff := cmp.Diff(c.after, broken(check.Check(story(but(c.kind, c.stream, c.events)...)))); diff != "" {
				t.Errorf("without it: %s", diff)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	end := func(id, status string) []history.Event {
		rename := func(s string) string {
			return strings.NewReplacer(`"id":"a"`, `"id":"`+id+`"`, `"job_id":"a"`, `"job_id":"`+id+`"`).Replace(s)
		}
		return of(id, submitted(rename(warm)), accepted(), told(rename(status)), found("RESULTS", 1, rename(status)))
	}
	events := slices.Concat(
		whole()[:13], of("a", found("RELAY", 1, hop)), // one job, greedy, which left a message behind
		end("b", record(success, `"status"`, `"usage":{"handed_over":9},"status"`)), end("c", failure), end("d", stopped), end("e", late), end("f", crash),
		of("g", submitted(record(job, `"id":"a"`, `"id":"g"`)), noted("full", ev(history.Refused, "caller-1")), accepted(), found("INTAKE", 1, record(job, `"id":"a"`, `"id":"g"`))),
		of("h", noted("no such model", ev(history.Refused, "caller-1"))),
		[]history.Event{
			delivered("caller-1", "RESULTS", 7), // to a caller, not a worker
			fault("decode-1", "kill: between publish and ack"), healed("decode-1"), fault("prefill-1", "kill"), fault("nats", "nats kill: anywhere"), fault("x", ""),
			ended(),
		},
	)
	want := check.Counts{
		Submitted: 7, Accepted: 7, Refused: 2, Succeeded: 2, Failed: 2, Cancelled: 1, Expired: 1, Left: 1, Kept: 1, Compared: 1, HandedOver: 1, Delivered: 2, Calls: 2,
		Faults: map[string]int{"kill": 2, "nats kill": 1, "": 1},
		Ways:   map[string]int{"kill": 1, "kill: between publish and ack": 1, "nats kill: anywhere": 1, "": 1},
	}
	if diff := cmp.Diff(want, check.Check(story(events...)).Counts); diff != "" {
		t.Error(diff)
	}
}

// The order of the verdict is by rule and job, whatever the order of the events; events that lie about are put in order.
func TestOrder(t *testing.T) {
	var events []history.Event
	for _, id := range []string{"c", "a", "d", "b"} {
		events = append(events, of(id, submitted(record(job, `"id":"a"`, `"id":"`+id+`"`)), accepted())...)
		events = append(events, of(id+"x", found("RESULTS", 1, success))...)
	}
	events = story(append(events, ended())...)
	want := check.Check(events)
	if diff := cmp.Diff([]string{"lost a", "lost b", "lost c", "lost d", "invented ax", "invented bx", "invented cx", "invented dx"}, broken(want)); diff != "" {
		t.Error(diff)
	}
	shuffled := slices.Clone(events)
	slices.Reverse(shuffled)
	before := slices.Clone(shuffled)
	if diff := cmp.Diff(want, check.Check(shuffled)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, shuffled); diff != "" {
		t.Errorf("the judge changed the history: %s", diff)
	}
}
