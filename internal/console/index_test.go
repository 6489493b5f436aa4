package console

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/client/admin"
	"tandem/internal/people"
	"tandem/jobs"
)

var (
	operator = people.Person{Name: "ops", User: "ops", Role: people.Operator}
	start    = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

func event(typ jobs.EventType, user, id string, after time.Duration) *jobs.Event {
	return &jobs.Event{V: 1, Type: typ, At: start.Add(after), User: user, JobID: id, Batch: "b", Model: "m:1b", Worker: "mac-1/w", Stage: jobs.StageDecode}
}

func find(t *testing.T, x *index, user, id string) *job {
	t.Helper()
	j := x.byKey[jobKey{wordOf(user), id}]
	if j == nil {
		t.Fatalf("job %s of %s is not known", id, user)
	}
	return j
}

// Events come from several publishers, in any order, and what the streams say comes before or after them: what a job is in the end does not depend on it.
func TestIndexInAnyOrder(t *testing.T) {
	const id = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"
	ended := event(jobs.EventEnded, "ada", id, 3*time.Second)
	ended.Status, ended.Method, ended.Timings = jobs.Succeeded, jobs.MethodLocal, &jobs.Timings{TotalSeconds: 3}
	result := &admin.Kept{Sequence: 7, JobID: id, User: "ada", Batch: "b", Model: "m:1b", Status: jobs.Succeeded, Method: jobs.MethodLocal, Seconds: 3, Accepted: start, Usage: jobs.Usage{PromptTokens: 10}}
	steps := []func(x *index){
		func(x *index) { x.event(event(jobs.EventAccepted, "ada", id, 0)) },
		func(x *index) { x.event(event(jobs.EventDecodeBegun, "ada", id, time.Second)) },
		func(x *index) {
			x.kept(admin.StreamIntake, &admin.Kept{Sequence: 3, JobID: id, User: "ada", Batch: "b", Model: "m:1b", Stage: jobs.StagePrefill, Accepted: start})
		},
		func(x *index) { x.event(ended) },
		func(x *index) { x.kept(admin.StreamResults, result) },
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {1, 0, 2, 4, 3}, {2, 4}, {3, 0, 1, 4}, {4, 4, 3}} {
		x := newIndex()
		for _, i := range order {
			steps[i](x)
		}
		j := find(t, x, "ada", id)
		if j.state.Value() != "succeeded" || j.seconds != 3 || j.prompt != 10 || x.begun != 0 || x.results != 1 || len(j.steps) != 0 {
			t.Errorf("in the order %v it is %s after %.1f s with %d tokens, %d have begun, %d results", order, j.state.Value(), j.seconds, j.prompt, x.begun, x.results)
		}
	}
	x := newIndex()
	for _, i := range []int{1, 0} { // a worker was faster than the submitter
		steps[i](x)
	}
	if j := find(t, x, "ada", id); j.state.Value() != "running" || len(j.steps) != 2 || j.steps[0].Type != jobs.EventAccepted || x.begun != 1 {
		t.Errorf("it is %s, with the steps %v", j.state.Value(), j.steps)
	}
}

// Ids are made by clients: two users may have the same, and neither sees or touches the other's job by it.
func TestIndexTellsUsersApart(t *testing.T) {
	const id = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	for i, user := range []string{"ada", "grace", ""} {
		w.index.kept(admin.StreamDLQ, &admin.Kept{Sequence: uint64(i + 1), JobID: id, User: user, Batch: "b", Model: "m:1b", Stage: jobs.StageDecode, Stored: start, Error: jobs.ErrorInfo{Code: jobs.CodeEngineFailed, Message: user}})
	}
	if n := len(w.index.order); n != 3 {
		t.Fatalf("there are %d jobs, want 3", n)
	}
	drop, _ := verbNamed("drop")
	for _, tt := range []struct {
		who  people.Person
		want []string
	}{
		{operator, []string{"ada", "grace"}}, // the letter of nobody is dropped by its stream
		{people.Person{User: "ada", Role: people.Grader}, []string{"ada"}},
		{people.Person{User: "grace", Role: people.Grader}, []string{"grace"}},
		{people.Person{User: "somebody", Role: people.Grader}, nil},
	} {
		for _, f := range []filter{{}, filterFor(t, "user=ada"), filterFor(t, "user=ada&state=failed")} {
			var got []string
			keys, _ := w.chosen(f, drop, tt.who)
			for _, k := range keys {
				got = append(got, k.user.Value())
			}
			want := slices.DeleteFunc(slices.Clone(tt.want), func(user string) bool { return f.User != "" && user != f.User })
			if !slices.Equal(got, want) {
				t.Errorf("%s %q may drop letters of %q with filter %q, want %q", tt.who.Role, tt.who.User, got, f.Query(), want)
			}
		}
	}
}

func filterFor(t *testing.T, query string) filter {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	f, err := filterOf(q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The list has all that match, newest first, in pages, and counts each state as it would be with that filter.
func TestJobsPage(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	w.index.read = true
	for i := range 130 {
		k := &admin.Kept{Sequence: uint64(i + 1), JobID: jobs.NewID(), User: fmt.Sprint("user-", i%2), Batch: "b", Model: "m:1b", Status: jobs.Succeeded, Accepted: start.Add(time.Duration(129-i) * time.Second)}
		if i%10 == 0 {
			k.Status, k.Error = jobs.Failed, jobs.ErrorInfo{Code: jobs.CodeEngineFailed, Message: "Out of <memory>"}
		}
		w.index.kept(admin.StreamResults, k)
	}
	p := w.jobs(filterFor(t, ""), 3, operator, start)
	if p.Words != "130 jobs" || p.Pages != 3 || len(p.Rows) != 30 || p.Older != "" || p.Newer != "/console/jobs?page=2" {
		t.Errorf("the third page says %q, %d pages, %d rows, older %q, newer %q", p.Words, p.Pages, len(p.Rows), p.Older, p.Newer)
	}
	if first := w.jobs(filterFor(t, ""), 1, operator, start).Rows[0].Accepted; first != "05:08:16" {
		t.Errorf("the first row was accepted at %s, want the newest", first)
	}
	p = w.jobs(filterFor(t, "error=out+of+%3Cmem&user=user-0"), 1, operator, start)
	if p.Words != "13 jobs of 130" || len(p.Acts) != 0 {
		t.Errorf("the filter by error says %q, offers %v", p.Words, p.Acts)
	}
	counts := map[state]string{}
	for _, s := range w.jobs(filterFor(t, "state=failed"), 1, operator, start).States {
		counts[s.State] = s.Count
	}
	if counts["succeeded"] != "117" || counts["failed"] != "13" || counts["waiting"] != "0" {
		t.Errorf("the states are counted %v", counts)
	}
	html, err := render("jobs.html", p)
	if err != nil || strings.Contains(html, "<memory>") || !strings.Contains(html, "Out of &lt;memory&gt;") {
		t.Errorf("the page has the error as markup, or not: %v", err)
	}
	if _, err := filterOf(url.Values{"state": {"asleep"}}); err == nil {
		t.Error("an unknown state is taken")
	}
}

// What the streams say of when a job was accepted goes before the first event that was heard of it.
func TestAcceptedBeforeItWasHeardOf(t *testing.T) {
	const id = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"
	x := newIndex()
	x.event(event(jobs.EventPrefillBegun, "ada", id, time.Hour))
	x.event(event(jobs.EventAccepted, "ada", "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f7", time.Minute))
	x.kept(admin.StreamIntake, &admin.Kept{Sequence: 1, JobID: id, User: "ada", Model: "m:1b", Stage: jobs.StagePrefill, Accepted: start})
	x.sort()
	if j := find(t, x, "ada", id); !j.accepted.Equal(start) || x.order[0] != j || j.state.Value() != "running" {
		t.Errorf("accepted %v, %s", j.accepted, j.state.Value())
	}
}

// A stream that was made anew is read from its beginning again, and what it does not hold any more is to be forgotten.
func TestStreamMadeAnew(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	w.index.read = true
	for i := range 3 {
		w.index.kept(admin.StreamResults, &admin.Kept{Sequence: uint64(100 + i), JobID: fmt.Sprint(i), User: "ada", Status: jobs.Succeeded, Accepted: start})
	}
	streams := []admin.StreamStatus{{Name: admin.StreamResults, Messages: 3, LastSequence: 102}}
	if w.compare(streams); w.surplus != 0 || w.index.tails[admin.StreamResults] != 102 {
		t.Errorf("nothing happened, and %d times the streams held too little; read up to %d", w.surplus, w.index.tails[admin.StreamResults])
	}
	streams[0].Messages = 2 // one was purged
	if w.compare(streams); w.surplus != 1 {
		t.Errorf("one was purged, and %d times the streams held too little", w.surplus)
	}
	streams[0].Messages, streams[0].LastSequence = 5, 5
	if w.compare(streams); w.surplus < 2 || w.index.tails[admin.StreamResults] != 0 {
		t.Errorf("the stream was made anew; it is read on from %d", w.index.tails[admin.StreamResults])
	}
}

// A cause of dead letters leads to those that it counts, and to no others.
func TestCauseOfLetters(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	for i, e := range []struct {
		code    jobs.Code
		message string
		stage   jobs.Stage
	}{{jobs.CodeTimeout, "", jobs.StageDecode}, {jobs.CodeEngineFailed, "a timeout", jobs.StageDecode}, {jobs.CodeTimeout, "", jobs.StagePrefill}, {"", "?", jobs.StageDecode}} {
		w.index.kept(admin.StreamDLQ, &admin.Kept{Sequence: uint64(i + 1), JobID: fmt.Sprint(i), User: "ada", Model: "m:1b", Stage: e.stage, Stored: start, Error: jobs.ErrorInfo{Code: e.code, Message: e.message}})
	}
	why := w.queues(operator, start).Why
	if len(why) != 4 {
		t.Fatalf("the causes are %+v", why)
	}
	for _, g := range why {
		_, query, _ := strings.Cut(g.Path, "?")
		if p := w.jobs(filterFor(t, query), 1, operator, start); len(p.Rows) != g.Count || p.Rows[0].Code != g.Code {
			t.Errorf("the cause %+v leads to %d jobs", g, len(p.Rows))
		}
	}
	if p := w.jobs(filterFor(t, ""), 99, operator, start); len(p.Rows) != 4 || p.Number != 1 {
		t.Errorf("a page after the last one has %d rows, and is number %d", len(p.Rows), p.Number)
	}
}

// A record with names that are too long is nobody's, and breaks no page.
func TestResultOfNobody(t *testing.T) {
	if j := jobOf(&jobs.Result{JobID: "x", User: "ada", Model: strings.Repeat("m", 5*jobs.MaxName)}); j != nil {
		t.Errorf("it is a job: %+v", j)
	}
}

// However much is published, so much is kept: those that have ended and were accepted first go first.
func TestIndexIsBounded(t *testing.T) {
	x := newIndex()
	for i := range keptJobs + keptJobs/10 {
		x.kept(admin.StreamResults, &admin.Kept{Sequence: uint64(i + 1), JobID: fmt.Sprint(i), User: "ada", Status: jobs.Succeeded, Accepted: start.Add(time.Duration(i))})
	}
	for i := range keptBegun + 10 {
		x.event(event(jobs.EventAccepted, "eve", fmt.Sprint("begun-", i), 0))
	}
	if n := len(x.order); n != len(x.byKey) || n > keptJobs+keptJobs/20 || x.begun != keptBegun || x.results != n-keptBegun {
		t.Errorf("%d jobs are kept (%d by name), %d of them begun, %d with results", n, len(x.byKey), x.begun, x.results)
	}
	if x.byKey[jobKey{wordOf("ada"), "0"}] != nil || x.byKey[jobKey{wordOf("eve"), "begun-0"}] == nil {
		t.Error("not the first that had ended were forgotten")
	}
}
