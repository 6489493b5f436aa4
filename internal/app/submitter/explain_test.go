package submitter

import (
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// hall is an installation whose two workers of a model hand KV states over, and have measured how.
func hall() *queue.Overview {
	print := jobs.Fingerprint{Model: "m", CacheK: "q8_0", CacheV: "q8_0", Streams: 2}
	prefill, decode := worker(protocol.RolePrefill), worker(protocol.RoleDecode)
	prefill.Fingerprint, decode.Fingerprint = &print, &print
	prefill.Slots, decode.Slots, decode.Machine = 2, 2, "mac-1"
	prefill.Rates = protocol.Rates{
		PrefillByLength: map[string]float64{"4k": 4000, "8k": 4000, "16k": 4000}, DecodeByLength: map[string]float64{"8k": 50},
		SaveBytesPerSecond: 4e9, StateBytesPerToken: 1e5,
	}
	decode.Rates = protocol.Rates{
		PrefillByLength: map[string]float64{"4k": 1000, "8k": 1000, "16k": 1000}, DecodeByLength: map[string]float64{"8k": 100},
		RestoreBytesPerSecond: 4e9, CheckSeconds: 0.02, GeneratedTokens: 1200, JobSeconds: 14, LinkBytesPerSecond: map[string]float64{"spark-1": 1e9, "other": 1},
	}
	return &queue.Overview{
		Models:  []queue.ModelStatus{{Model: "m", Classes: []queue.ClassStatus{{Class: jobs.Interactive}, {Class: jobs.Batch}}}, {Model: "n"}},
		Workers: []queue.Presence{prefill, decode},
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(o *queue.Overview, c *explainCmd)
		want   string // begins the decision
	}{
		{"as measured", func(*queue.Overview, *explainCmd) {}, "hand over: saves 4.8 s of 8.0 s (8,000 tokens uncached, state 800 MB, link 1.0 GB/s)"},
		{"with what is cached", func(_ *queue.Overview, c *explainCmd) { c.CachedDecode, c.CachedPrefill = 7500, 7500 }, "re-prefill: 500 tokens uncached, hand-over would cost"},
		{"a short answer, and states of no use", func(o *queue.Overview, c *explainCmd) {
			c.Generate, o.Workers[1].StoppedPairs = 10, []string{"spark-1"}
		}, "whole on the prefill machine: 2.2 s, 5.9 s less"},
		{"states of no use", func(o *queue.Overview, _ *explainCmd) { o.Workers[1].StoppedPairs = []string{"spark-1"} }, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: mac-1 takes none from spark-1 any more"},
		{"prefill without states", func(o *queue.Overview, _ *explainCmd) {
			o.Workers[0].Fingerprint, o.Workers[0].NoState = nil, "no shim"
		}, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: no shim"},
		{"decode without states", func(o *queue.Overview, _ *explainCmd) {
			o.Workers[1].Fingerprint, o.Workers[1].NoState = nil, "no shim there"
			o.Workers = o.Workers[1:]
		}, "re-prefill: 8,000 tokens uncached, no KV state can be handed over: no shim there"},
		{"a queue there", func(o *queue.Overview, _ *explainCmd) {
			o.Models[0].Classes[1].Decode = queue.Depth{Waiting: 4, InFlight: 2}
		}, "whole on the prefill machine: 26.6 s"},
		{"a queue at another model", func(o *queue.Overview, _ *explainCmd) {
			o.Models[1].Classes = []queue.ClassStatus{{Decode: queue.Depth{Waiting: 100}}}
		}, "hand over: saves 4.8 s"},
		{"a queue here", func(o *queue.Overview, _ *explainCmd) { o.Models[0].Classes[0].Prefill = queue.Depth{Waiting: 20} }, "re-prefill: 8,000 tokens uncached, hand-over would cost 13.7 s more"},
		{"another worker is freer", func(o *queue.Overview, _ *explainCmd) {
			busy := o.Workers[0]
			busy.Busy, busy.Machine = 2, "spark-2"
			draining := o.Workers[0]
			draining.State, draining.Slots, draining.Machine = queue.StateDraining, 9, "spark-3"
			foreign := o.Workers[0]
			foreign.Model, foreign.Slots, foreign.Machine = "n", 9, "spark-4"
			o.Workers = append([]queue.Presence{busy, draining, foreign}, o.Workers...)
		}, "hand over: saves 4.8 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, c := hall(), explainCmd{Tokens: 8000}
			tt.change(o, &c)
			p := scene{explainCmd: &c, Model: "m"}
			if err := p.look(o); err != nil {
				t.Fatal(err)
			}
			d := engine.Decide(p.ask(c.Tokens, c.CachedPrefill, c.CachedDecode, c.CacheType))
			if got := d.String(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("decision %q, want %q…", got, tt.want)
			}
			if p.prefill != nil && p.prefill.Machine != "spark-1" {
				t.Errorf("asked about %s", p.prefill.Machine)
			}
		})
	}
}

func TestExplainWhatIsMeasured(t *testing.T) {
	p := scene{explainCmd: &explainCmd{Tokens: 8000}, Model: "m"}
	if err := p.look(hall()); err != nil {
		t.Fatal(err)
	}
	even, pays := p.crossover()
	if even < 50 || even > 100 || pays < 200 || pays > 350 { // 0.55 ms saved of each token, 40 ms lost at once
		t.Errorf("breaks even at %d tokens, pays from %d", even, pays)
	}
	rows := p.rows()
	if len(rows) != 7 || rows[4].CacheType != "q8_0" || rows[4].StateBytes != 819200000 || !rows[4].Pays {
		t.Errorf("rows %+v", rows)
	}
	p.decoding, p.prefilling = 100, 100
	if q := p.ask(8000, 0, 0, ""); q.QueueDecode < time.Minute || q.QueuePrefill < time.Minute {
		t.Errorf("waits %v and %v", q.QueueDecode, q.QueuePrefill)
	}
	if busyEven, busyPays := p.crossover(); busyEven != even || busyPays != pays {
		t.Errorf("a crossover of %d and %d tokens while others wait, want %d and %d", busyEven, busyPays, even, pays)
	}
	if err := (&scene{explainCmd: &explainCmd{}, Model: "unheard"}).look(hall()); jobs.CodeOf(err) != jobs.CodeUnknownModel || !strings.Contains(err.Error(), "known are m, n") {
		t.Errorf("error %v", err)
	}
}
