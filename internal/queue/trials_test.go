package queue

import (
	"errors"
	"testing"
	"time"
)

// The last trial of each pair of machines is there for whoever looks; a grader's account neither keeps nor reads any.
func TestTrials(t *testing.T) {
	r := newRig(t)
	if list, err := r.Trials(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("before the first: %v, %v", list, err)
	}
	at := time.Date(2026, 3, 4, 15, 6, 0, 0, time.UTC)
	for i, one := range []Trial{{Prefill: "spark 1", Decode: "mac.2"}, {Prefill: "spark 1", Decode: "mac 1"}, {Prefill: "spark 1", Decode: "mac.2"}} {
		one.Model, one.At, one.Lengths = "qwen3-coder:30b", at.Add(time.Duration(i)*time.Hour), []TrialLength{{Tokens: 500 * (i + 1), WholeSeconds: 3, PrefillSeconds: 1, MoveSeconds: 0.5}}
		if err := r.KeepTrial(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{`{"model": 7}`, `{}`, `no JSON`} { // of another version
		if _, err := r.js.Publish(t.Context(), "$KV."+BucketTrials+".other."+time.Now().Format("150405.000000000"), []byte(other)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.Trials(t.Context())
	if err != nil || len(list) != 2 || list[0].Decode != "mac.2" || list[0].Lengths[0].Tokens != 1500 || list[1].Decode != "mac 1" {
		t.Errorf("trials %+v, %v; want the last one of each pair, newest first", list, err)
	} else if saved := list[0].Lengths[0].SavedSeconds(); saved != 1.5 {
		t.Errorf("it saves %g s, want 1.5", saved)
	}
	grader := &Conn{grader: true}
	if err := grader.KeepTrial(t.Context(), Trial{}); !errors.Is(err, ErrNotKept) {
		t.Errorf("a grader keeps a trial: %v", err)
	}
	if list, err := grader.Trials(t.Context()); err != nil || list != nil {
		t.Errorf("a grader reads %v, %v", list, err)
	}
}
