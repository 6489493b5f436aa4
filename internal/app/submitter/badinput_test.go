package submitter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// evil does to a terminal what no text of others may: it colours, sets the title, turns text round, and begins a line.
const evil = "\x1b[31mred\x1b]0;title\a\u009b32m\u202eback\u2066\rover\nSTREAM fake\tcell"

// harmful reports the characters that act upon a terminal.
func harmful(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

// call runs the command as main does.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = Main(t.Context(), args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// What other users, workers and engines wrote does nothing to the terminal of who looks at it, whichever command shows it.
func TestOthersWordsAreSanitized(t *testing.T) {
	server := natstest.Start(t, natsembed.Options{})
	conn, err := queue.Connect(t.Context(), queue.Config{URL: server.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		if err := conn.EnsureConsumers(t.Context(), role, evil+":7b"); err != nil {
			t.Fatal(err)
		}
	}
	id := jobs.NewID()
	dead := &jobs.Job{ID: id, User: "tester", Batch: "b", CustomID: evil, Class: jobs.Class(evil), Model: evil}
	if err := conn.PublishDeadLetter(t.Context(), jobs.StageDecode, evil, id, queue.DeadLetter{
		Code: jobs.Code(evil), Message: evil, User: "tester", Batch: evil, Job: *dead, Worker: evil, FailedAt: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
	for _, status := range []jobs.Status{jobs.Failed, jobs.Succeeded} {
		r := jobs.NewResult(&jobs.Job{ID: jobs.NewID(), User: "tester", Batch: "b", CustomID: evil, Model: evil}, status)
		r.Servers, r.Method, r.Warnings, r.Decision = jobs.Servers{Prefill: evil, Decode: evil}, jobs.Method(evil), []string{evil}, evil
		r.Error = &jobs.ErrorInfo{Code: jobs.Code(evil), Stage: jobs.Stage(evil), Message: evil}
		if status == jobs.Succeeded {
			r.Error, id = nil, r.JobID
		}
		if _, err := conn.PublishResult(t.Context(), r, ""); err != nil {
			t.Fatal(err)
		}
		dead.ReplayOf = r.JobID
	}
	present(t, server.URL())

	t.Setenv("TANDEM_NATS", server.URL())
	t.Setenv("TANDEM_USER", "tester")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	deadID := dead.ID
	for _, args := range [][]string{
		{"status"}, {"dlq"}, {"dlq", "list"}, {"dlq", "list", "--batch", evil}, {"dlq", "show", deadID}, {"dlq", "replay", deadID}, {"dlq", "drop", evil},
		{"result", id}, {"result", dead.ReplayOf}, {"result", deadID}, {"result", evil}, {"await", id}, {"await", "--batch", "b"}, {"await", "--batch", evil},
		{"cancel", id}, {"cancel", deadID, evil}, {"cancel", "--batch", evil}, {"doctor", "--no-job"}, {"explain", evil}, {"explain", "m"},
		{"submit", "-m", "unknown", "hello"}, {"submit", "-m", evil, "hello"}, {"submit", "-m", "m", "-o", evil + "=1", "hello"}, {"submit", "-m", "m", "--think", evil, "x"},
		{"submit", "-m", "m", "--file", evil}, {"purge", evil}, {"purge", "b", "--yes"}, {evil},
	} {
		_, stdout, stderr := call(t, args...)
		for name, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
			if i := strings.IndexFunc(text, harmful); i >= 0 {
				t.Errorf("%.30q: %s has %q", args, name, text[max(0, i-40):min(len(text), i+40)])
			}
		}
		if stdout+stderr == "" {
			t.Errorf("%.30q says nothing", args)
		}
		if args[0] != "status" && args[0] != "dlq" {
			continue
		}
		for line := range strings.Lines(stdout) {
			if strings.HasPrefix(line, "STREAM fake") {
				t.Errorf("%.30q: what others wrote begins a line: %q", args, line)
			}
		}
	}
}

// present makes a worker be there that says evil things of itself.
func present(t *testing.T, url string) {
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
	kv, err := js.KeyValue(t.Context(), queue.BucketWorkers)
	if err != nil {
		t.Fatal(err)
	}
	for i, state := range []string{queue.StateReady, queue.StateDown, evil} {
		data, err := json.Marshal(queue.Presence{
			Worker: evil, Machine: evil, Role: protocol.RoleDecode, Model: evil + ":7b", Engine: evil, EngineVersion: evil, ModelDigest: fmt.Sprint(i) + evil, State: state,
			Problem: evil, HTTP: evil, Version: evil, NoState: evil, StoppedPairs: []string{evil}, SkewSeconds: 100,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), fmt.Sprintf("decode.m.w%d", i), data); err != nil {
			t.Fatal(err)
		}
	}
}

// A custom_id is the name of a file: whatever it is, the file lies in the folder and can be copied anywhere.
func TestResultFilesStayInTheirFolder(t *testing.T) {
	dir := t.TempDir()
	d, err := openResultDir(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	names := []string{
		"..", ".", "../up", "/etc/passwd", `..\up`, `C:\x`, "a/../../b", "*", "a>b", "con", "CON", "NUL", "prn", "aux", "com1", "LPT9", "CONTENT", "com10",
		"-rf", "~", "$HOME", "`id`", "a b", " ", "é", "漢字", ".hidden", "batch.manifest", "x.part", "=CON",
	}
	for _, name := range names {
		if err := d.write(jobs.NewResult(&jobs.Job{ID: jobs.NewID(), User: "u", Batch: "b", CustomID: name, Model: "m:1"}, jobs.Succeeded)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	found := map[string]bool{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		base := filepath.Base(path)
		if filepath.Dir(path) != filepath.Join(dir, "out") {
			t.Errorf("%s lies outside", path)
		}
		stem, _, _ := strings.Cut(strings.ToUpper(base), ".")
		if isDevice(stem) || strings.ContainsAny(base, `<>"|?*\/`) || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "-") && base != "-rf.json" {
			t.Errorf("%q is no name everywhere", base)
		}
		found[base] = true
		return nil
	})
	if err != nil || len(found) != len(names) {
		t.Errorf("%d files for %d names (%v)", len(found), len(names), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "out", "=CON.json")); err != nil {
		t.Error(err)
	}
}

// A broken batch file is refused as a whole, line by line, and nothing is asked of the queue: none is there.
func TestBadLinesAreRefusedByName(t *testing.T) {
	t.Setenv("TANDEM_NATS", "nats://127.0.0.1:1")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	line := func(fields string) string { return `{"custom_id":"a","model":"m",` + fields + `}` }
	for name, tt := range map[string]struct{ line, want string }{
		"custom_id with an escape sequence": {`{"custom_id":"\u001b[31m","model":"m","prompt":"p"}`, `custom_id "\x1b[31m" holds characters that cannot be printed`},
		"custom_id with a bidi override":    {`{"custom_id":"a\u202eb","model":"m","prompt":"p"}`, `custom_id "a\u202eb" holds`},
		"custom_id of a megabyte":           {`{"custom_id":"` + strings.Repeat("x", 1<<20) + `","model":"m","prompt":"p"}`, "custom_id makes a file name of 1048581 bytes; 250 are allowed: shorten it"},
		"custom_id that grows":              {`{"custom_id":"` + strings.Repeat("é", 100) + `","model":"m","prompt":"p"}`, "custom_id makes a file name of 605 bytes"},
		"model with a line break":           {`{"custom_id":"a","model":"m\r\nX: y","prompt":"p"}`, `model "m\r\nX: y" holds white space`},
		"an unknown field of a megabyte":    {line(`"prompt":"p","` + strings.Repeat("p", 1<<20) + `":1`), `is unknown; known are`},
		"an unknown field that acts":        {line(`"prompt":"p","\u001b[2J":1`), `field "\x1b[2J" is unknown`},
		"a number of a megabyte":            {line(`"prompt":"p","shared_prefix":` + strings.Repeat("9", 1<<20)), "shared_prefix is a JSON number 999"},
		"seed 1e400":                        {line(`"prompt":"p","options":{"seed":1e400}`), "options.seed is a JSON number 1e400; want a whole number of 64 bits"},
		"duplicate keys":                    {line(`"prompt":"p","prompt":"q"`), `duplicate key "prompt"`},
		"format nested 10,000 deep":         {line(`"prompt":"p","format":` + strings.Repeat(`{"a":`, 10_000) + `1` + strings.Repeat("}", 10_000)), "nested too deep"},
		"a prompt of 4 MiB and a byte":      {line(`"prompt":"` + strings.Repeat("p", jobs.MaxBody+1) + `"`), "the prompt is 4194305 bytes long; 4194304 are allowed"},
		"no UTF-8":                          {line("\"prompt\":\"\xff\""), "invalid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "jobs.jsonl")
			out := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(file, []byte(tt.line+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := call(t, "batch", file, "--out", out)
			if code != 2 || stdout != "" || !strings.Contains(stderr, "line 1: ") || !strings.Contains(stderr, tt.want) || !strings.Contains(stderr, "nothing was submitted") {
				t.Errorf("code %d, %.600q; want 2 and %q", code, stderr, tt.want)
			}
			if len(stderr) > 1500 || strings.ContainsFunc(stderr, harmful) {
				t.Errorf("stderr has %d bytes: %.200q", len(stderr), stderr)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("the folder for results was made")
			}
		})
	}
}
