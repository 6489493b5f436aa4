package slots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

func (m *machine) check(t *testing.T) *protocol.Check {
	t.Helper()
	c, err := m.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Engines of the same weights agree whatever threads and batches they compute with; one that turns positions otherwise does not, though it says nothing of that.
// How far apart they are is logged, if TANDEM_MATRIX says whole also of llama-servers on other backends.
func TestCheck(t *testing.T) {
	for _, spec := range kinds() {
		t.Run(string(spec.Shape)+" "+string(spec.Tokenizer), func(t *testing.T) {
			t.Parallel()
			a := start(t, setup{spec: spec}).check(t)
			t.Logf("itself, cached %.4f (%d far), token by token %.4f", a.Cached, a.Far, a.Single)
			compare := func(name string, s setup) (why string) {
				s.spec = spec
				m := start(t, s)
				b := m.check(t)
				m.process.Stop()
				median, far, _ := engine.Between(a, b)
				t.Logf("%s: %.4f (%d far); itself, cached %.4f (%d far), token by token %.4f", name, median, far, b.Cached, b.Far, b.Single)
				return engine.Differ("a", a, "b", b)
			}
			for name, tt := range map[string]struct {
				flags []string
				wrong bool
			}{
				"the same":      {},
				"two threads":   {flags: []string{"--threads", "2"}},
				"small batches": {flags: []string{"--ubatch-size", "64", "--batch-size", "64"}},
				"rope base":     {flags: []string{"--rope-freq-base", "3000"}, wrong: true},
				"rope scale":    {flags: []string{"--rope-freq-scale", "0.5"}, wrong: true},
			} {
				if why := compare(name, setup{flags: tt.flags}); (why != "") != tt.wrong {
					t.Errorf("%s: %q", name, why)
				}
			}
			if !whole() {
				return
			}
			for _, backend := range []string{"plain", "blas", "vulkan"} {
				compare(backend, setup{program: standintest.Backend(t, backend)})
			}
			compare("vulkan, 32 bits", setup{program: standintest.Backend(t, "vulkan"), env: wide})
		})
	}
}

// whole says that what takes minutes is wanted, too.
func whole() bool { return os.Getenv("TANDEM_MATRIX") == "whole" }

// wide has lavapipe compute with 32 bits: with 16 it computes some prompts wrongly.
var wide = []string{"GGML_VK_DISABLE_F16=1"}

// Sound engines are not stopped, however often they start, on whatever backend and with however many threads: 200 starts if TANDEM_MATRIX says whole.
func TestSoundEnginesPass(t *testing.T) {
	type machineKind struct {
		name string
		setup
	}
	all := []machineKind{
		{"two threads", setup{flags: []string{"--threads", "2"}}}, {"four threads", setup{flags: []string{"--threads", "4"}}},
		{"plain", setup{program: standintest.Backend(t, "plain")}}, {"blas", setup{program: standintest.Backend(t, "blas")}},
		{"vulkan", setup{program: standintest.Backend(t, "vulkan"), env: wide}},
	}
	starts, types := 5, []string{"f16"}
	if whole() {
		starts, types = 200, []string{"f16", "q8_0"}
	}
	first := map[string]*protocol.Check{}
	most := map[string]float64{}
	for i := range starts {
		spec, cacheType := kinds()[i%len(kinds())], types[i/25%len(types)]
		flags := []string{"--cache-type-k", cacheType, "--cache-type-v", cacheType}
		key := fmt.Sprint(spec.Shape, spec.Tokenizer, cacheType)
		if first[key] == nil {
			m := start(t, setup{spec: spec, flags: flags})
			first[key] = m.check(t)
			m.process.Stop()
		}
		k := all[(i+i/len(kinds()))%len(all)]
		if k.name == "vulkan" && spec.Shape == tinymodel.GraniteHybrid { // which lavapipe computes wrongly
			k = all[0]
		}
		k.spec, k.flags = spec, append(flags, k.flags...)
		m := start(t, k.setup)
		c := m.check(t)
		m.process.Stop()
		if why := engine.Differ("a", first[key], "b", c); why != "" {
			t.Errorf("start %d, %s, %s: %s", i, key, k.name, why)
		}
		median, _, _ := engine.Between(first[key], c)
		most[k.name+" "+cacheType] = max(most[k.name+" "+cacheType], median, c.Cached)
	}
	t.Logf("%d starts; medians at most %v", starts, most)
}

// An engine that computes batches wrongly is found out, and named.
func TestCheckNamesTheWrongOne(t *testing.T) {
	good := start(t, setup{})
	target, err := url.Parse(good.config.Endpoint.URL)
	if err != nil {
		t.Fatal(err)
	}
	spoils := httputil.NewSingleHostReverseProxy(target)
	spoils.Transport = &http.Transport{DisableKeepAlives: true} // llama-server ends connections whenever it likes
	spoils.ModifyResponse = func(r *http.Response) error {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		var answer struct {
			Probabilities []struct {
				Top []map[string]any `json:"top_logprobs"`
			} `json:"completion_probabilities"`
			Timings map[string]any `json:"timings"`
		}
		if json.Unmarshal(data, &answer) == nil && len(answer.Probabilities) > 0 && answer.Timings["prompt_n"].(float64) > 1 {
			for i, p := range answer.Probabilities[0].Top {
				p["logprob"] = p["logprob"].(float64) - 0.1*float64(i)
			}
			if data, err = json.Marshal(answer); err != nil {
				return err
			}
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(data))), int64(len(data))
		r.Header.Del("Content-Length")
		return nil
	}
	front := httptest.NewServer(spoils)
	defer front.Close()
	config := good.config
	config.Endpoint.URL = front.URL
	bad, err := Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := bad.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	right := good.check(t)
	for _, why := range []string{engine.Differ("good", right, "bad", wrong), engine.Differ("bad", wrong, "good", right)} {
		if !strings.Contains(why, "suspected: the engine of bad.") {
			t.Errorf("%q", why)
		}
	}
	if why := engine.Differ("good", right, "good", right); why != "" {
		t.Error(why)
	}
}

// A state that was computed wrongly is taken, since both sides predict the same from it; a sample finds it out.
func TestSampledImport(t *testing.T) {
	a, b := start(t, setup{}), start(t, setup{})
	p := a.prompt(t, 1, 300)
	f := a.export(t, p)
	from := a.acquire(t, p)
	defer from.Release()
	to := b.acquire(t, p)
	defer to.Release()
	take := func(sample bool) (engine.Imported, error) {
		t.Helper()
		p.Sample = sample
		defer to.Started()
		return to.Import(t.Context(), p, b.receive(t, f))
	}
	if i, err := take(true); err != nil || !i.Sampled || i.Own > 0.001 {
		t.Errorf("a sound state: %+v, %v", i, err)
	}
	_, rows, err := readState(f.Path, 200, nil)
	if err != nil || len(rows) == 0 {
		t.Fatal(len(rows), err)
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for i := r.Offset + 1; i < r.Offset+r.Bytes; i += 2 {
			data[i] ^= 0x80 // the sign of an f16
		}
	}
	if err := os.WriteFile(f.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := from.restore(t.Context(), p, f); err != nil {
		t.Fatal(err)
	}
	first, err := from.predict(t.Context(), p.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	f.First = first.tokens
	if i, err := take(false); err != nil || i.Sampled || i.Divergence > 0.001 {
		t.Errorf("a wrong state, not sampled: %+v, %v", i, err)
	}
	_, err = take(true)
	if failed, ok := errors.AsType[*protocol.HandoverError](err); !ok || failed.Failure != jobs.FailDiffer || failed.Divergence < maxDivergence {
		t.Errorf("a wrong state: %v; want %s", err, jobs.FailDiffer)
	}
}

// BenchmarkCheck is what a start of a worker waits for.
func BenchmarkCheck(b *testing.B) {
	for _, spec := range kinds() {
		b.Run(string(spec.Shape)+" "+string(spec.Tokenizer), func(b *testing.B) {
			m := start(b, setup{spec: spec})
			for b.Loop() {
				if _, err := m.Check(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
