// Package jsclient tests docs/PROTOCOL.md with a grader that is not ours: grader.mjs, which uses the NATS
// client for JavaScript and knows of the system only what that page says.
package jsclient

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/app"
	"tandem/internal/jobs"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/test/npm"
)

// step is one line that the grader prints.
type step struct {
	Step      string
	Job       string       // its id
	Result    *jobs.Result // null: none came in time
	Copy      bool         // the inbox got the result too
	Text      string       // put together from chunks
	Chunks    int
	Done      bool // the last chunk came
	Cancelled bool // in time
	Again     bool // a second time
	Late      int  `json:"late_chunks"` // after the cancel
	Message   string
}

func TestGrader(t *testing.T) {
	npm.Install(t)
	url := startSystem(t)
	steps := grade(t, url)

	s := steps["await"]
	if s.Result == nil || s.Result.Status != jobs.Succeeded || s.Result.Text == "" || s.Result.Method != jobs.MethodDisaggregated {
		t.Errorf("await: %+v, want a text by way of prefill and decode", s)
	}
	if !s.Copy {
		t.Error("await: the reply inbox got no copy of the result")
	}
	s = steps["stream"]
	if s.Result == nil || s.Result.Status != jobs.Succeeded || s.Text != s.Result.Text || s.Chunks < 2 || !s.Done {
		t.Errorf("stream: %+v, want the result's text in pieces", s)
	}
	s = steps["cancel"]
	if s.Result == nil || s.Result.Status != jobs.Cancelled || s.Result.Text != "" || !s.Cancelled || s.Again || s.Late != 0 {
		t.Errorf("cancel: %+v, want one cancelled result, once, and no text after it", s)
	}
	s = steps["timeout"]
	if s.Result != nil || s.Message != jobs.MsgDecodeMissing || !s.Cancelled {
		t.Errorf("timeout: %+v, want no result and %q", s, jobs.MsgDecodeMissing)
	}
	keptOut(t, url, steps["cancel"].Job, steps["timeout"].Job)
}

// keptOut checks that the server takes no hop of the cancelled jobs any more, and that nothing of their cancels is left.
func keptOut(t *testing.T, natsURL string, cancelled ...string) {
	t.Helper()
	nc, err := nats.Connect(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range cancelled {
		for _, stage := range []jobs.Stage{jobs.StageDecode, jobs.StageFallback} {
			ack, err := js.Publish(t.Context(), jobs.JobSubject(stage, standin.CodeModel, jobs.Batch, id), nil, jetstream.WithMsgID(id+"."+string(stage)))
			if err != nil || !ack.Duplicate {
				t.Errorf("a %s hop of the cancelled job %s is answered %+v, %v; want it taken for a duplicate", stage, id, ack, err)
			}
		}
	}
	relay, err := js.Stream(t.Context(), queue.StreamRelay)
	if err != nil {
		t.Fatal(err)
	}
	if n := relay.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("the relay holds %d messages after the cancels", n)
	}
}

// What the page shows is what the grader runs.
func TestPageShowsTheGrader(t *testing.T) {
	page, grader := read(t, "../../docs/PROTOCOL.md"), read(t, "grader.mjs")
	blocks := regexp.MustCompile("(?s)```js\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < 6 {
		t.Errorf("the page has %d blocks of JavaScript, want at least one for each of its steps", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(grader, b[1]) {
			t.Errorf("grader.mjs does not have this block of docs/PROTOCOL.md, word for word:\n%s", b[1])
		}
	}
}

// startSystem starts NATS and the workers of one model on stand-in engines.
func startSystem(t *testing.T) (natsURL string) {
	t.Helper()
	l, err := app.StartLocal(t.Context(), app.LocalOptions{
		Engine: app.LocalStandIn, Models: []string{standin.CodeModel}, Say: t.Logf,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return l.URL()
}

// grade runs the grader and returns what it printed, by step.
func grade(t *testing.T, natsURL string) map[string]step {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "grader.mjs", standin.CodeModel)
	cmd.Env = append(os.Environ(), "TANDEM_NATS="+natsURL)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	t.Logf("the grader printed:\n%s", out)
	if err != nil {
		t.Fatalf("run grader: %v", err)
	}
	steps := map[string]step{}
	for line := range strings.Lines(string(out)) {
		var s step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		steps[s.Step] = s
	}
	return steps
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
