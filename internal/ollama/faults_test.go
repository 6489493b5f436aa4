package ollama_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func discard(jobs.Chunk) error { return nil }

// greedy is a request with a determined answer of n tokens.
func greedy(prompt string, n int) engine.Request {
	return engine.Request{Prompt: prompt, Options: jobs.Options{Temperature: new(0.0), NumPredict: &n}}
}

// started returns a fake with an engine for it.
func started(t *testing.T, o ollamatest.Options) (*ollamatest.Server, *ollama.Engine) {
	t.Helper()
	fake := ollamatest.Start(t, o)
	return fake, newEngine(t, ollama.Options{URL: fake.URL(), Model: fake.Model()})
}

// TestFaults: each fault has its code, an answer that began is never taken for a whole one, and the
// next request is served.
func TestFaults(t *testing.T) {
	for fault, want := range map[ollamatest.Fault]struct {
		code    jobs.Code
		class   protocol.ErrorClass
		message string
	}{
		ollamatest.Reset:       {jobs.CodeEngineFailed, protocol.Retry, "broke off"},
		ollamatest.Busy:        {jobs.CodeEngineBusy, protocol.HandBack, "busy"},
		ollamatest.Missing:     {jobs.CodeModelMissing, protocol.HandBack, "ollama pull fake:latest"},
		ollamatest.OutOfMemory: {jobs.CodeEngineFailed, protocol.Retry, "out of memory"},
		ollamatest.Redirect:    {jobs.CodeEngineFailed, protocol.Retry, "redirect"},
		ollamatest.Rubbish:     {jobs.CodeEngineFailed, protocol.Retry, "no Ollama"},
		ollamatest.ErrorLine:   {jobs.CodeEngineFailed, protocol.Retry, "unexpected EOF"},
		ollamatest.CloseEarly:  {jobs.CodeEngineFailed, protocol.Retry, "ended without its mark of completion"},
		ollamatest.CutLine:     {jobs.CodeEngineFailed, protocol.Retry, "broke off"},
		ollamatest.RubbishLine: {jobs.CodeEngineFailed, protocol.Retry, "no Ollama"},
		ollamatest.LongLine:    {jobs.CodeEngineFailed, protocol.Retry, "too long"},
		ollamatest.Repetition:  {jobs.CodeEngineFailed, protocol.Retry, "repeated itself"},
		ollamatest.WrongDone:   {jobs.CodeEngineFailed, protocol.Retry, "done_reason"},
		ollamatest.WrongCounts: {jobs.CodeEngineFailed, protocol.Retry, "impossible"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			fake, e := started(t, ollamatest.Options{})
			fake.Fail(fault, 3)
			req := greedy("a prompt that nobody may see", 8)
			_, generate := e.Generate(t.Context(), req, discard)
			_, prefill := e.Prefill(t.Context(), req)
			_, decode := e.Decode(t.Context(), req, engine.Prefilled{Kind: jobs.KindNone}, discard)
			for _, err := range []error{generate, prefill, decode} {
				if jobs.CodeOf(err) != want.code || protocol.Classify(err) != want.class || !strings.Contains(fmt.Sprint(err), want.message) {
					t.Errorf("got %v (%s); want %s about %q", err, jobs.CodeOf(err), want.code, want.message)
				}
				if strings.Contains(fmt.Sprint(err), "nobody") {
					t.Errorf("%v quotes the prompt", err)
				}
			}
			if c, err := e.Generate(t.Context(), req, discard); err != nil || c.GeneratedTokens != 8 {
				t.Errorf("the next request: %v, %d tokens", err, c.GeneratedTokens)
			}
			for _, r := range fake.Requests() {
				if r.Path == "/elsewhere" {
					t.Error("a redirect was followed")
				}
			}
		})
	}
}

// TestHangs: a silent engine is left when the context ends, with its cause.
func TestHangs(t *testing.T) {
	for _, fault := range []ollamatest.Fault{ollamatest.HangFirst, ollamatest.HangMid} {
		t.Run(string(fault), func(t *testing.T) {
			fake, e := started(t, ollamatest.Options{})
			fake.Fail(fault, 1)
			cause := errors.New("gave up")
			ctx, cancel := context.WithCancelCause(t.Context())
			result := make(chan error)
			go func() {
				_, err := e.Generate(ctx, greedy("anybody?", 8), discard)
				result <- err
			}()
			if err := fake.WaitRunning(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			cancel(cause)
			if err := <-result; !errors.Is(err, cause) {
				t.Errorf("got %v, want the cause", err)
			}
			if err := fake.WaitRunning(t.Context(), 0); err != nil {
				t.Errorf("the connection stays open: %v", err)
			}
			if fake.Loads() > 1 {
				t.Errorf("the model was loaded %d times; a cancellation must not unload it", fake.Loads())
			}
		})
	}
}

// TestLostSlot: a request that is given up as stalled restarts the runner, which frees a slot that
// Ollama lost.
func TestLostSlot(t *testing.T) {
	fake, e := started(t, ollamatest.Options{Slots: 1})
	fake.Fail(ollamatest.LoseSlot, 1)
	enough := errors.New("enough")
	if _, err := e.Generate(t.Context(), greedy("hello?", 4), func(jobs.Chunk) error { return enough }); !errors.Is(err, enough) {
		t.Fatalf("got %v, want %v", err, enough)
	}
	if err := fake.WaitRunning(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if fake.WaitRunning(ctx, 1) == nil {
			cancel(jobs.ErrStalled)
		}
	}()
	if _, err := e.Generate(ctx, greedy("are you there?", 4), discard); !errors.Is(err, jobs.ErrStalled) {
		t.Fatalf("got %v, want %v", err, jobs.ErrStalled)
	}
	if _, err := e.Generate(t.Context(), greedy("hello again", 4), discard); err != nil {
		t.Fatalf("the next request: %v", err)
	}
	if fake.Loads() != 2 {
		t.Errorf("the model was loaded %d times, want again after the stall", fake.Loads())
	}
}

// TestCloseGracefully: a request that is cancelled between two pieces is read on until it is safe to leave, and
// nothing of that is emitted.
func TestCloseGracefully(t *testing.T) {
	for name, tt := range map[string]struct{ perToken, within time.Duration }{
		"never pauses":   {time.Millisecond, 5 * time.Second},
		"takes its time": {20 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			fake, e := started(t, ollamatest.Options{PerToken: tt.perToken})
			ctx, cancel := context.WithCancel(t.Context())
			pieces := 0
			var told time.Time
			_, err := e.Generate(ctx, greedy("go on", 3000), func(jobs.Chunk) error {
				if pieces++; pieces == 2 {
					told = time.Now()
					cancel()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) || pieces != 2 {
				t.Errorf("got %v and %d pieces; want the cancellation after 2", err, pieces)
			}
			if d := time.Since(told); d > tt.within {
				t.Errorf("returned after %v; want %v at most", d, tt.within)
			}
			if err := fake.WaitRunning(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoOllama: what answers is some other server.
func TestNoOllama(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	e := newEngine(t, ollama.Options{URL: other.URL, Model: "m"})
	_, describe := e.Describe(t.Context())
	_, generate := e.Generate(t.Context(), greedy("x", 1), discard)
	for _, err := range []error{describe, e.Load(t.Context()), generate} {
		if jobs.CodeOf(err) != jobs.CodeEngineFailed || !strings.Contains(fmt.Sprint(err), "no Ollama") {
			t.Errorf("got %v", err)
		}
	}
}

// TestQuotedPrompt: an engine's error that repeats the prompt is not passed on.
func TestQuotedPrompt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": "cannot render: a secret of Mia's homework"}`, http.StatusBadRequest)
	}))
	defer server.Close()
	e := newEngine(t, ollama.Options{URL: server.URL, Model: "m"})
	_, err := e.Generate(t.Context(), greedy("This is a secret of Mia's homework.", 1), discard)
	if jobs.CodeOf(err) != jobs.CodeEngineRefused || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestDown: a server that went away and came back.
func TestDown(t *testing.T) {
	fake, e := started(t, ollamatest.Options{})
	if _, err := e.Generate(t.Context(), greedy("x", 1), discard); err != nil {
		t.Fatal(err)
	}
	fake.Down()
	_, err := e.Generate(t.Context(), greedy("x", 1), discard)
	if jobs.CodeOf(err) != jobs.CodeEngineUnreachable || !strings.Contains(fmt.Sprint(err), fake.URL()) || !strings.Contains(fmt.Sprint(err), "ollama serve") {
		t.Errorf("got %v; want engine_unreachable with address and remedy", err)
	}
	fake.Up(t)
	if d, err := e.Describe(t.Context()); err != nil || d.Loaded {
		t.Errorf("after a restart: %v, loaded %t", err, d.Loaded)
	}
	if _, err := e.Generate(t.Context(), greedy("x", 1), discard); err != nil {
		t.Error(err)
	}
}

func TestDescribeOlderNames(t *testing.T) {
	fake := ollamatest.Start(t, ollamatest.Options{Model: "Llama3:latest"})
	e := newEngine(t, ollama.Options{URL: fake.URL(), Model: "disaggregated:llama3"})
	d, err := e.Describe(t.Context())
	if err != nil || d.Model != "llama3:latest" || d.ModelDigest != fake.Digest() {
		t.Errorf("got %+v, %v", d, err)
	}
}
