package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// machine is a llama-server on a backend of llama.cpp's, with the folder of its KV states, as a worker's flags name them.
func machine(t *testing.T, backend string, spec tinymodel.Spec, flags ...string) func(*app.WorkerFlags) {
	t.Helper()
	dir := t.TempDir()
	flags = append([]string{"--slot-save-path", dir, "--cache-ram", "0", "--no-cache-idle-slots", "--no-kv-unified"}, flags...)
	var url string
	if backend == "" {
		url = standintest.StartLlamaServer(t, spec, flags...)
	} else {
		url = standintest.StartBackend(t, backend, spec, flags...)
	}
	return func(f *app.WorkerFlags) { f.Engine, f.EngineURL, f.SlotDir, f.Threads = "llamacpp", url, dir, 1 }
}

// checked waits until all engines are checked, and returns the checks of both.
func (s *system) checked() (prefill, decode *protocol.Check) {
	s.t.Helper()
	s.waitForWorkers(func(list []queue.Presence) bool {
		for _, p := range list {
			if p.Role == protocol.RolePrefill {
				prefill = p.Check
			} else {
				decode = p.Check
			}
		}
		return prefill != nil && decode != nil
	})
	return prefill, decode
}

// handOver has a prompt computed on the prefill machine, and then on the decode machine alone.
func (s *system) handOver(prompt string) (handedOver, alone *jobs.Result) {
	s.t.Helper()
	for plan, r := range map[jobs.Plan]**jobs.Result{jobs.PlanDisaggregated: &handedOver, jobs.PlanLocal: &alone} {
		j := s.job(prompt)
		j.Plan = plan
		if *r = s.await(s.submit(j)); (*r).Status != jobs.Succeeded {
			s.t.Fatalf("%s: %+v", plan, (*r).Error)
		}
	}
	return handedOver, alone
}

// foundOut expects that a prompt is not handed over since the engines differ, as the report says, and that the text is the decode engine's own.
func (s *system) foundOut(says string) {
	s.t.Helper()
	r, alone := s.handOver(long("one"))
	if h := r.Handover; h == nil || h.Failure != jobs.FailDiffer || !strings.Contains(h.Message, says) || h.Bytes != 0 {
		s.t.Errorf("report %+v; want %s that says %q", h, jobs.FailDiffer, says)
	}
	if r.Text != alone.Text || r.Usage.HandedOver != 0 {
		s.t.Errorf("text %q of %d tokens handed over; want the decode engine's own, %q", r.Text, r.Usage.HandedOver, alone.Text)
	}
}

// TestBackends hands over between the processor and other backends of llama.cpp, both ways. A whole matrix is run if TANDEM_MATRIX says so; then what was found is logged, as a
// row of a table.
func TestBackends(t *testing.T) {
	t.Setenv("GGML_VK_DISABLE_F16", "1") // with 16-bit arithmetic, lavapipe computes some prompts wrongly
	backends, shapes, types, lengths := []string{"vulkan"}, []tinymodel.Shape{tinymodel.Llama}, []string{"f16"}, []int{500}
	if os.Getenv("TANDEM_MATRIX") == "whole" {
		backends, shapes, types, lengths = []string{"vulkan", "blas", "plain"}, tinymodel.Shapes(), []string{"f16", "q8_0"}, []int{64, 200, 500, 1000, 2000}
	}
	for _, backend := range backends {
		for i, shape := range shapes {
			if backend == "vulkan" && shape == tinymodel.GraniteHybrid {
				continue // see TestBackendThatComputesWrongly
			}
			spec := tinymodel.TinyShape(shape, []tinymodel.Tokenizer{tinymodel.BPE, tinymodel.SentencePiece}[i%2])
			for _, cacheType := range types {
				here := machine(t, "", spec, "--cache-type-k", cacheType, "--cache-type-v", cacheType)
				there := machine(t, backend, spec, "--cache-type-k", cacheType, "--cache-type-v", cacheType)
				for name, pair := range map[string][2]func(*app.WorkerFlags){backend + " → processor": {there, here}, "processor → " + backend: {here, there}} {
					t.Run(fmt.Sprintf("%s %s %s", name, shape, cacheType), func(t *testing.T) {
						s := newSystem(t)
						s.worker(protocol.RolePrefill, "", pair[0])
						s.worker(protocol.RoleDecode, "", pair[1])
						median, far, _ := engine.Between(s.checked())
						var equal int
						var most float64
						for _, tokens := range lengths {
							r, alone := s.handOver(fmt.Sprint(tokens, strings.Repeat(" total <- total + price[i] * quantity[i];", tokens/12)))
							if h := r.Handover; h == nil || h.Failure != "" || r.Usage.HandedOver != r.Usage.PromptTokens-1 {
								t.Fatalf("%d tokens: %+v, %+v", tokens, h, r.Usage)
							}
							most = max(most, r.Handover.Divergence)
							if r.Text == alone.Text {
								equal++
							}
						}
						t.Logf("| %s | %s | %s | %.4f (%d) | %.4f | %d of %d |", name, shape, cacheType, median, far, most, equal, len(lengths))
					})
				}
			}
		}
	}
}

// Lavapipe computes granite's layers wrongly in batches. A state that it writes predicts the same on both sides, so only the check finds that out.
func TestBackendThatComputesWrongly(t *testing.T) {
	spec := tinymodel.TinyShape(tinymodel.GraniteHybrid, tinymodel.BPE)
	s := newSystem(t)
	s.worker(protocol.RolePrefill, "", machine(t, "vulkan", spec))
	s.worker(protocol.RoleDecode, "", machine(t, "", spec))
	s.checked()
	s.foundOut("suspected: the engine of test-prefill.")
}

// An engine that computes something else, though it says the same of itself, is found out before a state of it is written.
func TestEngineThatComputesSomethingElse(t *testing.T) {
	spec := tinymodel.Tiny(tinymodel.BPE)
	s := newSystem(t)
	wrong := s.worker(protocol.RolePrefill, "", machine(t, "", spec, "--rope-freq-base", "3000"))
	s.worker(protocol.RoleDecode, "", machine(t, "", spec))
	s.checked()
	s.foundOut("test-prefill and test-decode predict tokens")
	wrong.stop()
	s.worker(protocol.RolePrefill, "", machine(t, "", spec))
	s.checked()
	if r, _ := s.handOver(long("two")); r.Handover == nil || r.Handover.Failure != "" || r.Usage.HandedOver == 0 {
		t.Errorf("report %+v, usage %+v; want a hand-over by the engine that took its place", r.Handover, r.Usage)
	}
}

// disguised has a llama-server name its build otherwise, and write its KV states in a format that nobody knows: the real ones with another number in front.
func disguised(t *testing.T, build string, version byte, on func(*app.WorkerFlags)) func(*app.WorkerFlags) {
	t.Helper()
	var flags app.WorkerFlags
	on(&flags)
	target, err := url.Parse(flags.EngineURL)
	if err != nil {
		t.Fatal(err)
	}
	stamp := func(body io.Reader, version byte) (read []byte) {
		data, err := io.ReadAll(body)
		var file struct {
			Filename string `json:"filename"`
		}
		if err == nil {
			err = json.Unmarshal(data, &file)
		}
		var f *os.File
		if err == nil {
			f, err = os.OpenFile(filepath.Join(flags.SlotDir, file.Filename), os.O_RDWR, 0)
		}
		if err == nil {
			_, err = f.WriteAt([]byte{version}, 4)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
		return data
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{DisableKeepAlives: true} // llama-server ends connections whenever it likes
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == "/props" {
			data, err := io.ReadAll(r.Body)
			data = regexp.MustCompile(`("build_info":)"[^"]*"`).ReplaceAll(data, []byte(`$1"`+build+`"`))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
			r.Header.Del("Content-Length")
			return err
		}
		if version > 0 && r.Request.URL.Query().Get("action") == "save" && r.StatusCode == http.StatusOK {
			data, err := io.ReadAll(r.Body)
			stamp(bytes.NewReader(data), version)
			r.Body = io.NopCloser(bytes.NewReader(data))
			return err
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if version > 0 && r.URL.Query().Get("action") == "restore" {
			r.Body = io.NopCloser(bytes.NewReader(stamp(r.Body, 4)))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return func(f *app.WorkerFlags) {
		on(f)
		f.EngineURL = front.URL
	}
}

// Builds of one format hand over whatever they are called, once they have shown that they predict the same; two formats do not. A format that nobody
// knows is moved if both machines are told that it may be.
func TestBuildsAndFormats(t *testing.T) {
	spec := tinymodel.Tiny(tinymodel.BPE)
	prefill, decode := machine(t, "", spec), machine(t, "", spec)
	unread := func(on func(*app.WorkerFlags)) func(*app.WorkerFlags) {
		return func(f *app.WorkerFlags) {
			on(f)
			f.HandoverUnread = []string{"ggsq.5"}
		}
	}
	strict := func(f *app.WorkerFlags) {
		decode(f)
		f.HandoverStrict = true
	}
	five := disguised(t, "b1", 5, prefill)
	for name, tt := range map[string]struct {
		prefill, decode func(*app.WorkerFlags)
		failure         jobs.Failure
		message         string
	}{
		"equal":                       {prefill, decode, "", ""},
		"another name":                {disguised(t, "b1", 0, prefill), decode, "", "; llama.cpp b"},
		"another name, strictly":      {disguised(t, "b1", 0, prefill), strict, jobs.FailFingerprint, "the two engines differ: llama.cpp build: b"},
		"an unknown format":           {five, disguised(t, "b1", 5, decode), jobs.FailNoState, "the state format ggsq.5 is not known here"},
		"an unknown format, allowed":  {unread(five), unread(disguised(t, "b1", 5, decode)), "", "; format ggsq.5, unread"},
		"another and unknown format":  {unread(five), unread(decode), jobs.FailFingerprint, "state format: ggsq.4 here, ggsq.5 on the prefill machine"},
		"other names, allowed format": {unread(five), unread(disguised(t, "b2", 5, decode)), "", "llama.cpp b2 here, b1 on the prefill machine; format ggsq.5, unread"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.worker(protocol.RolePrefill, "", tt.prefill)
			s.worker(protocol.RoleDecode, "", tt.decode)
			for i := range 2 {
				r, alone := s.handOver(long(fmt.Sprint(name, i)))
				if r.Text != alone.Text {
					t.Errorf("text %q; want the decode engine's own, %q", r.Text, alone.Text)
				}
				if tt.failure != "" {
					if h := r.Handover; r.Usage.HandedOver > 0 || !strings.Contains(r.Decision, tt.message) || h != nil && h.Failure != tt.failure {
						t.Errorf("%d tokens handed over, report %+v, decision %s", r.Usage.HandedOver, r.Handover, r.Decision)
					}
					continue
				}
				sampled := i == 0 && tt.message != ""
				if r.Usage.HandedOver == 0 || !strings.Contains(r.Decision, tt.message) || strings.Contains(r.Decision, "once more as a sample") != sampled || (r.Handover.Sampled != nil) != sampled {
					t.Errorf("job %d: %d tokens handed over; want %q, sampled %t: %s", i, r.Usage.HandedOver, tt.message, sampled, r.Decision)
				}
			}
		})
	}
}
