package console

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"tandem/client/admin"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func seen(role jobs.Stage, state string, gone bool) worker {
	return worker{admin.Presence{Worker: "1", Machine: "here", Role: role, Model: "m:1b", State: state, Slots: 1}, time.Now(), gone}
}

// The first line says what is wrong, by what the queue says, and by who is there.
func TestOverviewSays(t *testing.T) {
	prefill, decode := protocol.RolePrefill, protocol.RoleDecode
	for name, tt := range map[string]struct {
		workers []worker
		tone    tone
		want    string
	}{
		"nobody yet":         {nil, bad, "No worker has been seen"},
		"all is well":        {[]worker{seen(prefill, admin.StateReady, false), seen(decode, admin.StateReady, false)}, good, "All is well: 2 workers healthy, 2 requests running, 5 requests waiting."},
		"no prefill":         {[]worker{seen(decode, admin.StateReady, false)}, warn, "nobody prefills for m:1b"},
		"no decode":          {[]worker{seen(prefill, admin.StateReady, false), seen(decode, admin.StateReady, true)}, bad, "nobody generates for m:1b"},
		"everybody left":     {[]worker{seen(prefill, admin.StateReady, true), seen(decode, admin.StateReady, true)}, bad, "nobody generates for m:1b"},
		"the engine is down": {[]worker{seen(prefill, admin.StateReady, false), seen(decode, admin.StateDown, false)}, bad, "the decode worker of m:1b on here is down"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(nil, slog.New(slog.DiscardHandler))
			for i, one := range tt.workers {
				w.workers[string(rune('a'+i))] = one
			}
			if len(tt.workers) > 0 && name != "everybody left" { // of whom one counts
				w.models = []admin.ModelStatus{{Model: "m:1b", Classes: []admin.ClassStatus{{Prefill: admin.Depth{Waiting: 5, InFlight: 2}}}}}
			}
			o := w.overview(time.Now())
			if said := o.Words + "\n" + strings.Join(o.Faults, "\n"); o.Tone != tt.tone || !strings.Contains(said, tt.want) {
				t.Errorf("tone %q, says %s\nwant %q, and %s", o.Tone, said, tt.tone, tt.want)
			}
		})
	}
}

// What somebody publishes who is nobody's worker changes no card and keeps no memory.
func TestWatchBelievesLittle(t *testing.T) {
	w := newWatch(nil, slog.New(slog.DiscardHandler))
	id := jobs.NewID()
	w.event(&jobs.Event{Type: jobs.EventAccepted, JobID: id, User: "ada", Model: "m:1b", At: time.Now()})
	w.event(&jobs.Event{Type: jobs.EventEnded, JobID: id, User: "eve", Model: "invented:1b", Status: jobs.Failed, At: time.Now()})
	w.event(&jobs.Event{Type: jobs.EventEnded, JobID: id, User: "eve", Model: strings.Repeat("x", 10_000), Status: jobs.Failed, At: time.Now()})
	if w.index.begun != 1 || len(w.ended) != 1 {
		t.Errorf("%d requests have not ended and %d have, want one of each", w.index.begun, len(w.ended))
	}
	if o := w.overview(time.Now()); len(o.Models) != 0 {
		t.Errorf("there is a card of a model that nobody serves: %+v", o.Models)
	}
	for range keptEnded + 100 {
		w.event(&jobs.Event{Type: jobs.EventEnded, JobID: jobs.NewID(), User: "eve", Model: "m:1b", Status: jobs.Succeeded, At: time.Now()})
	}
	for range keptBegun + 100 {
		w.event(&jobs.Event{Type: jobs.EventAccepted, JobID: jobs.NewID(), User: "eve", Model: "m:1b", At: time.Now()})
	}
	if w.index.begun > keptBegun || len(w.ended) > keptEnded {
		t.Errorf("%d and %d requests are kept, want %d and %d at most", w.index.begun, len(w.ended), keptBegun, keptEnded)
	}
}
