package pages

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/gateway"
	"tandem/internal/natsembed"
	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/npm"
	"tandem/test/paperworker"
)

// TestConsoleMachines has a browser look at what machines did and can do, at who used how much, and ask a model.
func TestConsoleMachines(t *testing.T) {
	npm.Install(t)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	server, err := natsembed.Start(t.Context(), natsembed.Options{Dir: t.TempDir(), LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	here := queue.Config{URL: server.URL(), Log: log}
	ended := make(chan struct{}, 1)
	for _, p := range fleet() {
		paperworker.StartAs(t, here, here, p, act(p, ended))
	}
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), User: "gateway", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	system := admin.New(c)
	if err := system.KeepTrial(t.Context(), trial()); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	ada := addToken(t, tokens, gateway.Token{Name: "ada", User: "ada", Role: people.Grader})
	viewer := addToken(t, tokens, gateway.Token{Name: "eve", User: "eve", Role: people.Viewer})
	limited := addToken(t, tokens, gateway.Token{Name: "small", User: "small", Role: people.Operator, PerMinute: 2, Models: []string{consoleModel}})
	d := &door{o: gateway.Options{System: system, Tokens: tokens, Version: "test", Log: log}, addr: "127.0.0.1:0"}
	d.start(t)
	t.Cleanup(func() { d.stop(t) })
	lever := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prompt := "x"
		switch r.URL.Path {
		case "/refused":
			prompt = "refuse"
			fallthrough
		case "/job":
			if _, err := system.For("ada").Run(r.Context(), &jobs.Job{Model: consoleModel, Prompt: prompt, Plan: jobs.PlanDisaggregated}); err != nil {
				t.Errorf("a job: %v", err)
			}
		case "/program":
			if status, body := post(t, http.DefaultClient, "http://"+d.addr+"/api/generate", ada, request("x", consoleModel)); status != http.StatusOK {
				t.Errorf("a program's request: %d %s", status, body)
			}
		case "/ended":
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Error("the job that was stopped goes on")
			}
		}
	}))
	t.Cleanup(lever.Close)

	ask := "http://" + d.addr + "/console/ask"
	look := person(t, "http://"+d.addr, viewer)
	if status, body := post(t, look, ask, "", request("x", consoleModel)); status != http.StatusForbidden || !strings.Contains(body, "role grader") {
		t.Errorf("a viewer that asks gets %d %s", status, body)
	}
	small := person(t, "http://"+d.addr, limited) // signing in is the first of its two requests
	if status, body := post(t, small, ask, "", request("x", "other:1b")); status != http.StatusForbidden || !strings.Contains(body, "is not for model") {
		t.Errorf("who asks a model that is not for the token gets %d %s", status, body)
	}
	if status, body := post(t, small, ask, "", request("x", consoleModel)); status != http.StatusTooManyRequests || !strings.Contains(body, "2 times a minute") {
		t.Errorf("who asks more often than the token may gets %d %s", status, body)
	}
	if status, body := post(t, person(t, "http://"+d.addr, ada), ask, "", request(strings.Repeat("x", 300<<10), consoleModel)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("who asks with 300 KiB gets %d %s", status, body)
	}
	drive(t, "console_machines.mjs", "http://"+d.addr, lever.URL, ada)
}

func addToken(t *testing.T, file string, token gateway.Token) string {
	t.Helper()
	secret, err := gateway.AddToken(file, token)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// person is a browser that has signed in.
func person(t *testing.T, at, token string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	answer, err := c.PostForm(at+"/console/sign-in", url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return c
}

func request(prompt, model string) string {
	data, _ := json.Marshal(map[string]any{"model": model, "prompt": prompt, "stream": false})
	return string(data)
}

func post(t *testing.T, c *http.Client, to, token, body string) (status int, said string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(data)
}

// fleet are two machines that say all of themselves that a worker can say, and one whose name is markup.
func fleet() []queue.Presence {
	fingerprint := &jobs.Fingerprint{Model: strings.Repeat("ab", 32), Build: "b6100", Format: "ggsn 3", CacheK: "f16", CacheV: "f16", FlashAttention: true, Streams: 2, Layout: "48 layers of 1024", Positions: "rope 128"}
	p := queue.Presence{
		Role: protocol.RolePrefill, Model: consoleModel, Machine: "spark-1", Slots: 1, State: queue.StateReady, Engine: "llamacpp", EngineVersion: "b6100", ModelDigest: "sha256:" + strings.Repeat("ab", 32),
		ContextTokens: 32768, Capabilities: []string{"completion", "tools"}, HTTP: "169.254.150.103:8000", Version: "1.0", Handover: []jobs.Kind{jobs.KindState}, Fingerprint: fingerprint,
		Started: time.Now().Add(-5 * time.Hour), Prefixes: map[string]int{"a": 8000, "b": 4000},
		Rates: protocol.Rates{
			PrefillTokensPerSecond: 1500, PrefillByLength: map[string]float64{"1k": 1500, "8k": 3400}, StateBytesPerToken: 98304, SaveBytesPerSecond: 2.1e9, JobSeconds: 1.7,
		},
	}
	d := p
	d.Role, d.Machine, d.Slots, d.HTTP, d.Prefixes = protocol.RoleDecode, "mac-studio-2", 2, "169.254.150.102:8001", nil
	d.Rows, d.SkewSeconds = map[string]int{"a": 8000}, -0.2
	d.Rates = protocol.Rates{
		DecodeTokensPerSecond: 78, DecodeByLength: map[string]float64{"1k": 81, "8k": 66}, RestoreBytesPerSecond: 3.4e9, CheckSeconds: 0.03, LinkBytesPerSecond: map[string]float64{"spark-1": 1.2e9},
	}
	odd := queue.Presence{Role: protocol.RoleDecode, Model: "other:1b", Machine: "<img src=x onerror=alert(1)>", Slots: 1, State: queue.StateDown, Problem: "the engine does not answer: start it", NoState: "its engine moves none"}
	return []queue.Presence{p, d, odd}
}

func trial() admin.Trial {
	return admin.Trial{
		At: time.Date(2026, 3, 4, 15, 6, 0, 0, time.UTC), Model: consoleModel, Prefill: "spark-1", Decode: "mac-studio-2",
		Lengths: []admin.TrialLength{
			{Tokens: 501, WholeSeconds: 0.8, PrefillSeconds: 0.3, SaveSeconds: 0.02, MoveSeconds: 0.05, RestoreSeconds: 0.02, CheckSeconds: 0.03, Bytes: 49_000_000, BytesPerSecond: 1.1e9, Divergence: 0.0003, SameText: true},
			{Tokens: 8012, WholeSeconds: 14.2, PrefillSeconds: 4.1, SaveSeconds: 0.2, MoveSeconds: 0.31, RestoreSeconds: 0.12, CheckSeconds: 0.03, Bytes: 342_000_000, BytesPerSecond: 1.1e9, Divergence: 0.0012},
		},
	}
}

// act is what a worker of the fleet does, without an engine: what it says took seconds took no time.
func act(p queue.Presence, ended chan<- struct{}) paperworker.Run {
	return func(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
		if p.Role == protocol.RolePrefill {
			t.Event(jobs.Event{Type: jobs.EventPrefillBegun})
			t.Event(jobs.Event{Type: jobs.EventPrefillDone, Tokens: 400, CachedTokens: 600, Seconds: 0.3})
			t.Event(jobs.Event{Type: jobs.EventSaved, Bytes: 342e6, Seconds: 0.2})
			return protocol.Outcome{Next: &jobs.Handover{
				V: jobs.Version, Stage: jobs.StageDecode, Job: *t.Job, Kind: jobs.KindNone, Attempts: t.Attempt, Prefill: &jobs.Prefill{Server: "spark-1/p", Seconds: 0.3},
			}}, nil
		}
		t.Event(jobs.Event{Type: jobs.EventFetched, Bytes: 342e6, MovedBytes: 342e6, Seconds: 0.31})
		r := jobs.NewResult(t.Job, jobs.Succeeded)
		r.Handover = &jobs.HandoverReport{Bytes: 342e6}
		switch t.Job.Prompt {
		case "refuse":
			t.Event(jobs.Event{Type: jobs.EventHandoverFailed, Failure: jobs.FailDigest, Why: "the bytes are not those that were written: <script>alert(1)</script>"})
		case "wait":
			t.Emit(jobs.Chunk{Text: "I wait"})
			<-ctx.Done()
			ended <- struct{}{}
			return protocol.Outcome{}, context.Cause(ctx)
		case "fail":
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "the engine refuses this")
		default:
			t.Event(jobs.Event{Type: jobs.EventRestored, Bytes: 342e6, Seconds: 0.12})
		}
		t.Event(jobs.Event{Type: jobs.EventDecodeBegun})
		t.Event(jobs.Event{Type: jobs.EventFirstToken})
		for _, piece := range []string{"You said: ", t.Job.Prompt} {
			t.Emit(jobs.Chunk{Text: piece})
			r.Text += piece
		}
		r.FinishReason, r.Method, r.Servers = "stop", jobs.MethodDisaggregated, jobs.Servers{Prefill: "spark-1/p", Decode: p.Machine + "/d"}
		r.Decision = "auto: prefill on spark-1 and hand-over take 1.0 s, prefill on the decode machine 14.2 s"
		r.Usage = jobs.Usage{PromptTokens: 1000, PrefillComputed: 400, PrefillCached: 600, HandedOver: 999, GeneratedTokens: 100}
		r.Timings = jobs.Timings{
			PrefillSeconds: 0.3, PrefillTokensPerSecond: 1500, SaveSeconds: 0.2, TransferSeconds: 0.31, RestoreSeconds: 0.12, CheckSeconds: 0.03, DecodeSeconds: 2, DecodeTokensPerSecond: 50, TotalSeconds: 3,
			TimeToFirstTokenSeconds: 0.98,
		}
		return protocol.Outcome{Result: r}, nil
	}
}
