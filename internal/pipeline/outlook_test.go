package pipeline_test

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// two are a prefill and a decode worker that see one another. The prefill machine computes 4,000 tokens of a prompt a second and generates 70, the
// decode machine 2,000 and 100; answers have 600 tokens, and a KV state of 10,000 tokens moves in a second.
type two struct {
	prefill, decode *pipeline.Stage
	running         map[string][]protocol.Running
	noStates        string
}

func newTwo(t *testing.T) *two {
	w := &two{running: map[string][]protocol.Running{}}
	rates := map[string]*engine.Rates{"p": {}, "d": {}}
	for id, perSecond := range map[string][2]int{"p": {4000, 70}, "d": {2000, 100}} {
		for _, n := range []int{100, 1000, 2000, 4000, 8000, 16000, 32000} {
			rates[id].ObservePrefill(n, n, n, 1, time.Duration(n)*time.Second/time.Duration(perSecond[0]))
			rates[id].ObserveDecode(n, 600, 1, 600*time.Second/time.Duration(perSecond[1]))
		}
	}
	rates["p"].ObserveSave(10_000, 1e9, 0, 200*time.Millisecond)
	rates["d"].ObserveLink("mp", 1e9, time.Second)
	rates["d"].ObserveRestore(1e9, 200*time.Millisecond, 10*time.Millisecond)
	about := newRig(t).about
	peer := func(id string, role jobs.Stage) engine.Peer {
		return engine.Peer{Worker: id, Role: role, Machine: "m" + id, Slots: 1, Rates: rates[id].With(about.KVTransfer), Running: w.running[id], NoStates: w.noStates}
	}
	stage := func(id, other string, role, otherRole jobs.Stage) *pipeline.Stage {
		r := newRig(t)
		return pipeline.New(pipeline.Config{
			Engine: r.engine, Server: "m" + id + "/" + id, Rates: rates[id], Log: slog.New(slog.DiscardHandler), Role: role,
			About: func() engine.Description { return r.about }, Holder: r.holder, Fetcher: r.fetcher, Pairs: r.pairs,
			Workers: func() []engine.Peer { return []engine.Peer{peer(other, otherRole)} }, NoStates: func() string { return w.noStates },
		})
	}
	w.prefill = stage("p", "d", protocol.RolePrefill, protocol.RoleDecode)
	w.decode = stage("d", "p", protocol.RoleDecode, protocol.RolePrefill)
	return w
}

func head(tokens int) *jobs.Job {
	return &jobs.Job{ID: jobs.NewID(), Model: "m", Class: jobs.Batch, Plan: jobs.PlanAuto, Prompt: strings.Repeat("x", tokens)}
}

// While decode has enough to do, the prefill worker does whole requests itself; a decode worker with nothing to go on from takes some, too.
func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name          string
		change        func(w *two)
		tokens        int
		intake, relay int
		prefill       string // what it says, or nothing if it leaves the job
		decode        string
	}{
		{"decode has nothing, and the first KV state comes soon", func(w *two) { w.running["d"] = []protocol.Running{{EndsSeconds: 1, Relayed: true}} }, 10_000, 60, 0, "hand over", ""},
		{"decode has plenty", func(w *two) { w.running["d"] = []protocol.Running{{EndsSeconds: 6, Relayed: true}} }, 10_000, 60, 4, "whole on the prefill machine", ""},
		{"prefill has 20 s to do", func(w *two) { w.running["p"] = []protocol.Running{{EndsSeconds: 20}} }, 10_000, 60, 0, "", "whole on the decode machine"},
		{"a KV state is about to come", func(w *two) { w.running["p"] = []protocol.Running{{EndsSeconds: 0.1, HandsOver: true}} }, 10_000, 60, 0, "", ""},
		{"the last job, which the other is about to fetch", func(w *two) {
			w.running["d"] = []protocol.Running{{EndsSeconds: 9, Expected: true}}
		}, 10_000, 1, 0, "", ""},
		{"the last job, and the other has just fetched what it was about to", func(w *two) {
			w.running["d"] = []protocol.Running{{EndsSeconds: 9, Expected: true, Place: protocol.Place{Sequence: 5}}}
		}, 10_000, 1, 0, "whole on the prefill machine", ""},
		{"the last job, which the other is about to fetch indeed", func(w *two) {
			w.running["d"] = []protocol.Running{{EndsSeconds: 9, Expected: true, Place: protocol.Place{Sequence: 6}}}
		}, 10_000, 1, 0, "", ""},
		{"no states are taken", func(w *two) { w.noStates = "the two engines differ" }, 10_000, 60, 0, "whole on the prefill machine", "whole on the decode machine"},
		{"the last job, which the decode machine would end sooner", func(w *two) {
			w.noStates = "the two engines differ"
			w.running["d"] = []protocol.Running{{EndsSeconds: 0.2}}
		}, 1000, 1, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTwo(t)
			if tt.change != nil {
				tt.change(w)
			}
			for _, side := range []struct {
				stage *pipeline.Stage
				id    string
				want  string
			}{{w.prefill, "p", tt.prefill}, {w.decode, "d", tt.decode}} {
				if len(w.running[side.id]) > 0 {
					continue // it has no free slot
				}
				got := side.stage.Next(protocol.Backlog{Head: head(tt.tokens), Intake: tt.intake, Relay: tt.relay, Fetched: [protocol.Lanes]uint64{5}})
				if got.Take != (side.want != "") || !strings.HasPrefix(got.Why, side.want) {
					t.Errorf("%s says %+v, want %q", side.id, got, side.want)
				}
				if !got.Take && got.Again <= 0 {
					t.Errorf("%s leaves the job and never looks again", side.id)
				}
			}
		})
	}
}

// Two free workers never both leave a job to the other, whatever waits.
func TestNextIsTakenBySomebody(t *testing.T) {
	for _, noStates := range []string{"", "the two engines differ"} {
		for _, tokens := range []int{100, 1000, 10_000, 30_000} {
			for intake := 1; intake < 6; intake++ {
				t.Run(fmt.Sprintf("%d tokens, %d jobs, states %t", tokens, intake, noStates == ""), func(t *testing.T) {
					w := newTwo(t)
					w.noStates = noStates
					b := protocol.Backlog{Head: head(tokens), Intake: intake}
					if !w.prefill.Next(b).Take && !w.decode.Next(b).Take {
						t.Error("nobody takes it")
					}
				})
			}
		}
	}
}

// A job that is looked at again before it is here counts once in what the worker is about to do.
func TestNextAgain(t *testing.T) {
	for _, id := range []string{"p", "d"} {
		w := newTwo(t)
		stage, b := map[string]*pipeline.Stage{"p": w.prefill, "d": w.decode}[id], protocol.Backlog{Head: head(10_000), Intake: 60}
		first := stage.Next(b)
		said := stage.Running()
		again := stage.Next(b)
		if !first.Take || !again.Take || len(said) != 1 {
			t.Fatalf("%s says %+v and %+v, and is at %+v", id, first, again, said)
		}
		if now := stage.Running(); len(now) != 1 || math.Abs(now[0].EndsSeconds-said[0].EndsSeconds) > 0.1 {
			t.Errorf("%s is at %+v after a second look, and was at %+v before", id, now, said)
		}
	}
}

// Others hear which shared prefix a slot will hold while that is still computed, or they would think that the next job has to compute it again.
func TestRunningNamesItsPrefix(t *testing.T) {
	w := newTwo(t)
	j := head(10_000)
	j.SharedPrefix = 4000
	w.decode.Next(protocol.Backlog{Head: j, Intake: 60})
	if said, want := w.decode.Running(), engine.PrefixKey(engine.RequestOf(j)); want == "" || len(said) != 1 || said[0].Prefix != want {
		t.Errorf("it is at %+v, want the prefix %q", said, want)
	}
}

// The first job of a class, the longest, says that those behind it are shorter.
func TestWhatFollows(t *testing.T) {
	foretold := func(f jobs.Following) (seconds float64) {
		j := head(40_000)
		j.Following = f
		why := newTwo(t).prefill.Next(protocol.Backlog{Head: j, Intake: 60}).Why
		_, rest, _ := strings.Cut(why, "will have ended in ")
		if _, err := fmt.Sscanf(rest, "%f s", &seconds); err != nil {
			t.Fatalf("it says %q: %v", why, err)
		}
		return seconds
	}
	unsaid, said := foretold(jobs.Following{Jobs: 59}), foretold(jobs.Following{Jobs: 59, PromptBytes: 59 * 400, AnswerTokens: 59 * 60})
	if said > unsaid/3 {
		t.Errorf("59 short jobs behind a long one will have ended in %.1f s, and if they were as long in %.1f s", said, unsaid)
	}
}
