package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestRatesPredictFromWhatWasMeasured(t *testing.T) {
	var r engine.Rates
	if got := r.PrefillTime(0); got != 10*time.Second {
		t.Errorf("shortest prediction %v, want 10 s", got)
	}
	const tokens, bytes = 2896, 4 * 2896 // the middle of a length
	cold := r.PrefillTime(bytes)
	r.ObservePrefill(bytes, tokens, tokens, 1, tokens*10*time.Millisecond) // 4 bytes a token, 100 tokens a second
	near := func(got, want time.Duration) bool { return (got - want).Abs() < want/100 }
	if got := r.PrefillTime(bytes); !near(got, 28960*time.Millisecond) || cold <= got {
		t.Errorf("prediction %v, cold %v; want 29 s, and a more cautious one before", got, cold)
	}
	r.ObservePrefill(400, 100, 1, 1, time.Hour) // nearly all cached: says nothing of the speed
	if got := r.PrefillTime(bytes); !near(got, 28960*time.Millisecond) {
		t.Errorf("prediction %v after a cached prompt, want 29 s still", got)
	}
	// A prompt of 32k tokens is computed at a third of the speed by a Mac, which no worker knows that has measured short ones only.
	if got := r.PrefillTime(11 * bytes); got < 2*11*28960*time.Millisecond {
		t.Errorf("prediction %v for a prompt eleven times as long, want at least twice eleven times 29 s", got)
	}
	if got := r.Tokens(4000); got != 1000 {
		t.Errorf("4,000 bytes are %d tokens, want 1000", got)
	}
}

func TestRatesAverage(t *testing.T) {
	var r engine.Rates
	r.ObservePrefill(3000, 1000, 1000, 1, time.Second)
	r.ObservePrefill(4500, 1000, 1000, 1, 500*time.Millisecond)
	r.ObservePrefill(9000, 3000, 3000, 1, 2*time.Second)
	r.ObserveDecode(1000, 100, 1, time.Second)
	r.ObserveAnswer("", -1, 100)
	r.ObserveDecode(1000, 1, 1, time.Nanosecond) // no rate
	r.ObserveAnswer("", -1, 1)
	r.ObserveDecode(40_000, 50, 1, time.Second)
	r.ObserveAnswer("", -1, 50)
	r.ObserveJob(3 * time.Second)
	r.ObserveSave(1000, 3e6, 1e6, time.Millisecond)
	r.ObserveSave(1000, 1000, 0, time.Hour) // too small to tell how fast
	r.ObserveRestore(3e6, 2*time.Millisecond, 20*time.Millisecond)
	r.ObserveLink("spark-1", 3e6, 3*time.Millisecond)
	r.ObserveLink("spark-1", 3e6, 1500*time.Microsecond)
	r.ObserveLink("spark-2", 3e6, 30*time.Millisecond)
	r.ObserveLink("spark-3", 1000, time.Millisecond) // likewise, but it was used
	want := protocol.Rates{
		PrefillTokensPerSecond: 1260, DecodeTokensPerSecond: 90,
		PrefillByLength:       map[string]float64{"1k": 1200, "4k": 1500},
		PrefillTokensByLength: map[string]float64{"1k": 1000, "4k": 3000},
		DecodeByLength:        map[string]float64{"1k": 100, "more": 50},
		TokensByLength:        map[string]float64{"1k": 1000, "more": 40_000},
		PromptBytesPerToken:   3.24, GeneratedTokens: 74.16, JobSeconds: 3, StateBytesPerToken: 1600.2, StateFixedBytes: 0,
		SaveBytesPerSecond: 3e9, RestoreBytesPerSecond: 1.5e9, CheckSeconds: 0.02,
		LinkBytesPerSecond: map[string]float64{"spark-1": 1.2e9, "spark-2": 1e8, "spark-3": 1.1e9},
	}
	close := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) })
	if diff := cmp.Diff(want, r.Snapshot(), close); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
	s := engine.SpeedsOf("m", protocol.RoleDecode, want) // the speeds at the lengths that were measured
	if a, b, c := s.Prefill(1000, 0).Value, s.Prefill(3000, 0).Value, s.Decode(40_000).Value; !near(a, 1200) || !near(b, 1500) || !near(c, 50) {
		t.Errorf("speeds %v, %v and %v, want 1200, 1500 and 50", a, b, c)
	}
	before := r.Snapshot()
	r.ObserveLink("spark-1", 3e6, time.Second)
	r.ObservePrefill(3000, 1000, 1000, 1, time.Hour)
	if diff := cmp.Diff(want, before, close); diff != "" {
		t.Errorf("a snapshot changed afterwards (-want +got):\n%s", diff)
	}
}

// A machine that needs the longer for a token the more are before it: what it is foretold to take for the rest of a cached prompt, and for whole prompts of
// other lengths, it takes.
func TestPrefillBehindACachedPart(t *testing.T) {
	takes := func(cached, tokens float64) float64 { // 1 ms, and 0.2 µs for each before it
		return (tokens-cached)*1e-3 + (tokens*tokens-cached*cached)*1e-7
	}
	var r engine.Rates
	for _, c := range []struct{ cached, tokens int }{{0, 4500}, {4500, 7000}, {4500, 15_300}} {
		d := time.Duration(takes(float64(c.cached), float64(c.tokens)) * float64(time.Second))
		r.ObservePrefill(4*c.tokens, c.tokens, c.tokens-c.cached, 1, d)
	}
	s := engine.SpeedsOf("m", protocol.RoleDecode, r.Snapshot())
	for _, c := range []struct {
		cached, tokens int
		within         float64
	}{{0, 4500, 1e-6}, {4500, 7000, 1e-6}, {4500, 15_300, 1e-6}, {0, 7000, 0.02}, {0, 15_300, 0.02}, {7000, 9500, 0.02}} {
		got, want := float64(c.tokens-c.cached)/s.Prefill(c.tokens, c.cached).Value, takes(float64(c.cached), float64(c.tokens))
		if math.Abs(got/want-1) > c.within {
			t.Errorf("%d tokens, %d of them cached: foretold %.3f s, takes %.3f s", c.tokens, c.cached, got, want)
		}
	}
}

// What was measured counts, at the lengths beside it, too; what was not is published.
func TestSpeeds(t *testing.T) {
	cold := engine.SpeedsOf("gpt-oss:120b", protocol.RolePrefill, protocol.Rates{})
	if s := cold.Prefill(8192, 0); s.Measured || math.Abs(s.Value-2346.6) > 1 {
		t.Errorf("published prefill %+v, want 2346.6 tokens a second", s)
	}
	if s := cold.Decode(4096); s.Measured || s.Value != 55.7 {
		t.Errorf("published decoding %+v, want 55.7 tokens a second", s)
	}
	if s := cold.Decode(65536); s.Value >= cold.Decode(32768).Value || s.Value <= 0 {
		t.Errorf("decoding after 64k tokens %+v", s)
	}
	// Half as fast as published, at two lengths: so at all of them.
	half := protocol.Rates{PrefillByLength: map[string]float64{}}
	for i, length := range []string{"1k", "8k"} {
		n := []float64{512 * math.Sqrt2, 4096 * math.Sqrt2}[i]
		half.PrefillByLength[length] = cold.Prefill(int(n), 0).Value / 2
	}
	slow := engine.SpeedsOf("gpt-oss:120b", protocol.RolePrefill, half)
	for _, n := range []int{1, 100, 512, 724, 5793, 8192, 100_000} {
		got, want := slow.Prefill(n, 0), cold.Prefill(n, 0).Value/2
		if !got.Measured || math.Abs(got.Value-want) > want/100 {
			t.Errorf("%d tokens at %+v a second, want %v", n, got, want)
		}
	}
	// Between two lengths of which something was measured lies what lies between.
	between := engine.SpeedsOf("x", protocol.RoleDecode, protocol.Rates{PrefillByLength: map[string]float64{"512": 100, "2k": 200}})
	if got := between.Prefill(724, 0).Value; got <= 100 || got >= 200 {
		t.Errorf("%v tokens a second between 100 and 200", got)
	}
	// What others write of themselves is not believed blindly.
	odd := engine.SpeedsOf("gpt-oss:120b", protocol.RolePrefill, protocol.Rates{
		PrefillByLength: map[string]float64{"8k": -1, "4k": math.NaN(), "2k": math.Inf(1), "odd": 5}, SaveBytesPerSecond: -3,
		LinkBytesPerSecond: map[string]float64{"m": 0},
	})
	if odd.Prefill(8192, 0) != cold.Prefill(8192, 0) || odd.Save().Measured || odd.Link("m").Measured {
		t.Errorf("rates that are none were taken: %+v %+v %+v", odd.Prefill(8192, 0), odd.Save(), odd.Link("m"))
	}
}

// Other models are taken for dense ones of the size that their name gives.
func TestSpeedsOfOtherModels(t *testing.T) {
	at := func(model string) float64 {
		return engine.SpeedsOf(model, protocol.RolePrefill, protocol.Rates{}).Prefill(2048, 0).Value
	}
	base := at("unheard-of:latest")
	if base < 2000 || base > 2500 {
		t.Errorf("a model without a size: %v tokens a second", base)
	}
	for model, factor := range map[string]float64{
		"llama3.1:70b": 7.62 / 70, "phi-4-14B-Q8_0:latest": 7.62 / 14, "qwen2.5-coder:1.5b": 7.62 / 1.5, "mixtral:8x7b": 1, "a3b:latest": 1,
	} {
		if got := at(model); math.Abs(got-base*factor) > 1 {
			t.Errorf("%s at %v tokens a second, want %v", model, got, base*factor)
		}
	}
	if big, small := at("gpt-oss:120b"), at("gpt-oss:20b"); big == small || big < 2400 || small < 4000 {
		t.Errorf("gpt-oss at %v and %v tokens a second", big, small)
	}
	// More tokens never take less time, and never less room.
	for _, model := range []string{"gpt-oss:120b", "gpt-oss:20b", "qwen3-coder:30b", "x:13b"} {
		for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
			s := engine.SpeedsOf(model, role, protocol.Rates{})
			for n, before, size := 1, 0.0, 0.0; n < 200_000; n += 1 + n/50 {
				took, bytes := float64(n)/s.Prefill(n, 0).Value, s.StateBytes(n, "q8_0").Value
				if took <= before || bytes <= size || bytes >= s.StateBytes(n, "f16").Value {
					t.Fatalf("%s, %s: %d tokens take %v s and %v bytes, fewer took %v and %v", model, role, n, took, bytes, before, size)
				}
				if s.Decode(n).Value <= 0 || s.Decode(n).Value > s.Decode(1).Value {
					t.Fatalf("%s, %s: %v tokens a second after %d", model, role, s.Decode(n), n)
				}
				before, size = took, bytes
			}
		}
	}
}

// subject is what rates are of, if no more is known of it than the model's digest.
func subject(digest func() string) func() engine.Subject {
	return func() engine.Subject { return engine.Subject{ModelDigest: digest()} }
}

// keep has rates kept, and returns what ends that.
func keep(t *testing.T, r *engine.Rates, path string, digest func() string, log *slog.Logger) (stop func()) {
	return keepOf(t, r, path, subject(digest), log)
}

func keepOf(t *testing.T, r *engine.Rates, path string, about func() engine.Subject, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Keep(ctx, path, about, time.Minute, log)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// kept is what a run with the model finds in the file.
func kept(t *testing.T, path, digest string) protocol.Rates {
	var r engine.Rates
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Keep(ctx, path, subject(func() string { return digest }), time.Minute, slog.New(slog.DiscardHandler))
	return r.Snapshot()
}

func TestRatesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state", "rates.json")
		log, said := logged()
		var r engine.Rates
		var model atomic.Value
		model.Store("")
		digest := func() string { return model.Load().(string) }
		stop := keep(t, &r, path, digest, log)
		r.ObserveJob(time.Second)
		<-time.After(2 * time.Minute) // of the bubble
		synctest.Wait()
		if _, err := os.Stat(path); err == nil {
			t.Error("a file was written before the model was known")
		}
		model.Store("digest-a")
		r.ObservePrefill(3000, 1000, 1000, 1, time.Second)
		<-time.After(time.Minute)
		synctest.Wait()
		if got := kept(t, path, "digest-a"); got.PrefillByLength["1k"] != 1000 || got.JobSeconds != 1 {
			t.Errorf("kept %+v", got)
		}
		r.ObserveLink("spark-1", 1e9, time.Second)
		stop()
		if diff := cmp.Diff(r.Snapshot(), kept(t, path, "digest-a")); diff != "" {
			t.Errorf("after the end (-measured +kept):\n%s", diff)
		}
		if got := kept(t, path, "digest-b"); !cmp.Equal(got, protocol.Rates{}) {
			t.Errorf("rates of another model: %+v", got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file's mode: %v, %v", info, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
			t.Errorf("left beside it: %v", left)
		}

		// The next run measures something before it knows its model, and then another model takes its place.
		var next engine.Rates
		model.Store("")
		stop = keep(t, &next, path, digest, log)
		synctest.Wait()
		next.ObserveLink("spark-1", 5e8, time.Second)
		next.ObserveLink("spark-2", 5e8, time.Second)
		model.Store("digest-a")
		<-time.After(time.Minute)
		synctest.Wait()
		if got := next.Snapshot(); got.PrefillByLength["1k"] != 1000 || !cmp.Equal(got.LinkBytesPerSecond, map[string]float64{"spark-1": 5e8, "spark-2": 5e8}) {
			t.Errorf("with what was kept: %+v", got)
		}
		model.Store("digest-b")
		<-time.After(time.Minute)
		synctest.Wait()
		if got := next.Snapshot(); !cmp.Equal(got, protocol.Rates{}) {
			t.Errorf("with another model: %+v", got)
		}
		stop()
		if said.Len() > 0 {
			t.Errorf("logged: %s", said)
		}
	})
}

func TestRatesOfASpoiltFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty": "", "cut": `{"v":1,"model_digest":"d","rates":{"pre`, "other": `[1,2]`, "text": "hello",
		"large": `{"v":1,"model_digest":"d"` + strings.Repeat(" ", 1<<20) + "}",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		log, said := logged()
		var r engine.Rates
		r.ObserveLink("m", 1e9, time.Second)
		keep(t, &r, path, func() string { return "d" }, log)()
		if !strings.Contains(said.String(), "an earlier run are lost") || !strings.Contains(said.String(), path) {
			t.Errorf("%s: logged %q, want a line that names the file", name, said)
		}
		if got := kept(t, path, "d"); got.LinkBytesPerSecond["m"] != 1e9 {
			t.Errorf("%s: not replaced: %+v", name, got)
		}
	}
	path := filepath.Join(dir, "no folder")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, said := logged()
	var r engine.Rates
	r.ObserveLink("m", 1e9, time.Second)
	keep(t, &r, filepath.Join(path, "rates.json"), func() string { return "d" }, log)()
	if !strings.Contains(said.String(), "write measured rates") {
		t.Errorf("logged %q of a folder that cannot be made", said)
	}
}

func logged() (*slog.Logger, *bytes.Buffer) {
	var said bytes.Buffer
	return slog.New(slog.NewTextHandler(&said, nil)), &said
}

// Whatever a file or a presence record holds, no estimate is negative, infinite or not a number.
func FuzzRates(f *testing.F) {
	f.Add([]byte(`{"v":1,"model_digest":"d","rates":{"prefill_by_length":{"512":1e3,"8k":4e3},"decode_by_length":{"1k":50}}}`), 1000)
	f.Add([]byte(`{"v":1,"model_digest":"d","rates":{"prefill_by_length":{"512":-1,"8k":1e308},"link_bytes_per_second":{"":1,"m":1e-300}}}`), 1)
	f.Add([]byte(`{"v":1,"model_digest":"d","rates":{"check_seconds":-5,"state_bytes_per_token":1e200,"generated_tokens":1e18}}`), 1<<30)
	f.Add([]byte(`{"v":2}`), 0)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, tokens int) {
		tokens = max(1, min(tokens, 1<<24))
		path := filepath.Join(dir, "rates.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var r engine.Rates
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Keep(ctx, path, subject(func() string { return "d" }), time.Minute, slog.New(slog.DiscardHandler))
		if d := r.PrefillTime(4 << 20); d < 10*time.Second {
			t.Errorf("prediction %v", d)
		}
		var published protocol.Rates // as another worker's presence
		_ = json.Unmarshal(data, &struct{ Rates *protocol.Rates }{&published})
		here, there := engine.SpeedsOf("m", protocol.RolePrefill, r.Snapshot()), engine.SpeedsOf("gpt-oss:120b", protocol.RoleDecode, published)
		d := engine.Decide(engine.Question{
			Tokens: tokens, UncachedPrefill: tokens, UncachedDecode: tokens, Generated: int(there.Generated("code", -1).Value),
			StateBytes: int64(here.StateBytes(tokens, "f16").Value), Prefill: here, Decode: there, Link: there.Link("m"),
			QueueDecode: time.Duration(there.Job(tokens).Value) * time.Second,
		})
		for _, c := range d.Ways() {
			if !(c.Total > 0) || math.IsInf(c.Total, 0) {
				t.Errorf("%+v", c)
			}
		}
		if d.String() == "" {
			t.Error("no line")
		}
	})
}

// One measurement that cannot be true does not decide for the next dozens of jobs.
func TestOutlierHardlyMovesARate(t *testing.T) {
	var r engine.Rates
	for range 5 {
		r.ObservePrefill(3000, 1000, 1000, 1, time.Second)
	}
	r.ObservePrefill(3000, 1000, 1000, 1, 100*time.Nanosecond)
	if now := r.Snapshot(); now.PrefillTokensPerSecond > 2000 || now.PrefillByLength["1k"] > 2000 {
		t.Errorf("after one outlier: %v tokens/s, by length %v; want less than twice the 1000 of all others", now.PrefillTokensPerSecond, now.PrefillByLength)
	}
	if d := r.PrefillTime(300_000); d < 50*time.Second {
		t.Errorf("a prompt of 100,000 tokens is expected to take %v", d)
	}
}
