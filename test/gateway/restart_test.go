package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/paperworker"
)

// tellerModel says its prompt word by word. Its engine breaks off in the middle of each job once; a prompt with "dice" it says in other words then, and "hold" it says until
// it is stopped.
const tellerModel = "teller:1b"

type teller struct {
	mu    sync.Mutex
	tried map[string]bool // jobs

	enough chan struct{} // a value in it ends one job that holds
}

// tell is the model.
func (m *teller) tell(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	m.mu.Lock()
	again := m.tried[t.Job.ID]
	m.tried[t.Job.ID] = true
	m.mu.Unlock()
	text := t.Job.Prompt
	if text == "hold" {
		t.Emit(jobs.Chunk{Text: text})
		select {
		case <-m.enough:
			return told(t.Job, text), nil
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
	}
	if again {
		text = strings.Replace(text, "dice", "otherwise", 1)
	}
	words := strings.SplitAfter(text, " ")
	for i, word := range words {
		if i == 3 && !again {
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "the engine broke off")
		}
		t.Emit(jobs.Chunk{Text: word, Logprobs: likely(t.Job, word)})
	}
	outcome := told(t.Job, text)
	outcome.Result.Logprobs = likely(t.Job, words...)
	return outcome, nil
}

// likely are the logprobs of a job that asks for them.
func likely(j *jobs.Job, words ...string) (list []jobs.TokenLogprob) {
	for _, word := range words {
		if j.Logprobs {
			list = append(list, jobs.TokenLogprob{Token: word, Logprob: -1})
		}
	}
	return list
}

func told(j *jobs.Job, text string) protocol.Outcome {
	r := jobs.NewResult(j, jobs.Succeeded)
	r.Text, r.FinishReason, r.Method, r.Usage.GeneratedTokens = text, "stop", jobs.MethodLocal, len(strings.Fields(text))
	return protocol.Outcome{Result: r}
}

// openTeller is a gateway before one decode worker with the model.
func openTeller(t *testing.T) *door {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	server, err := natsembed.Start(t.Context(), natsembed.Options{Dir: t.TempDir(), LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	here := queue.Config{URL: server.URL(), Log: log}
	startTeller(t, here, here, 2)
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), User: "program", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return openGateway(t, gateway.Options{System: admin.New(c), Plan: jobs.PlanLocal, Log: log})
}

// openGateway is a gateway in this process.
func openGateway(t *testing.T, o gateway.Options) *door {
	t.Helper()
	g, err := app.StartGateway(t.Context(), app.GatewayAddress{HTTP: "127.0.0.1:0"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Errorf("stop the gateway: %v", err)
		}
	})
	return &door{url: g.URL(), client: o.System}
}

// startTeller starts a decode worker with the model; its key need not allow it to hear events, which operator's does.
func startTeller(t *testing.T, to, operator queue.Config, places int) *teller {
	t.Helper()
	model := &teller{tried: map[string]bool{}, enough: make(chan struct{})}
	paperworker.Start(t, to, operator, tellerModel, "teller", places, model.tell)
	return model
}

// A job that begins again is not noticed as long as it says the same; else the stream ends with an error, and an answer that is not streamed is simply right.
func TestRestarts(t *testing.T) {
	d := openTeller(t)
	for name, tt := range map[string]struct{ path, body, want, lack string }{
		"Ollama, the same again":   {"/api/generate", `"prompt": "one two three four five"`, `"response":"five"`, "error"},
		"OpenAI, the same again":   {"/v1/completions", `"prompt": "one two three four five", "stream": true`, "[DONE]", "error"},
		"Ollama, other words":      {"/api/generate", `"prompt": "one dice three four five"`, `{"error":"the job began again on another machine`, `"done":true`},
		"OpenAI, other words":      {"/v1/completions", `"prompt": "one dice three four five", "stream": true`, `data: {"error":{"message":"the job began again`, "[DONE]"},
		"logprobs, the same again": {"/api/generate", `"prompt": "one two three four five", "logprobs": true`, `"logprobs":[{"token":"four ","logprob":-1,"bytes":[102,111,117,114,32]}],"model":"teller:1b","response":"four "`, "error"},
		"whole":                    {"/api/generate", `"prompt": "one dice three four five", "stream": false`, `"response":"one otherwise three four five"`, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+tt.path, strings.NewReader(`{"model": "`+tellerModel+`", `+tt.body+`}`))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			said, err := io.ReadAll(answer.Body)
			if text := string(said); err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(text, tt.want) || strings.Contains(text, tt.lack) || strings.Count(text, `e":"one `)+strings.Count(text, `t":"one `) != 1 {
				t.Errorf("status %d, %v:\n%s\nwant %s and no %s, and what was sent once", answer.StatusCode, err, text, tt.want, tt.lack)
			}
		})
	}
}
