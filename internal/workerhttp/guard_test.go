package workerhttp_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/workerhttp"
	"tandem/jobs"
)

// guarded returns a handler that answers to worker.example, asks for the token if there is one, and counts into codes.
func guarded(e engine.Engine, token string, codes map[string]int) http.Handler {
	return workerhttp.New(workerhttp.Config{
		Role: protocol.RoleDecode, Model: "m:latest", Machine: "here", Engine: e, Slots: engine.NewSlots(1), Hosts: []string{"worker.example"}, Token: token,
		Health:  func() engine.Health { return engine.Health{State: engine.Down, Problem: "gone"} },
		Ready:   func() error { return nil },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"metrics": true}`) }),
		Count:   func(path string, code int) { codes[fmt.Sprintf("%s %d", path, code)]++ }, Log: slog.New(slog.DiscardHandler),
	})
}

// request sends what a browser, or curl, would. header lines are "Name: value".
func request(t *testing.T, h http.Handler, method, url, body string, header ...string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		answer = map[string]any{"error": w.Body.String()}
	}
	return w, answer
}

const (
	jsonType  = "Content-Type: application/json"
	localhost = "http://localhost:8000"
)

func TestOnlyOwnHostsAreAnswered(t *testing.T) {
	for host, want := range map[string]int{
		"127.0.0.1:8000": 200, "127.0.0.1": 200, "169.254.150.103:8000": 200, "[::1]:8000": 200, "[::1]": 200,
		"localhost:8000": 200, "LOCALHOST": 200, "localhost.:80": 200, "worker.example:8000": 200, "Worker.Example": 200,
		"evil.example:8000": 421, "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "xworker.example": 421,
		"127.0.0.1@evil.example": 421, "": 421, ".": 421, ":8000": 421, "evil.example:80:80": 421,
	} {
		for _, path := range []string{"/metrics", "/ready", "/health"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			guarded(&echo{}, "", map[string]int{}).ServeHTTP(w, r)
			ok := want
			if path == "/health" && want == 200 {
				ok = 503 // the engine is down
			}
			if w.Code != ok || want == 421 && !strings.Contains(w.Body.String(), "--http-host") {
				t.Errorf("Host %q, %s: %d %s, want %d", host, path, w.Code, w.Body, ok)
			}
		}
	}
}

func TestOtherOriginsAreRefused(t *testing.T) {
	const prompt = `{"prompt": "p"}`
	for _, tt := range []struct {
		name, method, path string
		header             []string
		want               int
	}{
		{"curl", "POST", "/generate", []string{jsonType}, 200},
		{"its own page", "POST", "/generate", []string{jsonType, "Origin: " + localhost}, 200},
		{"its own page, new browser", "POST", "/generate", []string{jsonType, "Origin: " + localhost, "Sec-Fetch-Site: same-origin"}, 200},
		{"a page", "POST", "/generate", []string{jsonType, "Origin: https://evil.example"}, 403},
		{"a page on another port", "POST", "/generate", []string{jsonType, "Origin: http://localhost:3000"}, 403},
		{"a page in a frame", "POST", "/generate", []string{jsonType, "Origin: null"}, 403},
		{"a page, new browser", "POST", "/generate", []string{jsonType, "Sec-Fetch-Site: cross-site"}, 403},
		{"a page with text", "POST", "/generate", []string{"Content-Type: text/plain", "Origin: https://evil.example"}, 403},
		{"a preflight", "OPTIONS", "/generate", []string{"Origin: https://evil.example", "Access-Control-Request-Method: POST"}, 403},
		{"a page that reads", "GET", "/metrics", []string{"Origin: https://evil.example"}, 403},
		{"a page that reads, new browser", "GET", "/metrics", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"typed by hand", "GET", "/metrics", []string{"Sec-Fetch-Site: none"}, 200},
		{"elsewhere", "GET", "/x", []string{"Origin: https://evil.example"}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			codes := map[string]int{}
			w, answer := request(t, guarded(&echo{}, "", codes), tt.method, localhost+tt.path, prompt, tt.header...)
			if w.Code != tt.want || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("status %d %v, want %d", w.Code, answer, tt.want)
			}
			path := tt.path
			if path == "/x" || tt.method == http.MethodOptions {
				path = "other"
			}
			if tt.want == 403 && codes[path+" 403"] != 1 {
				t.Errorf("counted %v, want one of %s", codes, path)
			}
		})
	}
}

func TestOnlyJSONIsTaken(t *testing.T) {
	for sent, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200,
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415, "text/plain; application/json": 415, "application/jsonx": 415,
	} {
		asked := &echo{}
		w, answer := request(t, guarded(asked, "", map[string]int{}), "POST", localhost+"/generate", `{"prompt": "p"}`, "Content-Type: "+sent)
		said, _ := answer["error"].(string)
		if w.Code != want || want == 415 && (!strings.Contains(said, "curl -H 'Content-Type: application/json'") || answer["code"] != string(jobs.CodeInvalid)) {
			t.Errorf("Content-Type %q: %d %v, want %d", sent, w.Code, answer, want)
		}
	}
}

func TestToken(t *testing.T) {
	const token = "a-token-of-some-length"
	for _, tt := range []struct {
		name, method, path, authorization string
		want                              int
	}{
		{"right", "POST", "/generate", "Bearer " + token, 200},
		{"in small letters", "GET", "/metrics", "bearer " + token, 200},
		{"none", "POST", "/generate", "", 401},
		{"none for metrics", "GET", "/metrics", "", 401},
		{"none for readiness", "GET", "/ready", "", 401},
		{"none for what is not there", "GET", "/x", "", 401},
		{"wrong", "GET", "/metrics", "Bearer a-token-of-some-lengtX", 401},
		{"begun", "GET", "/metrics", "Bearer a-token", 401},
		{"empty", "GET", "/metrics", "Bearer ", 401},
		{"of another scheme", "GET", "/metrics", "Basic " + token, 401},
		{"wrong for health", "GET", "/health", "Bearer x", 401},
		{"right for health", "GET", "/health", "Bearer " + token, 503},
		{"none for health", "GET", "/health", "", 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := []string{jsonType}
			if tt.authorization != "" {
				header = append(header, "Authorization: "+tt.authorization)
			}
			w, answer := request(t, guarded(&echo{}, token, map[string]int{}), tt.method, localhost+tt.path, `{"prompt": "p"}`, header...)
			if w.Code != tt.want {
				t.Errorf("status %d %v, want %d", w.Code, answer, tt.want)
			}
			if knows := tt.authorization != "" && tt.want != 401; (w.Header().Get("WWW-Authenticate") == "") != knows {
				t.Errorf("WWW-Authenticate is %q", w.Header().Get("WWW-Authenticate"))
			}
			if tt.name == "none for health" && (len(answer) != 1 || answer["status"] != "down") {
				t.Errorf("without a token /health says %v, want its status only", answer)
			}
			if tt.name == "right for health" && (answer["model"] != "m:latest" || answer["problem"] != "gone") {
				t.Errorf("with the token /health says %v", answer)
			}
		})
	}
}

// So many calls wait for a slot; one more is refused before its body is read.
func TestCallsThatWaitAreBounded(t *testing.T) {
	e := &echo{started: make(chan struct{}), hold: make(chan struct{})}
	r := start(t, protocol.RoleDecode, e)
	const taken = 9
	answers := make(chan int)
	for range taken {
		go func() {
			code := http.StatusServiceUnavailable
			for code == http.StatusServiceUnavailable { // the one more call, below, had the last place for a moment
				code, _ = r.call(t, "POST", "/generate", `{"prompt": "a"}`)
			}
			answers <- code
		}()
	}
	<-e.started
	refused := func() *http.Response { // as the other calls come in one by one
		for {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/generate", strings.NewReader(`{"prompt": ""}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest { // there was room, and its prompt is empty
				return resp
			}
		}
	}()
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("one more call: %s, Retry-After %q", refused.Status, refused.Header.Get("Retry-After"))
	}
	if code, _ := r.call(t, "GET", "/ready", ""); code != http.StatusOK {
		t.Errorf("/ready while calls wait: %d", code)
	}
	for i := range taken {
		e.hold <- struct{}{}
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a call that waited: %d", code)
		}
		if i < taken-1 {
			<-e.started
		}
	}
	if code, _ := r.call(t, "POST", "/generate", `{"prompt": ""}`); code != http.StatusBadRequest {
		t.Errorf("a call when there is room again: %d", code)
	}
}
