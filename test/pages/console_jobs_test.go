package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tandem/client/admin"
	"tandem/internal/gateway"
	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/jobs"
	"tandem/test/npm"
)

// TestConsoleJobs has a browser look for jobs, and do something about them, as one who may and as others who may not.
func TestConsoleJobs(t *testing.T) {
	npm.Install(t)
	var mu sync.Mutex
	held, answers := map[string]chan struct{}{}, map[string]bool{} // by the custom id; whether replays are answered
	c := pipelineOf(t, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		mu.Lock()
		release, replayed := held[task.Job.CustomID], answers["replays"] && task.Job.ReplayOf != ""
		mu.Unlock()
		switch {
		case release != nil:
			task.Emit(jobs.Chunk{Text: "Once upon <script>alert(1)</script> a time"})
			select {
			case <-release:
			case <-ctx.Done():
				return protocol.Outcome{}, context.Cause(ctx)
			}
		case strings.HasPrefix(task.Job.CustomID, "bad") && !replayed:
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineRefused, "the engine has no use for <b>%s</b>", task.Job.Batch)
		}
		return write(ctx, task)
	})
	o := gateway.Options{System: admin.New(c), Version: "test", Log: quietLog(t), Tokens: filepath.Join(t.TempDir(), "tokens.json")}
	var tokens []string
	for _, one := range []gateway.Token{{Name: "ops", User: "ops", Role: people.Operator}, {Name: "grace", User: "grace", Role: people.Grader}, {Name: "ada", User: "ada", Role: people.Viewer}} {
		secret, err := gateway.AddToken(o.Tokens, one)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, secret)
	}
	d := &door{o: o, addr: "127.0.0.1:0"}
	// /submit?user=&batch=&custom=&n=&held: submits jobs, of which the first is held until /release?custom=, and answers with their ids; /await?user=&id= waits for a result.
	lever := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		of := c.For(cmp.Or(q.Get("user"), "program"))
		switch r.URL.Path {
		case "/submit":
			mu.Lock()
			if q.Has("held") {
				held[q.Get("custom")] = make(chan struct{})
			}
			mu.Unlock()
			n, _ := strconv.Atoi(cmp.Or(q.Get("n"), "1"))
			var ids []string
			for i := range n {
				j := &jobs.Job{Model: consoleModel, Prompt: "x", Plan: jobs.PlanLocal, Batch: q.Get("batch"), CustomID: q.Get("custom"), Class: jobs.Batch, Stream: i == 0}
				if err := of.Submit(r.Context(), j); err != nil {
					t.Errorf("submit: %v", err)
				}
				ids = append(ids, j.ID)
			}
			_ = json.NewEncoder(w).Encode(ids)
		case "/release":
			mu.Lock()
			close(held[q.Get("custom")])
			mu.Unlock()
		case "/await":
			result, err := of.Await(r.Context(), q.Get("id"))
			if err != nil {
				t.Errorf("await: %v", err)
				return
			}
			_ = json.NewEncoder(w).Encode(result.Status)
		case "/answer-replays":
			mu.Lock()
			answers["replays"] = true
			mu.Unlock()
		}
	}))
	t.Cleanup(lever.Close)
	d.start(t)
	t.Cleanup(func() { d.stop(t) })
	drive(t, "console_jobs.mjs", append([]string{"http://" + d.addr, lever.URL}, tokens...)...)
}
