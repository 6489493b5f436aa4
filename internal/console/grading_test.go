package console

import (
	"bytes"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/grading"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/people"
)

// room is a console with classes.
type room struct {
	t *testing.T
	*Console
	desk *grading.Desk
	dir  string
}

func openRoom(t *testing.T) *room {
	t.Helper()
	server := natstest.Start(t, natsembed.Options{})
	log := slog.New(slog.DiscardHandler)
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), User: "gateway", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := &room{t: t, dir: t.TempDir()}
	if r.desk, err = grading.OpenDesk(grading.Options{Dir: r.dir, System: admin.New(c)}); err != nil {
		t.Fatal(err)
	}
	r.Console = New(Options{System: admin.New(c), Version: "test", Grading: r.desk, Log: log})
	t.Cleanup(func() {
		r.Close()
		if err := r.desk.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ask has a person, USER or USER/ROLE, send a request.
func (r *room) ask(who, method, path string, body io.Reader, kind string) *httptest.ResponseRecorder {
	user, role, _ := strings.Cut(who, "/")
	q := httptest.NewRequestWithContext(r.t.Context(), method, gradingPath+path, body)
	q.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q.WithContext(people.With(q.Context(), people.Person{Name: user, User: user, Role: people.Role(role)})))
	return w
}

// class is a form with a class.
func (r *room) class(name string) (io.Reader, string) {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	_ = w.WriteField("name", name)
	for field, file := range map[string]string{"submissions": "submissions/student-01.ipynb", "rubric": "rubric.json", "solution": "solution.ipynb"} {
		data, err := os.ReadFile(filepath.Join("../../examples/class", file))
		if err != nil {
			r.t.Fatal(err)
		}
		part, _ := w.CreateFormFile(field, filepath.Base(file))
		_, _ = part.Write(data)
	}
	_ = w.Close()
	return &body, w.FormDataContentType()
}

// Only who made a class, and operators, see more of it than its counts, whatever is asked for.
func TestGradingRights(t *testing.T) {
	r := openRoom(t)
	body, kind := r.class("hw")
	if w := r.ask("ada/grader", http.MethodPost, "", body, kind); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console/grading/hw" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	asks := []string{"GET /hw", "GET /hw/grades/index.html", "GET /hw/grades/instructor/roster.csv", "GET /hw/grades.zip", "GET /hw/review", "GET /hw/review/s-222222"}
	for _, what := range []string{"files", "check", "start", "pause", "review", "release", "delete"} {
		asks = append(asks, "POST /hw/"+what)
	}
	for _, ask := range asks {
		method, path, _ := strings.Cut(ask, " ")
		for _, who := range []string{"eve/viewer", "ada/viewer", "bob/grader", "bob/"} {
			if w := r.ask(who, method, path, strings.NewReader("name=hw"), "application/x-www-form-urlencoded"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "student-01") {
				t.Errorf("%s: %s gets %d", ask, who, w.Code)
			}
		}
	}
	if w := r.ask("bob/viewer", http.MethodPost, "", body, kind); w.Code != http.StatusForbidden {
		t.Errorf("a viewer makes a class: %d", w.Code)
	}
	if w := r.ask("bob/viewer", http.MethodGet, "", nil, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "hw") || strings.Contains(w.Body.String(), `href="/console/grading/hw"`) {
		t.Errorf("the list of a viewer: %d %s", w.Code, w.Body)
	}
	for _, who := range []string{"ada/grader", "eve/operator"} {
		if w := r.ask(who, http.MethodGet, "/hw", nil, ""); w.Code != http.StatusOK {
			t.Errorf("%s gets %d", who, w.Code)
		}
	}
	if w := r.ask("ada/grader", http.MethodGet, "/nobody", nil, ""); w.Code != http.StatusNotFound {
		t.Errorf("a class that is not there: %d", w.Code)
	}
}

// A page of the grader's runs no script and has its own style alone; nothing but what was written for people is served.
func TestGradingFiles(t *testing.T) {
	r := openRoom(t)
	grades := filepath.Join(r.dir, "hw", "grades")
	if err := os.MkdirAll(grades, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret.html")
	for name, text := range map[string]string{
		filepath.Join(grades, "index.html"): "<style>\nbody { color: red }\n</style><body>" + skips + "<script>alert(1)</script>", filepath.Join(grades, "ledger.jsonl"): "{}", outside: "secret",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(grades, "link.html")); err != nil {
		t.Fatal(err)
	}
	w := r.ask("eve/operator", http.MethodGet, "/hw/grades/index.html", nil, "")
	// printf '\nbody { color: red }\n' | openssl dgst -sha256 -binary | base64
	if csp := w.Header().Get("Content-Security-Policy"); w.Code != http.StatusOK || !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-SNPkr2rrmHBg5BfR2QoMG2IsNaep0QNmJSgjB3zcBcc='; base-uri 'none'") {
		t.Errorf("%d, policy %s", w.Code, csp)
	}
	if !strings.Contains(w.Body.String(), skips+`<nav class="top" aria-label="Console">`) {
		t.Errorf("there is no way back: %s", w.Body)
	}
	for _, name := range []string{"link.html", "ledger.jsonl", "nothing.html", "..%2fclass.json", "..%2f..%2fhw%2fgrades%2findex.html", ""} {
		if w := r.ask("eve/operator", http.MethodGet, "/hw/grades/"+name, nil, ""); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestGradingUpload(t *testing.T) {
	r := openRoom(t)
	d := &classDesk{r.Console, r.desk, 1000}
	body, kind := r.class("hw")
	q := httptest.NewRequest(http.MethodPost, gradingPath, body)
	q.Header.Set("Content-Type", kind)
	if err := d.upload(httptest.NewRecorder(), q); err == nil || !strings.Contains(err.Error(), "more than 1.0 kB") {
		t.Errorf("an upload that is too large: %v", err)
	}
	if list, err := r.desk.Classes(); err != nil || len(list) > 0 {
		t.Errorf("it left %v, %v", list, err)
	}
	body, kind = r.class("hw")
	whole, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	for name, sent := range map[string][]byte{"broken off": whole[:len(whole)/2], "no form": []byte("x"), "a wrong header": []byte(strings.Replace(string(whole), "form-data", "form\adata", 1))} {
		if w := r.ask("ada/grader", http.MethodPost, "", bytes.NewReader(sent), kind); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `role="alert"`) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := r.ask("ada/grader", http.MethodPost, "", strings.NewReader("name=x"), "application/x-www-form-urlencoded"); w.Code != http.StatusBadRequest {
		t.Errorf("a form without files: %d", w.Code)
	}
}

// Without a folder the page says how there can be one.
func TestGradingIsOff(t *testing.T) {
	r := openRoom(t)
	off := &room{t: t, Console: New(Options{System: r.watch.system, Log: slog.New(slog.DiscardHandler)})}
	defer off.Close()
	if w := off.ask("ada/grader", http.MethodGet, "", nil, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "gateway --grading DIR") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
