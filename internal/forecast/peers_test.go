package forecast

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

func TestDecodePeer(t *testing.T) {
	ours := jobs.Fingerprint{Model: "m", CacheK: "q8_0", CacheV: "q8_0", Streams: 1}
	other := ours
	other.Streams = 4
	renamed := ours
	renamed.Build = "b2"
	measured := protocol.Rates{GeneratedTokens: 300}
	for name, tt := range map[string]struct {
		change func(p *queue.Presence)
		ours   *jobs.Fingerprint
		want   string // why no states; empty if they are of use
		called jobs.Failure
	}{
		"as it should be":              {func(*queue.Presence) {}, &ours, "", ""},
		"we write none":                {func(*queue.Presence) {}, nil, "the prefill engine writes none", jobs.FailNoState},
		"it takes none":                {func(p *queue.Presence) { p.Fingerprint, p.NoState = nil, "no shim" }, &ours, "the engine of mac takes none: no shim", jobs.FailNoState},
		"it takes none of ours":        {func(p *queue.Presence) { p.StoppedPairs = []string{"x", "spark"} }, &ours, "mac takes none from spark any more", jobs.FailStopped},
		"it takes none of another's":   {func(p *queue.Presence) { p.StoppedPairs = []string{"x"} }, &ours, "", ""},
		"it differs":                   {func(p *queue.Presence) { p.Fingerprint = &other }, &ours, "the two engines differ: cache streams: 4 here, 1 on the prefill machine", jobs.FailFingerprint},
		"it names its build otherwise": {func(p *queue.Presence) { p.Fingerprint = &renamed }, &ours, "", ""},
		"it is strict about names":     {func(p *queue.Presence) { p.Fingerprint, p.Strict = &renamed, true }, &ours, "the two engines differ: llama.cpp build: b2 here, unknown on the prefill machine", jobs.FailFingerprint},
		"it is not checked yet":        {func(p *queue.Presence) { p.Check = nil }, &ours, "", ""},
		"it predicts other tokens":     {func(p *queue.Presence) { p.Check = predicts(2, 0) }, &ours, "after the same 1 prompts, each computed by itself, spark and mac predict tokens 1.000 apart", jobs.FailDiffer},
		"it contradicts itself":        {func(p *queue.Presence) { p.Check = predicts(1, 0.5) }, &ours, "after the same 1 prompts", jobs.FailDiffer},
	} {
		t.Run(name, func(t *testing.T) {
			there := ours
			p := queue.Presence{Machine: "mac", Slots: 4, Busy: 1, Fingerprint: &there, Check: predicts(1, 0), Rates: measured, Prefixes: map[string]int{"k": 7}}
			tt.change(&p)
			got := DecodePeer(p, Writer{Machine: "spark", Fingerprint: tt.ours, Check: predicts(1, 0)})
			if (got.NoStates == "") != (tt.want == "") || got.NoStates != "" && got.Failure != tt.called || !strings.HasPrefix(got.NoStates, tt.want) {
				t.Errorf("no states because %q (%s), want %q (%s)", got.NoStates, got.Failure, tt.want, tt.called)
			}
			got.NoStates, got.Failure, got.CacheType = "", "", ""
			want := engine.Peer{Machine: "mac", Slots: 4, Busy: 1, Rates: measured, Prefixes: map[string]int{"k": 7}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("peer (-want +got):\n%s", diff)
			}
		})
	}
}

// predicts is the check of an engine that is certain of a token.
func predicts(token int, itself float64) *protocol.Check {
	return &protocol.Check{Predictions: []map[int]float64{{token: 0}}, Cached: itself}
}

func TestPeers(t *testing.T) {
	print := jobs.Fingerprint{Model: "m", CacheK: "f16"}
	other := print
	other.Streams = 4
	worker := func(id string, role jobs.Stage, model, state string, f *jobs.Fingerprint) queue.Presence {
		return queue.Presence{Worker: id, Role: role, Model: model, State: state, Machine: "of " + id, Fingerprint: f}
	}
	got := Peers([]queue.Presence{
		worker("d", protocol.RoleDecode, "m", queue.StateReady, &print), worker("e", protocol.RoleDecode, "m", queue.StateReady, &other),
		worker("gone", protocol.RoleDecode, "m", queue.StateDraining, &print), worker("foreign", protocol.RolePrefill, "n", queue.StateReady, &other),
		worker("p", protocol.RolePrefill, "m", queue.StateLoading, &print),
	}, "m")
	var list []string
	for _, p := range got {
		list = append(list, p.Worker+" "+p.NoStates)
	}
	if len(list) != 3 || list[0] != "d " || !strings.HasPrefix(list[1], "e the two engines differ: cache streams: 4 here, 0 ") || list[2] != "p " {
		t.Errorf("peers %q", list)
	}
}
