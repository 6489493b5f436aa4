package check_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
)

// FuzzCheck holds the judge to what is true of every verdict, whatever the history.
func FuzzCheck(f *testing.F) {
	for _, events := range [][]history.Event{
		nil, whole(), but(history.Told, "", whole()), but(history.Submitted, "", whole()), slices.Concat(whole(), whole()[2:]),
		{submitted(job), accepted(), fault("nats", "kill: x"), stored("RESULTS", 1), ev(history.Cancelled, "caller-1"), called(), told(other), found("DLQ", 1, letter), found("DLQ", 2, unread), found("INTAKE", 1, job), found("RELAY", 1, hop), ended()},
	} {
		var file bytes.Buffer
		log := history.New(&file)
		for _, e := range events {
			log.Add(e)
		}
		if err := log.Flush(); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	f.Add([]byte(`{"n":0,"at":-1,"kind":"found","stream":"RESULTS","record":{"job":{"job":{}},"options":[],"error":null,"text":1}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		events, _ := history.Read(bytes.NewReader(file)) // what could be read of it
		hold(t, events)
	})
}

// FuzzStory makes each byte an event, so that most inputs are histories with something in them.
func FuzzStory(f *testing.F) {
	words := slices.Concat(whole(), []history.Event{
		submitted(warm), submitted(`"x"`), noted("unattended", submitted(job)), again(accepted()), ev(history.Refused, "caller-1"), ev(history.Published, "decode-1"),
		stored("RESULTS", 8), again(stored("RESULTS", 8)), stored("DLQ", 1), told(other), told(failure), told(`[]`), ev(history.Cancelled, "caller-1"), ev(history.Purged, ""),
		fault("nats-1", "kill: x"), healed("nats-1"), fault("decode-1", "freeze"), healed("decode-1"), found("RESULTS", 8, other), found("RESULTS", 9, `null`),
		found("INTAKE", 1, job), found("RELAY", 1, hop), found("DLQ", 1, letter), found("DLQ", 2, unread), found("OTHER", 1, `{}`), expect("no"), {Kind: "unknown"},
	})
	f.Add([]byte{})
	var all []byte
	for i := range words {
		all = append(all, byte(i))
	}
	f.Add(all)
	f.Add(slices.Repeat(all, 5))
	f.Fuzz(func(t *testing.T, picks []byte) {
		var events []history.Event
		for _, pick := range picks {
			e := words[int(pick)%len(words)]
			if int(pick) >= 3*len(words) && e.Job != "" { // of another job
				e.Job = "b"
			}
			e.At = time.Duration(pick)
			events = append(events, e)
		}
		for i := range events {
			events[i].N = i
		}
		hold(t, events)
	})
}

// hold checks what is true of every verdict.
func hold(t *testing.T, events []history.Event) {
	v := check.Check(events)
	if again := check.Check(slices.Clone(events)); !reflect.DeepEqual(v, again) {
		t.Errorf("the same history has two verdicts:\n%s\n%s", v, again)
	}
	seen := map[check.Rule]map[string]bool{}
	for _, violation := range v.Violations {
		if seen[violation.Rule] == nil {
			seen[violation.Rule] = map[string]bool{}
		}
		if seen[violation.Rule][violation.Job] {
			t.Errorf("%s of job %q is there twice", violation.Rule, violation.Job)
		}
		seen[violation.Rule][violation.Job] = true
		if !slices.Contains(check.Rules(), violation.Rule) || violation.What == "" {
			t.Errorf("violation %q says %q", violation.Rule, violation.What)
		}
		for i, e := range violation.Slice {
			if i > 0 && e.N <= violation.Slice[i-1].N {
				t.Errorf("%s of job %q: the slice is not in order", violation.Rule, violation.Job)
			}
			if fault := e.Kind == history.Fault || e.Kind == history.Healed; e.Job != violation.Job && !fault && violation.Rule != check.Unsettled {
				t.Errorf("%s of job %q: the slice has an event of job %q", violation.Rule, violation.Job, e.Job)
			}
		}
	}
	c := v.Counts
	if ends := c.Succeeded + c.Failed + c.Cancelled + c.Expired + c.Left; ends > c.Submitted || c.Accepted > c.Submitted {
		t.Errorf("counts do not add up: %+v", c)
	}
	text := v.String()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("a control character is printed: %q", text[i:])
	}
}
