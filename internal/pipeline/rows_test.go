package pipeline_test

import (
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// What a state has in common with others is offered with it, and the decode worker is told.
func TestPrefillOffersRows(t *testing.T) {
	r := newRig(t)
	r.engine.prefilled = r.saved(t)
	r.engine.prefilled.State.Prefix, r.engine.prefilled.State.Rows = 1000, []protocol.Span{{Offset: 1, Bytes: 3}}
	tk, _ := task(jobs.StagePrefill, "", nil)
	o, err := r.Run(t.Context(), tk)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.holder.rows) != 1 || r.holder.rows[0] != (protocol.Span{Offset: 1, Bytes: 3}) || o.Next.State.Prefix != 1000 {
		t.Errorf("offered rows %v, state %+v", r.holder.rows, o.Next.State)
	}
}

// A result, the metrics and the link's rate know what went over the network of a state that was put together.
func TestRebuiltState(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*handover.Fetched)
		link   float64 // bytes per second, 0: it says nothing of the link
		says   string
	}{
		{"whole", func(*handover.Fetched) {}, 2.5e9, "(200 MB, saved in 27 ms, moved in 80 ms at 2.5 GB/s, read"},
		{"rebuilt on a slow link", func(f *handover.Fetched) { f.Moved, f.Rebuilt, f.Waited = 80e6, true, 70*time.Millisecond }, 1e9,
			"(200 MB, saved in 27 ms, 80 MB of it moved in 80 ms at 1.0 GB/s, read"},
		{"rebuilt on a fast link", func(f *handover.Fetched) { f.Moved, f.Rebuilt, f.Waited = 80e6, true, 30*time.Millisecond }, 0,
			"80 MB of it moved"},
		{"failed", func(f *handover.Fetched) { f.Moved, f.Failed = 280e6, true }, 3.5e9, "(200 MB, saved in 27 ms, moved in 80 ms at 3.5 GB/s, read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.engine.completion, r.fetcher.change = imported, tt.change
			tk, _ := task(jobs.StageDecode, "", handedOver())
			o, err := r.Run(t.Context(), tk)
			if err != nil {
				t.Fatal(err)
			}
			want := handover.Fetched{Moved: 200e6}
			tt.change(&want)
			if h := o.Result.Handover; h.Bytes != 200e6 || h.MovedBytes != want.Moved || r.counted.bytes != want.Moved || r.counted.rebuilt != want.Rebuilt || r.counted.failed != want.Failed {
				t.Errorf("report %+v, counted %+v; want %d bytes moved", h, r.counted, want.Moved)
			}
			if got := r.rates.Snapshot().LinkBytesPerSecond["spark/1"]; got != tt.link {
				t.Errorf("the link is taken for %.3g bytes per second, want %.3g", got, tt.link)
			}
			if !strings.Contains(o.Result.Decision, tt.says) {
				t.Errorf("decision %q; want %q in it", o.Result.Decision, tt.says)
			}
		})
	}
}

// A worker tells which shared prefixes need not be sent to it, as long as it has their rows.
func TestRows(t *testing.T) {
	r := newRig(t)
	r.engine.completion = imported
	class := func(prefix, name string, tokens int) string {
		h := handedOver()
		h.State.Prefix = tokens
		tk, _ := task(jobs.StageDecode, "", h)
		tk.Job.Prompt, tk.Job.SharedPrefix = prefix+" and the own part", len(prefix)
		r.fetcher.change = func(f *handover.Fetched) { f.Rows = name }
		if _, err := r.Run(t.Context(), tk); err != nil {
			t.Fatal(err)
		}
		return engine.PrefixKey(engine.RequestOf(tk.Job))
	}
	one := class("one rubric", "a", 1500)
	if got := r.Rows(); len(got) != 0 {
		t.Errorf("rows %v that are not here", got)
	}
	r.fetcher.holds = map[string]bool{"a": true, "b": true, "c": true}
	two := class("another", "b", 800)
	if got := r.Rows(); len(got) != 2 || got[one] != 1500 || got[two] != 800 {
		t.Errorf("rows %v, want 1500 tokens of %s and 800 of %s", got, one, two)
	}
	class("one rubric", "c", 1504) // of another slot
	delete(r.fetcher.holds, "b")
	if got := r.Rows(); len(got) != 1 || got[one] != 1504 {
		t.Errorf("rows %v, want 1504 tokens of %s", got, one)
	}
	class("", "a", 700)          // of no prefix that the job names
	class("one rubric", "", 100) // of a state without rows that others have
	if got := r.Rows(); len(got) != 1 || got[one] != 1504 {
		t.Errorf("rows %v, want 1504 tokens of %s", got, one)
	}
}
