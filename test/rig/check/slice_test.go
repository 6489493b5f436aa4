package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
)

// kinds are the kinds of a slice, with the process of a fault.
func kinds(events []history.Event) string {
	var all []string
	for _, e := range events {
		word := string(e.Kind)
		if e.Kind == history.Fault || e.Kind == history.Healed {
			word += " " + e.Process
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

func TestSlice(t *testing.T) {
	type events = []history.Event
	noise := of("b", submitted(record(job, `"id":"a"`, `"id":"b"`)), ev(history.Purged, ""), delivered("decode-9", "RELAY", 5))
	many := func(n int, e history.Event) events { return slices.Repeat(events{e}, n) }

	for _, c := range []struct {
		name   string
		events events
		rule   check.Rule
		want   string
	}{
		{
			"nothing of others", slices.Concat(noise, events{submitted(job)}, noise, events{accepted()}, noise, events{ended()}), check.Lost,
			"submitted, accepted",
		},
		{
			"faults of who held it, and of NATS, while it lived",
			events{
				fault("decode-1", "kill"), fault("nats-1", "kill"), submitted(job), fault("decode-1", "kill"), accepted(), fault("decode-2", "kill"), fault("nats-2", "kill"), delivered("decode-1", "RELAY", 1),
				fault("decode-1", "kill"), healed("decode-1"), healed("nats-2"), called(), fault("engine-1", "hang"), stored("RESULTS", 1), told(other), fault("decode-1", "kill"), fault("nats-1", "kill"),
				found("RESULTS", 1, other), expect("yes"), ended(),
			}, check.WrongText,
			"submitted, fault decode-1, accepted, fault nats-2, delivered, fault decode-1, healed decode-1, healed nats-2, called, fault engine-1, stored, told, found, expected",
		},
		{
			"who published it, and who submitted it",
			events{
				submitted(job), fault("caller-1", "kill"), fault("caller-2", "kill"), ev(history.Published, "prefill-1"), fault("prefill-1", "kill"), called(), told(other), found("RESULTS", 1, other), expect("yes"), ended(),
			}, check.WrongText,
			"submitted, fault caller-1, published, fault prefill-1, called, told, found, expected",
		},
		{
			"what is missing was lost in the next fault",
			events{submitted(job), accepted(), healed("nats"), fault("decode-1", "kill"), fault("nats", "power"), fault("nats", "kill"), ended()}, check.Lost,
			"submitted, accepted, fault nats",
		},
		{
			"of many deliveries and calls the first and the last three",
			slices.Concat(events{submitted(job), accepted()}, many(9, delivered("decode-1", "RELAY", 1)), many(7, called()), many(6, delivered("prefill-1", "INTAKE", 1)), events{ended()}), check.Lost,
			"submitted, accepted" + strings.Repeat(", delivered", 6) + strings.Repeat(", called", 6) + strings.Repeat(", delivered", 6),
		},
		{
			"of many faults of one process likewise",
			slices.Concat(events{submitted(job)}, many(8, fault("nats-1", "kill")), many(6, fault("nats-2", "kill")), events{accepted(), ended()}), check.Lost,
			"submitted" + strings.Repeat(", fault nats-1", 6) + strings.Repeat(", fault nats-2", 6) + ", accepted",
		},
		{
			"what shows it is never left out",
			slices.Concat(events{submitted(warm)}, many(5, told(success)), events{told(other)}, many(5, told(success)), events{found("RESULTS", 1, success), ended()}), check.Untold,
			"submitted" + strings.Repeat(", told", 7) + ", found",
		},
		{"the last event of a history without an end", events{submitted(job), accepted()}, check.Unsettled, "accepted"},
		{"nothing of an empty history", nil, check.Unsettled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := check.Check(story(c.events...))
			i := slices.IndexFunc(v.Violations, func(v check.Violation) bool { return v.Rule == c.rule })
			if i < 0 {
				t.Fatalf("%s was not broken:\n%s", c.rule, v)
			}
			part := v.Violations[i].Slice
			if diff := cmp.Diff(c.want, kinds(part)); diff != "" {
				t.Error(diff)
			}
			if !slices.IsSortedFunc(part, func(a, b history.Event) int { return a.N - b.N }) {
				t.Error("the slice is not in order")
			}
		})
	}
}

// The events that a slice shows are enough to see the violation in: judged by itself, with its end, it breaks the same rule.
func TestSliceShowsTheViolation(t *testing.T) {
	type events = []history.Event
	busy := slices.Repeat(events{delivered("decode-1", "RELAY", 1), called(), fault("decode-1", "kill")}, 20)
	for _, story1 := range []events{
		{submitted(job), accepted()},
		{submitted(job), accepted(), found("RELAY", 1, hop)},
		{submitted(job), accepted(), stored("RESULTS", 1), stored("RESULTS", 2), told(success), found("RESULTS", 2, success), expect("yes")},
		{found("RESULTS", 2, success)},
		{submitted(job), accepted(), told(success), found("RESULTS", 2, success)},
		{submitted(job), accepted(), told(success), found("RESULTS", 2, success), expect("no")},
		{submitted(job), accepted(), stored("RESULTS", 1), ev(history.Cancelled, "caller-1"), called(), called(), called(), called(), told(stopped), found("RESULTS", 1, stopped)},
		{submitted(job), accepted(), found("RESULTS", 2, success), expect("yes")},
	} {
		all := slices.Concat(story1[:min(2, len(story1)-1)], busy, story1[min(2, len(story1)-1):], events{ended()})
		v := check.Check(story(all...))
		if len(v.Violations) != 1 {
			t.Fatalf("want one violation:\n%s", v)
		}
		found := v.Violations[0]
		if len(found.Slice) >= len(all)-20 {
			t.Errorf("%s: the slice has %d events of %d", found.Rule, len(found.Slice), len(all))
		}
		shown := check.Check(story(append(slices.Clone(found.Slice), ended())...))
		if diff := cmp.Diff(broken(v), broken(shown)); diff != "" {
			t.Errorf("%s: its slice shows something else: %s", found.Rule, diff)
		}
	}
}
