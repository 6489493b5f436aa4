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
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/jobs"
	"tandem/test/npm"
)

// step is one line that the grader prints.
type step struct {
	Step      string
	Job       string       // its id
	Result    *jobs.Result // null: none came in time
	Text      string       // put together from chunks
	Chunks    int
	Done      bool // the last chunk came
	Cancelled bool // in time
	Again     bool // what was done a second time was seen to be
	Late      int  `json:"late_chunks"` // after the cancel
	Refused   bool // nobody takes jobs for the model
	Message   string
}

func TestGrader(t *testing.T) {
	npm.Install(t)
	t.Run("without accounts", func(t *testing.T) { grader(t, false) })
	t.Run("with a grader's rights, over TLS", func(t *testing.T) { grader(t, true) })
}

func grader(t *testing.T, secure bool) {
	l := startSystem(t, secure)
	env := []string{"TANDEM_NATS=" + l.URL()}
	var as []nats.Option // of whoever looks at the streams
	if secure {
		folder := l.Access()
		env = append(env, "TANDEM_TLS_CA="+folder.CA(), "TANDEM_NKEY="+app.GraderKey(folder, "js-grader"))
		key, err := nats.NkeyOptionFromSeed(folder.Operator())
		if err != nil {
			t.Fatal(err)
		}
		as = append(as, key, nats.RootCAs(folder.CA()))
	}
	steps := grade(t, env)

	s := steps["await"]
	if s.Result == nil || s.Result.Status != jobs.Succeeded || s.Result.Text == "" || s.Result.Method != jobs.MethodDisaggregated {
		t.Errorf("await: %+v, want a text by way of prefill and decode", s)
	}
	if !s.Again {
		t.Error("await: a job that was submitted twice was taken twice")
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
	ended := []string{steps["cancel"].Job}
	if secure {
		if !s.Refused {
			t.Errorf("timeout: %+v, want the job of an unknown model refused", s)
		}
	} else if ended = append(ended, s.Job); s.Result != nil || s.Message != jobs.MsgDecodeMissing || !s.Cancelled {
		t.Errorf("timeout: %+v, want no result and %q", s, jobs.MsgDecodeMissing)
	}
	keptOut(t, l.URL(), as, ended...)
}

// keptOut checks that the server takes no hop of the cancelled jobs any more, and that nothing of their cancels is left.
func keptOut(t *testing.T, natsURL string, as []nats.Option, cancelled ...string) {
	t.Helper()
	nc, err := nats.Connect(natsURL, as...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const user = "js-grader"
	for _, id := range cancelled {
		for _, stage := range []jobs.Stage{jobs.StageDecode, jobs.StageFallback} {
			ack, err := js.Publish(t.Context(), protocol.JobSubject(stage, standin.CodeModel, jobs.Batch, user, id), nil, jetstream.WithMsgID(user+"."+id+"."+string(stage)))
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
func startSystem(t *testing.T, secure bool) *app.Local {
	t.Helper()
	var graders []string
	if secure {
		graders = []string{"js-grader"}
	}
	l, err := app.StartLocal(t.Context(), app.LocalOptions{
		Engine: app.LocalStandIn, Models: []string{standin.CodeModel}, Secure: secure, Graders: graders, Say: t.Logf,
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
	return l
}

// grade runs the grader and returns what it printed, by step.
func grade(t *testing.T, env []string) map[string]step {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "grader.mjs", standin.CodeModel)
	cmd.Env = append(os.Environ(), env...)
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
