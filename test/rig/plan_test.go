package rig

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSameSeedSamePlan(t *testing.T) {
	for _, shape := range []Shape{NoopStorm(1), NoopStorm(0.1), RealStorm(1)} {
		plan, same, other := NewPlan(7, shape), NewPlan(7, shape), NewPlan(8, shape)
		if !reflect.DeepEqual(plan, same) { // cmp would take long for so many jobs
			t.Errorf("two plans of one seed differ:\n%s", cmp.Diff(plan, same))
		}
		if reflect.DeepEqual(plan.Batches, other.Batches) {
			t.Error("two seeds have the same jobs")
		}
		if reflect.DeepEqual(plan.Actions, other.Actions) {
			t.Error("two seeds have the same faults")
		}
	}
}

func TestPlanHasWhatItsShapeAsksFor(t *testing.T) {
	for _, share := range []float64{1, 0.1} {
		shape := NoopStorm(share)
		p := NewPlan(3, shape)
		if n := p.Jobs(); n != shape.Jobs {
			t.Errorf("share %v: %d jobs, want %d", share, n, shape.Jobs)
		}
		want := map[string]int{
			Kill: shape.Kills, Freeze: shape.Freezes, Engine: shape.EngineKills, Caller: shape.CallerKills, Stun: shape.Stuns, Wire: shape.Wires, Answer: shape.BadAnswers,
			NATS: (shape.NATSKills + 1) / 2, Stop: shape.NATSKills / 2,
		}
		have, steps, markers := map[string]int{}, map[Step]bool{}, map[string]bool{}
		for _, a := range p.Actions {
			have[a.What]++
			if a.What == Kill {
				steps[a.Step] = true
			}
			if a.What == Answer {
				if _, known := answers[a.How]; !known {
					t.Errorf("no engine answers %q", a.How)
				}
			}
			if a.After > p.Jobs() {
				t.Errorf("%s strikes after %d jobs, and there are %d", a, a.After, p.Jobs())
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("share %v: faults (-want +have):\n%s", share, diff)
		}
		for _, step := range append(slices.Clone(Steps), Anywhere) {
			if !steps[step] {
				t.Errorf("share %v: no worker is killed %s", share, step)
			}
		}
		cancels := 0
		for _, b := range p.Batches {
			for _, j := range b.Jobs {
				if markers[j.Marker] || markerOf([]byte(j.Prompt)) != j.Marker {
					t.Errorf("marker %s is there twice, or not in its prompt", j.Marker)
				}
				markers[j.Marker] = true
				if j.Cancel {
					cancels++
				}
			}
		}
		if cancels == 0 || cancels > shape.Cancels {
			t.Errorf("share %v: %d jobs are cancelled, want about %d", share, cancels, shape.Cancels)
		}
		if !slices.IsSortedFunc(p.Actions, func(a, b Action) int { return a.After - b.After }) {
			t.Error("faults are not in the order in which they strike")
		}
	}
}

func TestEachWireIsSpoiltInEachWay(t *testing.T) {
	for name, shape := range map[string]Shape{
		"noop": NoopStorm(1), "noop, less": NoopStorm(0.1), "real": RealStorm(1), "real, less": RealStorm(0.1), "cluster": ClusterStorm(1), "cluster, less": ClusterStorm(0.1),
	} {
		pairs, spoilt := map[string]bool{}, map[string]bool{}
		for _, a := range NewPlan(3, shape).Actions {
			if a.What == Wire {
				pairs[a.Where+", "+a.How], spoilt[a.Where] = true, true
				if (a.Step == InSend) != (a.Where == StateWire) {
					t.Errorf("%s: %s", name, a)
				}
			}
		}
		if want := min(shape.Wires, len(shape.Spoilt)*len(wireHows)); len(pairs) != want {
			t.Errorf("%s: %d different faults of wires, want %d", name, len(pairs), want)
		}
		for _, where := range shape.Spoilt {
			if !spoilt[where] {
				t.Errorf("%s: the wire %q is never spoilt", name, where)
			}
		}
	}
}

func TestPrintedPlanShowsNoPrompt(t *testing.T) {
	p := NewPlan(5, NoopStorm(0.1))
	var out bytes.Buffer
	if err := p.Print(&out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1+len(p.Batches)+len(p.Actions) {
		t.Errorf("%d lines for %d batches and %d faults", lines, len(p.Batches), len(p.Actions))
	}
	if strings.Contains(out.String(), "Review:") {
		t.Error("a prompt is printed")
	}
}
