package pages

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/natsembed"
	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/npm"
	"tandem/test/paperworker"
)

const consoleModel = "pages:1b"

// TestConsole has a browser look at the console of a gateway, with and without tokens, while jobs are done and the gateway goes away and comes back; or, for pictures, at
// the one that runs already at TANDEM_CONSOLE (make screenshots).
func TestConsole(t *testing.T) {
	npm.Install(t)
	if url := os.Getenv("TANDEM_CONSOLE"); url != "" {
		drive(t, "console.mjs", url)
		return
	}
	for name, withToken := range map[string]bool{"on this machine": false, "with a token": true} {
		t.Run(name, func(t *testing.T) {
			c := pipelineOf(t, write)
			o := gateway.Options{System: admin.New(c), Version: "test", Log: quietLog(t)}
			args := []string{}
			if withToken {
				o.Tokens = filepath.Join(t.TempDir(), "tokens.json")
				secret, err := gateway.AddToken(o.Tokens, gateway.Token{Name: "ada", User: "ada", Role: people.Viewer})
				if err != nil {
					t.Fatal(err)
				}
				args = append(args, secret)
			}
			d := &door{o: o, addr: "127.0.0.1:0"}
			d.start(t)
			t.Cleanup(func() { d.stop(t) })
			url := "http://" + d.addr
			lever := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/job":
					if _, err := c.Run(r.Context(), &jobs.Job{Model: consoleModel, Prompt: "x", Plan: jobs.PlanLocal}); err != nil {
						t.Errorf("a job: %v", err)
					}
				case "/stop":
					d.stop(t)
				case "/start":
					d.start(t)
				}
			}))
			t.Cleanup(lever.Close)
			drive(t, "console.mjs", append([]string{url, lever.URL}, args...)...)
		})
	}
}

func quietLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

// pipelineOf is a client of a queue with one worker, without an engine, on a machine with a name that is markup.
func pipelineOf(t *testing.T, run func(context.Context, *protocol.Task) (protocol.Outcome, error)) *client.Client {
	t.Helper()
	log := quietLog(t)
	server, err := natsembed.Start(t.Context(), natsembed.Options{Dir: t.TempDir(), LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	here := queue.Config{URL: server.URL(), Log: log}
	paperworker.Start(t, here, here, consoleModel, "<img src=x onerror=alert(1)>", 2, run)
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), User: "program", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// door is a gateway that can be stopped and started again.
type door struct {
	mu   sync.Mutex
	o    gateway.Options
	addr string
	g    *app.Gateway
}

func (d *door) start(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.g, err = app.StartGateway(context.Background(), app.GatewayAddress{HTTP: d.addr}, d.o); err != nil {
		t.Errorf("start the gateway: %v", err)
		return
	}
	if _, port, _ := net.SplitHostPort(d.addr); port == "0" { // the next one takes the same
		d.addr = strings.TrimPrefix(d.g.URL(), "http://")
	}
}

func (d *door) stop(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.g.Stop(); err != nil {
		t.Errorf("stop the gateway: %v", err)
	}
	d.g = nil
}

// write is what the worker does: what it says took 1 and 2 s took no time.
func write(_ context.Context, t *protocol.Task) (protocol.Outcome, error) {
	r := jobs.NewResult(t.Job, jobs.Succeeded)
	r.Text, r.FinishReason, r.Method = "a text", "stop", jobs.MethodLocal
	r.Usage.PromptTokens, r.Usage.PrefillComputed, r.Usage.GeneratedTokens = 1000, 1000, 100
	r.Timings.PrefillSeconds, r.Timings.PrefillTokensPerSecond = 1, 1000
	r.Timings.DecodeSeconds, r.Timings.DecodeTokensPerSecond, r.Timings.TotalSeconds = 2, 50, 3
	return protocol.Outcome{Result: r}, nil
}

// drive runs a script, whose steps must find nothing wrong.
func drive(t *testing.T, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "TANDEM_BROWSER="+browser(t))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	steps := 0
	for line := range strings.Lines(string(out)) {
		var s struct {
			Step  string
			Wrong []string
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		steps++
		for _, wrong := range s.Wrong {
			t.Errorf("%s: %s", s.Step, wrong)
		}
	}
	if err != nil || steps < 2 {
		t.Errorf("node %s: %v, %d steps", script, err, steps)
	}
}
