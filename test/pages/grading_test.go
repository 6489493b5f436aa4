package pages

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/app/submitter"
	"tandem/internal/gateway"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/logs"
	"tandem/test/npm"
	"tandem/test/paperworker"
)

const hostile = "<img src=x onerror=alert(1)>"

// TestGrading has a browser bring a class to the console, from its files to its reports, and decide about it. Names of files and what the models say are markup. A terminal goes on with what the browser began.
func TestGrading(t *testing.T) {
	npm.Install(t)
	said := &logs.Buffer{}
	log := slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		for _, secret := range []string{"ermission", "student-0", "onerror", "homework-4"} { // what is not allowed, and what is private
			if strings.Contains(said.String(), secret) {
				t.Errorf("the log says %q:\n%s", secret, said.String())
			}
		}
	})
	models, keys := []string{"qwen3-coder:30b", "gpt-oss:120b"}, access.Folder(filepath.Join(t.TempDir(), "access"))
	if err := keys.Create([]string{"127.0.0.1"}, models); err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, natsembed.Options{Include: keys.Config()})
	operator := queue.Config{URL: server.URL(), Name: "operator", NKey: keys.Operator(), TLSCA: keys.CA(), Log: log}
	conn, err := queue.Connect(t.Context(), operator)
	if err == nil {
		err = conn.EnsureStreams(t.Context())
	}
	for _, model := range models {
		for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
			if err == nil {
				err = conn.EnsureConsumers(t.Context(), role, model)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	g := &gate{open: make(chan struct{})}
	for _, model := range models {
		worker := queue.Config{URL: server.URL(), NKey: keys.Worker(protocol.RoleDecode, model), TLSCA: keys.CA(), Inbox: access.WorkerInbox(protocol.RoleDecode, model), Log: log}
		paperworker.Start(t, worker, operator, model, "machine of "+model, 2, g.judge)
	}
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), NKey: keys.Gateway(), CA: keys.CA(), User: access.GatewayInbox, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	secrets := map[people.Role]string{}
	for _, role := range people.Roles {
		if secrets[role], err = gateway.AddToken(tokens, gateway.Token{Name: string(role), User: string(role), Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	classes, files := t.TempDir(), uploads(t)
	at := app.GatewayAddress{HTTP: "127.0.0.1:0", Grading: classes}
	front, err := app.StartGateway(context.Background(), at, gateway.Options{System: admin.New(c), Tokens: tokens, Version: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := front.Stop(); err != nil {
			t.Error(err)
		}
	})
	lever := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/open":
			g.let()
		case "/terminal":
			dir := filepath.Join(classes, "homework-4")
			var out bytes.Buffer
			code := submitter.Main(r.Context(), []string{
				"--nats", server.URL(), "--nkey", keys.Operator(), "--tls-ca", keys.CA(), "--user", "grader", "grade", filepath.Join(dir, "submissions"), "--rubric", filepath.Join(dir, "rubric.json"), "--solution", filepath.Join(dir, "solution.ipynb"),
				"--template", filepath.Join(dir, "template.ipynb"), "--out", filepath.Join(dir, "grades"), "--resume",
			}, strings.NewReader(""), &out, &out)
			if text := out.String(); code != app.ExitDegraded || !strings.Contains(text, "6 submissions: 2 graded") { // 3: some need review
				t.Errorf("submitter grade: exit code %d: %s", code, text)
			}
		}
	}))
	t.Cleanup(lever.Close)
	drive(t, "console_grading.mjs", front.URL(), lever.URL, secrets[people.Grader], secrets[people.Viewer], files)
	checkModes(t, classes)
}

// gate holds the models' answers back until it is opened.
type gate struct {
	once sync.Once
	open chan struct{}
}

func (g *gate) let() { g.once.Do(func() { close(g.open) }) }

// judge answers as the job's schema asks for, with markup wherever it may write a text.
func (g *gate) judge(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
	if task.Job.Labels["kind"] == "feedback" {
		select {
		case <-g.open:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
	}
	var form schema
	if err := json.Unmarshal(task.Job.Format, &form); err != nil {
		return protocol.Outcome{}, err
	}
	text, err := json.Marshal(form.fill())
	if err != nil {
		return protocol.Outcome{}, err
	}
	r := jobs.NewResult(task.Job, jobs.Succeeded)
	r.Text, r.FinishReason, r.Method = string(text), "stop", jobs.MethodLocal
	r.Usage.PromptTokens, r.Usage.GeneratedTokens = 1000, 100
	r.Timings.PrefillSeconds, r.Timings.DecodeSeconds, r.Timings.TotalSeconds = 1, 2, 3
	return protocol.Outcome{Result: r}, nil
}

// schema is what a job's answer must be like.
type schema struct {
	Properties map[string]*schema
	Items      *schema
	Enum       []string
}

func (s *schema) fill() any {
	switch {
	case s.Items != nil:
		return []any{s.Items.fill()}
	case slices.Contains(s.Enum, "met"):
		return "met"
	case s.Enum != nil:
		return s.Enum[0]
	case s.Properties == nil:
		return "<script>alert(1)</script>"
	}
	object := map[string]any{}
	for key, value := range s.Properties {
		object[key] = value.fill()
	}
	return object
}

// uploads makes a folder with what an instructor has.
func uploads(t *testing.T) string {
	dir := t.TempDir()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("../../examples/class", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"rubric.json", "solution.ipynb", "template.ipynb"} {
		write(name, read(name))
	}
	write("wrong-rubric.json", bytes.Replace(read("rubric.json"), []byte(`"weight": 0.25`), []byte(`"weight": "heavy"`), 1))
	write(hostile+".ipynb", read("submissions/student-01.ipynb"))
	write("essay.docx", []byte("no notebook"))
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, n := range []string{"2", "3", "4", "5", "7"} {
		f, err := w.Create("student-0" + n + "/hw4.ipynb")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(read("submissions/student-0" + n + ".ipynb")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	write("class.zip", archive.Bytes())
	return dir
}

// checkModes holds what was written to what its owner alone may read.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read %s: %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
