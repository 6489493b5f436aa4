package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
	"tandem/test/rig/host"
	"tandem/test/rig/netns"
)

// TestFourHosts: whatever becomes of the network, every job that was accepted ends once, with the right text, and the grader is told.
func TestFourHosts(t *testing.T) {
	if err := netns.Possible(); err != nil {
		t.Skip(err)
	}
	began := time.Now()
	tandem, err := host.Build(t.Context(), shared(t), host.BuildOptions{Only: []string{"submitter", "prefill-worker", "decode-worker", "nats-server"}})
	if err != nil {
		t.Fatal(err)
	}
	spec := tinymodel.Tiny(tinymodel.BPE)
	t.Logf("built after %.1f s", time.Since(began).Seconds())
	weights, err := os.ReadFile(standintest.ModelFile(t, spec)) // in a cache where only its owner may look
	file := filepath.Join(shared(t), "model.gguf")
	if err := errors.Join(err, os.WriteFile(file, weights, 0o644)); err != nil {
		t.Fatal(err)
	}
	p := programs{
		tandem: tandem, llama: standintest.Engines(t).LlamaServer, model: file,
		right: &reference{url: standintest.StartLlamaServer(t, spec, "--jinja"), known: map[string][]string{}},
	}
	for _, scenario := range []struct {
		name string
		run  func(*system)
	}{
		{"all well", allWell},
		{"prefill and decode cut off from each other", handoverCut},
		{"prefill's cable pulled in a batch", prefillPulled},
		{"decode cut off from NATS in mid decode", decodeCut},
		{"the queue's cable pulled in a batch", queuePulled},
		{"grader's cable pulled while it waits", graderPulled},
		{"slow way from prefill", slowWay},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.run(newSystem(t, p))
		})
	}
}

func allWell(s *system) {
	if p := s.presence(s.dgx); p.StatesKey == "" {
		s.Error("dgx offers its KV states without TLS")
	}
	results, took := s.submit("well", 8, short).finish()
	for _, r := range results {
		handedOver(s, r)
	}
	s.once(len(results))
	s.Logf("%d jobs took %.1f s; a state of %d bytes moved in %.0f ms", len(results), took.Seconds(), results[0].Handover.Bytes, results[0].Timings.TransferSeconds*1000)
}

// handedOver fails the test unless the state of a job went from dgx to mac2 and was used.
func handedOver(s *system, r *jobs.Result) {
	s.Helper()
	if r.Method != jobs.MethodDisaggregated || r.Usage.HandedOver == 0 || r.Handover == nil || r.Handover.Failure != "" || !by(r.Servers.Prefill, s.dgx) || !by(r.Servers.Decode, s.mac2) {
		s.Errorf("job %s: %s by %+v, handed over %d, report %+v; want a hand-over from dgx to mac2", r.CustomID, r.Method, r.Servers, r.Usage.HandedOver, r.Handover)
	}
}

// by reports whether a server of a result is the worker of a host.
func by(server string, h *netns.Host) bool { return strings.HasPrefix(server, h.Name()+"/") }

// handoverCut: where only the hand-over is impossible, the prompt is computed again, and the result says why.
func handoverCut(s *system) {
	s.done(s.dgx.Unplug(s.ctx, s.mac2))
	results, took := s.submit("cut", 6, short).finish()
	for _, r := range results {
		if r.Method != jobs.MethodDisaggregated || r.Usage.HandedOver != 0 || r.Handover == nil || r.Handover.Failure != jobs.FailUnreachable || !strings.Contains(r.Decision, r.Handover.Message) {
			s.Errorf("job %s: %s, report %+v, decision %s; want that the state could not be reached", r.CustomID, r.Method, r.Handover, r.Decision)
		}
	}
	s.Logf("%d jobs without a way for their states took %.1f s", len(results), took.Seconds())
	s.done(s.dgx.Plug(s.ctx, s.mac2))
	after, _ := s.submit("plugged", 2, short).finish()
	for _, r := range after {
		handedOver(s, r)
	}
	s.once(len(results) + len(after))
}

// prefillPulled: what dgx had in hand is done elsewhere, and when dgx is back it works again and does nothing a second time.
func prefillPulled(s *system) {
	b := s.submit("pulled", 8, short)
	b.results(1)
	s.done(s.prefillEngine.Freeze()) // so that it has a job in hand
	s.held(queue.StreamIntake, 1)
	before := len(b.stored())
	s.done(s.dgx.Down(s.ctx))
	pulled := time.Now()
	s.done(s.prefillEngine.Thaw())
	gone := s.gone(s.dgx)
	results, _ := b.finish()
	var ends []string
	fallbacks := 0
	for _, r := range results {
		if after := r.FinishedAt.Sub(pulled); after > 0 {
			ends = append(ends, fmt.Sprintf("%s %.1f s", r.Method, after.Seconds()))
		}
		if r.Method == jobs.MethodFallback {
			fallbacks++
			if !slices.Contains(r.Warnings, jobs.WarnFallback) || !by(r.Servers.Decode, s.mac2) {
				s.Errorf("job %s: warnings %q, servers %+v", r.CustomID, r.Warnings, r.Servers)
			}
		}
	}
	if fallbacks == 0 {
		s.Error("no job was done as fallback")
	}
	s.Logf("%d of %d jobs had results; cable pulled → presence gone %.1f s; the others ended: %s", before, len(results), gone.Seconds(), strings.Join(ends, ", "))

	s.done(s.dgx.Up(s.ctx))
	back := s.back(s.dgx)
	again, _ := s.submit("again", 4, short).finish()
	if !slices.ContainsFunc(again, func(r *jobs.Result) bool { return by(r.Servers.Prefill, s.dgx) }) {
		s.Error("dgx does not work again")
	}
	s.Logf("cable back → presence %.1f s", back.Seconds())
	s.once(len(results) + len(again))
}

// decodeCut: a job whose worker loses NATS in mid decode, for longer than NATS waits for a sign of life, ends once.
func decodeCut(s *system) {
	b := s.submit("decode", 6, 900)
	s.eventually("mac2 generates", func() error {
		if s.generated(s.mac2) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	s.done(s.decoding.Freeze())
	s.held(queue.StreamRelay, 1)
	before := len(b.stored())
	s.done(s.mac2.Unplug(s.ctx, s.mac))
	cut := time.Now()
	s.done(s.decoding.Thaw())
	<-time.After(queue.DefaultTiming().AckWait + time.Second) // as long as the fault is to last
	gone := s.gone(s.mac2)
	s.eventually("mac2 has generated the text", func() error {
		if n := s.generated(s.mac2); n > 0 {
			return fmt.Errorf("%d tokens so far", n)
		}
		return nil
	})
	if now := len(b.stored()); now != before {
		s.Errorf("%d results were stored while mac2 was cut off", now-before)
	}
	s.done(s.mac2.Plug(s.ctx, s.mac))
	healed := time.Now()
	b.results(before + 1)
	first := time.Since(healed)
	results, took := b.finish()
	most := 0
	for _, r := range results {
		most = max(most, r.Attempts.Decode)
	}
	s.Logf("cut off with %d results for %.1f s (and %.1f s more until the presence was gone); back → next result %.1f s, all %.1f s; at most %d attempts",
		before, healed.Sub(cut).Seconds(), gone.Seconds(), first.Seconds(), (first + took).Seconds(), most)
	s.once(len(results))
}

// queuePulled: where nobody reaches NATS for a while, each goes on with what it has, and all is done when NATS is back.
func queuePulled(s *system) {
	b := s.submit("queue", 8, short)
	b.results(1)
	s.done(s.decoding.Freeze()) // so that both workers have a job in hand
	s.held(queue.StreamRelay, 1)
	before := len(b.stored())
	s.done(s.mac.Down(s.ctx))
	pulled := time.Now()
	s.done(s.decoding.Thaw())
	s.gone(s.dgx)
	s.gone(s.mac2)
	out := time.Since(pulled)
	s.done(s.mac.Up(s.ctx))
	results, took := b.finish()
	s.Logf("cable pulled with %d results for %.1f s; back → all %d results %.1f s", before, out.Seconds(), len(results), took.Seconds())
	s.once(len(results))
}

// graderPulled: who waits while the network is gone, and whom NATS has forgotten meanwhile, gets every result when it is back.
func graderPulled(s *system) {
	b := s.submit("grader", 8, short)
	b.results(1)
	s.done(s.decoding.Freeze()) // so that there is something to wait for
	s.done(s.grader.Down(s.ctx))
	pulled := time.Now()
	s.done(s.decoding.Thaw())
	b.results(8)
	s.done(s.mac.Reset(s.ctx, s.grader))
	select {
	case <-b.submitter.Exited():
		s.Fatal("the submitter has ended with the cable pulled")
	default:
	}
	out := time.Since(pulled)
	s.done(s.grader.Up(s.ctx))
	results, took := b.finish()
	s.Logf("cable pulled for %.1f s; back → the grader has %d results %.1f s", out.Seconds(), len(results), took.Seconds())
	s.once(len(results))
}

// slowWay: a state that takes its time is used all the same, and the result says that it was slow.
func slowWay(s *system) {
	s.done(s.dgx.Rate(s.ctx, 150_000))
	results, took := s.submit("slow", 6, short).finish()
	slow := 0
	for _, r := range results {
		handedOver(s, r)
		transfer := time.Duration(r.Timings.TransferSeconds * float64(time.Second))
		if transfer > protocol.SlowTransferAfter {
			slow++
			if !slices.Contains(r.Warnings, protocol.SlowTransferWarning(transfer)) {
				s.Errorf("job %s: warnings %q of a transfer of %v", r.CustomID, r.Warnings, transfer)
			}
		}
	}
	if slow == 0 {
		s.Error("no transfer was slow")
	}
	s.Logf("%d of %d transfers were slow, the first with %.1f s for %d bytes; %.1f s in all", slow, len(results), results[0].Timings.TransferSeconds, results[0].Handover.Bytes, took.Seconds())
	s.done(s.dgx.Rate(s.ctx, 0))
	s.once(len(results))
}
