package submitter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/app"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/logs"
)

// secret is in the URLs of these tests.
const secret = "s3cret-pass"

// command runs one of the programs in this process and returns what it printed.
func command(t *testing.T, args ...string) (printed string, code int) {
	t.Helper()
	var out, stderr bytes.Buffer
	switch args[0] {
	case "submitter":
		code = Main(t.Context(), args[1:], strings.NewReader(""), &out, &stderr)
	case "prefill-worker":
		code = app.PrefillWorkerMain(args[1:], &out, &stderr)
	case "decode-worker":
		code = app.DecodeWorkerMain(args[1:], &out, &stderr)
	}
	return out.String() + stderr.String(), code
}

// hides fails the test if a text shows the secret.
func hides(t *testing.T, where, text string) {
	t.Helper()
	if i := strings.Index(text, secret); i >= 0 {
		t.Errorf("%s shows the password: …%.300q", where, text[max(i-100, 0):])
	}
}

// TestCommandsHideSecrets gives URLs with a secret to every command. None of them can be reached.
func TestCommandsHideSecrets(t *testing.T) {
	home := t.TempDir()
	jobsFile := filepath.Join(home, "jobs.jsonl")
	if err := os.WriteFile(jobsFile, []byte(`{"model":"m","prompt":"p"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("OLLAMA_HOST", "http://user:"+secret+"@127.0.0.1:1")
	urls := []string{
		"nats://user:" + secret + "@127.0.0.1:1",
		"nats://" + secret + "@127.0.0.1:1",
		"nats://127.0.0.1:1,nats://user:" + secret + "@127.0.0.1:2",
		"tls://user:" + secret + "@127.0.0.1:1",
		"user:" + secret + "@127.0.0.1:1",
		"nats://127.0.0.1:1," + secret + "@127.0.0.1:2",
		"nats://user:" + secret + "@[::1",
		"nats://user:%zz" + secret + "@127.0.0.1:1",
		"nats://user:one " + secret + "@127.0.0.1:1",
		"nats://user:#" + secret + "@127.0.0.1:1",
		"nats://" + secret + "/x@127.0.0.1:1",
		"nats://" + secret + ",x@127.0.0.1:1",
		"http://user:" + secret + "@127.0.0.1:1",
		"http://" + secret + "@127.0.0.1:1",
		"http://user:" + secret + "@127.0.0.1:1/%zz",
		"http://127.0.0.1:1?key=" + secret,
	}
	id, class := jobs.NewID(), "../../../examples/class/"
	worker := []string{"--model", "m", "--state-dir", home, "--http", "127.0.0.1:0", "--start-timeout", "1ms"}
	server := natstest.Start(t, natsembed.Options{})
	grade := []string{"submitter", "grade", class + "submissions", "--rubric", class + "rubric.json", "--solution", class + "solution.ipynb", "--out", filepath.Join(home, "out")}
	commands := [][]string{ // URL stands for the URL
		{"submitter", "submit", "-m", "m", "--nats", "URL", "p"},
		{"submitter", "submit", "-m", "m", "--direct", "URL", "--nats", "nats://127.0.0.1:1", "p"},
		{"submitter", "submit", "-m", "m", "p", "URL"},
		{"submitter", "submit", "-m", "m", "--timeout", "URL", "p"},
		{"submitter", "submit", "-m", "m", "--local", "--engine", "llamacpp", "--engine-url", "URL", "p"},
		{"submitter", "batch", jobsFile, "--out", filepath.Join(home, "results"), "--nats", "URL"},
		append(slices.Clone(grade), "--nats", "URL"),
		append(slices.Clone(grade), "--direct", "URL"),
		{"submitter", "await", id, "--nats", "URL"},
		{"submitter", "result", id, "--nats", "URL"},
		{"submitter", "cancel", id, "--nats", "URL"},
		{"submitter", "status", "--nats", "URL"},
		{"submitter", "explain", "m", "--nats", "URL"},
		{"submitter", "doctor", "--nats", "URL"},
		{"submitter", "dlq", "list", "--nats", "URL"},
		{"submitter", "purge", "--batch", "b", "--nats", "URL"},
		{"submitter", "admin", "init", "--nats", "URL"},
		{"submitter", "dev", "--port", "URL"},
	}
	for _, c := range slices.Clone(commands) {
		commands = append(commands, append(slices.Clone(c), "--json"))
	}
	for _, program := range []string{"prefill-worker", "decode-worker"} {
		for _, args := range [][]string{
			{"--nats", "URL"},
			{"--nats", "URL", "--log-level", "debug"},
			{"--nats", server.URL(), "--engine-url", "URL"},
			{"--nats", server.URL(), "--engine", "llamacpp", "--engine-url", "URL"},
			{"--nats", "URL", "--engine-url", "URL", "--handover-url", "URL", "--print-config"},
			{"--slots", "URL"},
			{"URL"},
		} {
			commands = append(commands, slices.Concat([]string{program}, worker, args))
		}
		commands = append(commands, []string{program, "shim", "status", "URL"})
	}
	commands = append(commands, slices.Concat([]string{"decode-worker", "handover", "clear", "--engine-url", "URL", "--nats", "URL"}, worker),
		slices.Concat([]string{"decode-worker", "handover", "clear", "--slots", "URL"}, worker))
	for _, c := range commands {
		for _, url := range urls {
			args := slices.Clone(c)
			for i, a := range args {
				if a == "URL" {
					args[i] = url
				}
			}
			printed, code := command(t, args...)
			hides(t, strings.Join(args, " "), printed)
			if done := slices.Contains(args, "--print-config") || slices.Contains(args, "handover") || slices.Contains(args, "--handover"); code == app.ExitDone && !done {
				t.Errorf("%q succeeds", args)
			}
		}
	}
}

// The file that --print-config writes says where a secret was.
func TestPrintedConfigurationShowsWhereSecretsGo(t *testing.T) {
	got, code := command(t, "prefill-worker", "--model", "m", "--nats", "nats://user:"+secret+"@h:4222", "--engine-url", "http://"+secret+"@h", "--print-config")
	for _, want := range []string{"nats: nats://user:xxxxx@h:4222\n", "engine-url: http://xxxxx@h\n"} {
		if code != app.ExitDone || !strings.Contains(got, want) {
			t.Errorf("exit code %d, want %q in\n%s", code, want, got)
		}
	}
}

// It names a context, and holds nothing of what is in there.
func TestPrintedConfigurationNamesContext(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	dir := filepath.Join(config, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "here.json"), []byte(`{"url":"nats://u:`+secret+`@127.0.0.1:1","token":"`+secret+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, code := command(t, "decode-worker", "--model", "m", "--nats-context", "here", "--print-config")
	if hides(t, "--print-config", got); code != app.ExitDone || !strings.Contains(got, "nats-context: here\n") || !strings.Contains(got, "nats: \"\"\n") {
		t.Errorf("exit code %d, and\n%s", code, got)
	}
	for _, args := range [][]string{{"submitter", "status"}, {"decode-worker", "--model", "m", "--http", "127.0.0.1:0", "--state-dir", t.TempDir()}} {
		printed, code := command(t, append(args, "--nats-context", "here")...)
		if hides(t, args[0], printed); code != app.ExitUnreachable {
			t.Errorf("%s: exit code %d, and\n%s", args[0], code, printed)
		}
	}
}

// TestRunningSystemHidesSecrets reads all that a running system prints, logs, answers and stores, while all is well, when an
// engine is gone, and when NATS is.
func TestRunningSystemHidesSecrets(t *testing.T) {
	const model = "qwen3-coder:30b"
	for _, tt := range []struct {
		name, userinfo, shown string
		users                 []natsembed.User
	}{
		{"password", "user:" + secret, "user:xxxxx", []natsembed.User{{Name: "user", Password: secret}}},
		{"token", secret, "xxxxx", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := natstest.Start(t, natsembed.Options{Users: tt.users})
			url := strings.Replace(server.URL(), "://", "://"+tt.userinfo+"@", 1)
			engine := ollamatest.Start(t, ollamatest.Options{Model: model})
			engineURL := strings.Replace(engine.URL(), "://", "://"+tt.userinfo+"@", 1)
			book := &logs.Buffer{}
			log := slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
			var addresses []string
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
				w, err := app.StartWorker(ctx, app.WorkerConfig{Role: role, Log: log, Flags: app.WorkerFlags{
					NATS: url, Model: model, Engine: "ollama", EngineURL: engineURL, Slots: 1, NumCtx: 4096, HTTP: "127.0.0.1:0",
					Machine: "machine-" + string(role), StateDir: t.TempDir(), StartTimeout: limit, DrainLimit: limit, Measure: "never",
				}})
				if err != nil {
					t.Fatal(err)
				}
				addresses = append(addresses, w.Addr())
				running.Go(func() {
					if err := w.Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			t.Setenv("TANDEM_NATS", url)
			t.Setenv("TANDEM_USER", "u")
			workers := func(so func(queue.Presence) bool) {
				t.Helper()
				c, err := queue.Connect(t.Context(), queue.Config{URL: url, Name: "test", Log: log})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := eventually(func() error {
					list, err := c.Workers(t.Context())
					if err == nil && (len(list) != 2 || slices.ContainsFunc(list, func(p queue.Presence) bool { return !so(p) })) {
						err = errNot
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			look := func(when string, commands ...string) {
				t.Helper()
				for _, c := range commands {
					printed, _ := command(t, append([]string{"submitter"}, strings.Fields(c)...)...)
					hides(t, c+" "+when, printed)
				}
				for _, address := range addresses {
					for _, path := range []string{"/health", "/ready", "/metrics"} {
						hides(t, path+" "+when, fetch(t, "http://"+address+path))
					}
				}
				hides(t, "log "+when, book.String())
			}

			workers(queue.Presence.Live)
			all := []string{"status", "status --json", "doctor", "doctor --json", "explain " + model, "result unknown", "dlq list", "submit -m " + model + " --json p"}
			look("while all is well", all...)
			engine.Down()
			workers(func(p queue.Presence) bool { return p.State == queue.StateDown })
			look("without engine", append(all[:4:4], "submit -m "+model+" --timeout 1s p")...)
			hides(t, "the store", stored(t, url))
			engine.Up(t)
			workers(queue.Presence.Live)
			server.Stop()
			if err := eventually(func() error {
				if !strings.Contains(fetch(t, "http://"+addresses[0]+"/ready"), "no connection to NATS at nats://"+tt.shown+"@") {
					return errNot
				}
				return nil
			}); err != nil {
				t.Errorf("/ready does not say where NATS is: %s", fetch(t, "http://"+addresses[0]+"/ready"))
			}
			look("without NATS", "status", "status --json", "doctor", "doctor --json", "submit -m "+model+" --json --direct "+engineURL+" p")
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := eventually(func() error {
				if !strings.Contains(book.String(), "connected to NATS again") {
					return errNot
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			stop()
			running.Wait()
			look("after the end")
		})
	}
}

// errNot is for what is not as wanted yet.
var errNot = errors.New("not yet")

// fetch returns the body of an answer, whatever its status.
func fetch(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err.Error() // the worker has ended
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// stored returns all messages of all streams: presences, results and whatever else there is.
func stored(t *testing.T, url string) string {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	streams := js.ListStreams(t.Context())
	for info := range streams.Info() {
		s, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
			if m, err := s.GetMsg(t.Context(), n); err == nil { // else it was removed
				fmt.Fprintln(&all, m.Subject, m.Header, string(m.Data))
			}
		}
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(all.String(), `"state":"down"`) || !strings.Contains(all.String(), `"text":`) {
		t.Errorf("the store has neither presences nor results: %.1000s", all.String())
	}
	return all.String()
}
