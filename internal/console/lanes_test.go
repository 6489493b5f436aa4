package console

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"tandem/client/admin"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// story has events of one request come in, so many seconds after a moment.
func story(w *watch, at time.Time, id string, events ...any) (end time.Time) {
	for i := 0; i < len(events); i += 2 {
		at = at.Add(time.Duration(events[i].(float64) * float64(time.Second)))
		e := events[i+1].(jobs.Event)
		e.JobID, e.User, e.Model = id, "ada", "m:1b"
		w.mu.Lock()
		w.follow(at, "ada "+id, &e)
		w.mu.Unlock()
	}
	return at
}

func happens(what jobs.EventType, worker string, seconds float64) jobs.Event {
	return jobs.Event{Type: what, Worker: worker, Seconds: seconds}
}

// A request that is handed over is seen at both machines, with all that it did there.
func TestLanes(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	start := time.Now().Truncate(laneCell)
	end := story(w, start, "1",
		0.0, happens(jobs.EventPrefillBegun, "spark/p", 0), 10.0, happens(jobs.EventPrefillDone, "spark/p", 0), 0.0, happens(jobs.EventSaved, "spark/p", 4), 0.0, happens(jobs.EventOffered, "spark/p", 0),
		8.0, happens(jobs.EventFetched, "mac/d", 6), 5.0, happens(jobs.EventRestored, "mac/d", 3), 0.0, happens(jobs.EventDecodeBegun, "mac/d", 0), 0.0, happens(jobs.EventFirstToken, "mac/d", 0),
		20.0, happens(jobs.EventEnded, "mac/d", 0))
	w.since = end.Add(-100 * time.Second)
	spent := func(machine, id string, slots int) laneRow {
		return w.lanes.draw(end.Add(laneCell), worker{admin.Presence{Machine: machine, Worker: id, Slots: slots}, end, false}, w.since)
	}
	if got, want := strings.Join(spent("spark", "p", 1).Spent, ", "), "6.0 s, 4.0 s, –, –, –, –"; got != want {
		t.Errorf("the prefill machine: %s, want %s", got, want)
	}
	mac := spent("mac", "d", 2)
	if got, want := strings.Join(mac.Spent, ", "), "–, –, 6.0 s, 3.0 s, 20.0 s, 2.0 s"; got != want {
		t.Errorf("the decode machine: %s, want %s", got, want)
	}
	if mac.Busy != "15 %" || mac.Requests != 1 || !strings.Contains(mac.Says, "1 request; waited 2.0 s") {
		t.Errorf("%s busy with %d requests: %s", mac.Busy, mac.Requests, mac.Says)
	}
	if len(w.atWork) != 0 || w.lanes.running != 0 {
		t.Errorf("%d requests are at work, %d at workers, want none", len(w.atWork), w.lanes.running)
	}
}

// Requests at the same time lie in lanes of their own, as many as there are slots, and nothing is drawn twice.
func TestLanesPack(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	start := time.Now().Add(-time.Minute).Truncate(laneCell)
	for i := range 4 { // of which two are there at a time, and one at whose end nobody was heard
		story(w, start.Add(time.Duration(i/2)*10*time.Second), fmt.Sprint(i), 0.0, happens(jobs.EventDecodeBegun, "mac/d", 0), 0.0, happens(jobs.EventFirstToken, "mac/d", 0), 10.0, happens(jobs.EventEnded, "", 0))
	}
	story(w, start.Add(20*time.Second), "lost", 0.0, happens(jobs.EventDecodeBegun, "mac/d", 0))
	for slots, want := range map[int]string{2: "40.0 s", 1: "20.0 s"} { // in one slot, what comes at the same time is not believed
		r := w.lanes.draw(start.Add(30*time.Second), worker{admin.Presence{Machine: "mac", Worker: "d", Slots: slots}, start, false}, start)
		if got := r.Spent[decodes]; got != want || r.Height != slots*laneHeight {
			t.Errorf("in %d slots: decode for %s, want %s; the picture is %d high", slots, got, want, r.Height)
		}
	}
}

// What is heard of many requests, or of workers that there are not, is forgotten.
func TestLanesForget(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, now := heap(), time.Now()
	for i := range 100_000 {
		name := fmt.Sprintf("machine-%d/<script>", i%1000)
		now = story(w, now, fmt.Sprint(i), 0.001, happens(jobs.EventPrefillBegun, name, 0), 0.0, happens(jobs.EventHandoverFailed, fmt.Sprintf("other-%d/w", i), 0), 0.0, happens(jobs.EventSaved, name, 1e30))
	}
	if len(w.atWork) > keptBegun || len(w.lanes.workers) > keptWorkers || len(w.pairs) > keptPairs {
		t.Errorf("%d requests, %d workers and %d pairs are kept, want %d, %d and %d at most", len(w.atWork), len(w.lanes.workers), len(w.pairs), keptBegun, keptWorkers, keptPairs)
	}
	if grown := int64(heap()) - int64(before); grown > 24<<20 {
		t.Errorf("100,000 requests without an end take %d bytes, want 24 MB at most", grown)
	}
	w.mu.Lock()
	w.forget(now.Add(keptUnended + time.Second))
	w.mu.Unlock()
	if len(w.atWork) != 0 || w.lanes.running != 0 {
		t.Errorf("%d requests are at work after a day, %d at workers", len(w.atWork), w.lanes.running)
	}
	busy := worker{admin.Presence{Machine: "mac", Worker: "d", Slots: 40}, now, false}
	for i := range 5 * keptVisits {
		story(w, now.Add(time.Duration(i)*20*time.Millisecond), fmt.Sprint("busy", i), 0.0, happens(jobs.EventPrefillBegun, "mac/d", 0), 0.01, happens(jobs.EventEnded, "mac/d", 0))
	}
	if n := len(w.lanes.workers["mac/d"]); n > keptVisits {
		t.Errorf("%d visits of a worker are kept, want %d at most", n, keptVisits)
	}
	r := w.lanes.draw(now.Add(100*time.Second), busy, now)
	if html, err := render("lanes", lanesPart{Rows: []laneRow{r}, Doings: doings[:]}); err != nil || len(html) > 200_000 {
		t.Errorf("the picture of a busy worker has %d bytes: %v", len(html), err)
	}
}

// The last hour is in its steps: rates as means of a minute, and nothing before the console began.
func TestHistory(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var h history
	h.at(now)
	before := &said{}
	h.add(now, &jobs.Event{Type: jobs.EventProgress, Tokens: 300}, before)
	h.add(now, &jobs.Event{Type: jobs.EventProgress, Tokens: 200}, before) // it began again
	now = now.Add(stepTime)
	h.add(now, &jobs.Event{Type: jobs.EventEnded, Usage: &jobs.Usage{GeneratedTokens: 600, PrefillComputed: 6000}}, before)
	h.load(now, 7, 2)
	c := h.draw(now.Add(stepTime - time.Nanosecond))
	for i, want := range []string{"1 a minute", "9 requests", "10 tok/s", "100 tok/s"} {
		if got := c.All[i].Now + " " + c.All[i].Unit; got != want {
			t.Errorf("%s: %s, want %s", c.All[i].Name, got, want)
		}
	}
	if got, want := c.All[1].Data, `{"From":1800000000,"Step":10,"Span":3600,"Values":[[0,7],[0,2]]}`; got != want {
		t.Errorf("the data is %s, want %s", got, want)
	}
	c = h.draw(now.Add(30 * time.Minute)) // in which nothing was heard
	if len(c.Rows) != rowsShown || c.All[0].Now != "0" || c.All[0].Most != "1" || c.All[1].Now != "9" {
		t.Errorf("half an hour later: %d rows, %s", len(c.Rows), c.All[0].Says)
	}
	c = h.draw(now.Add(3 * time.Hour))
	if n := strings.Count(c.All[2].Data, ","); n > stepsKept+3 || c.All[2].Most != "0" {
		t.Errorf("three hours later: %d steps, %s", n, c.All[2].Says)
	}
	h.add(now.Add(3*time.Hour), &jobs.Event{Type: jobs.EventProgress, Tokens: -5}, before)
	h.add(now.Add(3*time.Hour), &jobs.Event{Type: jobs.EventEnded, Usage: &jobs.Usage{GeneratedTokens: 1 << 62, PrefillComputed: 1 << 62, DecodeComputed: 1 << 62}}, &said{})
	if c = h.draw(now.Add(3 * time.Hour)); strings.Contains(c.All[2].Data, "-") {
		t.Errorf("what a hostile event says is drawn: %s", c.All[2].Data)
	}
}

// Why KV states were not used is counted by failure, for machines that there are.
func TestPairs(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	for _, p := range []admin.Presence{
		{Machine: "spark", Worker: "p", Role: protocol.RolePrefill, Model: "m:1b", State: admin.StateReady}, {Machine: "<b>mac</b>", Worker: "d", Role: protocol.RoleDecode, Model: "m:1b", State: admin.StateReady},
	} {
		w.workers[p.Worker] = worker{p, time.Now(), false}
	}
	refuses := func(worker string, f jobs.Failure, why string) jobs.Event {
		return jobs.Event{Type: jobs.EventHandoverFailed, Worker: worker, Failure: f, Why: why}
	}
	story(w, time.Now(), "1", 0.0, happens(jobs.EventPrefillBegun, "spark/p", 0), 0.0, refuses("<b>mac</b>/d", jobs.FailDigest, "the bytes differ"), 0.0, refuses("<b>mac</b>/d", jobs.FailDigest, strings.Repeat("<script>", 1000)))
	story(w, time.Now(), "2", 0.0, happens(jobs.EventPrefillBegun, "spark/p", 0), 0.0, happens(jobs.EventFetched, "<b>mac</b>/d", 0), 0.0, happens(jobs.EventRestored, "<b>mac</b>/d", 0))
	story(w, time.Now(), "3", 0.0, happens(jobs.EventPrefillBegun, "spark/p", 0), 0.0, refuses("spark/p", jobs.FailNoState, "nobody takes it"))
	story(w, time.Now(), "4", 0.0, happens(jobs.EventPrefillBegun, "invented/p", 0), 0.0, refuses("<b>mac</b>/d", jobs.FailDigest, "a lie"))
	m := w.machines(time.Now())
	var got strings.Builder
	for _, p := range m.Pairs {
		fmt.Fprintf(&got, "%s>%s %d used", p.Prefill, p.Decode, p.Used)
		for _, r := range p.Reasons {
			fmt.Fprintf(&got, " %s %d", r.Failure, r.Times)
		}
		got.WriteString("; ")
	}
	if want := "spark>– 0 used no_state 1; spark><b>mac</b> 1 used digest 2; "; got.String() != want {
		t.Errorf("pairs %s, want %s", got.String(), want)
	}
	html, err := render("machines.html", m)
	if err != nil || strings.Contains(html, "<b>") || strings.Contains(html, "<script>") || len(html) > 20_000 {
		t.Errorf("the page has %d bytes and shows markup of others (%v)", len(html), err)
	}
}

// Usage is summed up by token, by user and by day, and the picture is as high as the day with the most.
func TestUsage(t *testing.T) {
	today := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	p := usageOf([]Usage{
		{Day: "2026-03-30", Token: "a", User: "ada", Requests: 1, Prompt: 1000, Cached: 400, Generated: 200},
		{Day: "2026-03-31", Token: "a", User: "ada", Requests: 1, Failed: 1, Prompt: 100},
		{Day: "2026-03-31", Token: "b", User: "ada", Requests: 2, Prompt: 300, Cached: 300, Generated: 100},
	}, today)
	if p.Words != "4 requests in 30 days, by 2 access tokens: 1,400 tokens of prompts, 300 generated." {
		t.Errorf("it says %s", p.Words)
	}
	if rows := p.Tables[0].Rows; len(rows) != 2 || rows[0].Name != "a" || rows[0].Share != "76 %" || rows[0].Failed != 1 {
		t.Errorf("by token: %+v", rows)
	}
	if rows := p.Tables[1].Rows; len(rows) != 1 || rows[0].Requests != 4 {
		t.Errorf("by user: %+v", rows)
	}
	if got, want := fmt.Sprint(p.Bars), "[{560 80 40 20 60 0 20} {580 90 30 80 10 70 10}]"; got != want {
		t.Errorf("bars %s, want %s", got, want)
	}
}
