package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/people"
)

// consoleDoor is a gateway with the tokens of a file, whose console answers a page at once and keeps a stream open as long as it may.
func consoleDoor(t *testing.T, file string) (*gateway, *http.ServeMux) {
	t.Helper()
	known, err := openTokens(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{tokens: known, origins: http.NewCrossOriginProtection(), people: make(chan struct{}, maxPeople), now: time.Now}
	g.Observe, g.Log = nobody{}, slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+signInPath, g.signIn)
	mux.HandleFunc("GET "+livePath+"{$}", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("GET "+consolePath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a page")) })
	return g, mux
}

// ask is what a browser with a cookie gets.
func ask(t *testing.T, g *gateway, mux *http.ServeMux, path, cookie string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: cookie})
	}
	w := httptest.NewRecorder()
	g.admitPerson(w, r, mux)
	return w
}

// signIn is the answer to a form with a token, and the cookie that came with it.
func signIn(t *testing.T, g *gateway, mux *http.ServeMux, token string) (location, cookie string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, signInPath, strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	g.admitPerson(w, r, mux)
	for _, c := range w.Result().Cookies() {
		cookie = c.Value
	}
	return w.Header().Get("Location"), cookie
}

// A session is for who has a token with a role, as long as both last, and for nobody who makes one up.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens.json")
		ada, err := AddToken(file, Token{Name: "ada", User: "ada", Role: people.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		program, err := AddToken(file, Token{Name: "program", User: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		g, mux := consoleDoor(t, file)
		for what, token := range map[string]string{"nothing": "", "a token of nobody": "tandem-wrong", "a token without a role": program} {
			if location, cookie := signIn(t, g, mux, token); location != signInPath+"?again" || cookie != "" {
				t.Errorf("%s: sent to %q with the session %q", what, location, cookie)
			}
		}
		location, cookie := signIn(t, g, mux, ada)
		if location != consolePath || strings.Contains(cookie, ada) {
			t.Fatalf("who may see the console is sent to %q, with the session %q", location, cookie)
		}
		if w := ask(t, g, mux, consolePath, cookie); w.Code != http.StatusOK {
			t.Errorf("with a session: status %d", w.Code)
		}
		later := strings.Replace(cookie, ".", ".9", 1)
		for what, made := range map[string]string{"none": "", "made up": "ada.9999999999.00", "made longer": later, "another's": strings.Replace(cookie, "ada", "program", 1), "its mark alone": cookie[strings.LastIndex(cookie, "."):]} {
			if w := ask(t, g, mux, consolePath, made); w.Code != http.StatusSeeOther || w.Header().Get("Location") != signInPath {
				t.Errorf("session %s: status %d, sent to %q", what, w.Code, w.Header().Get("Location"))
			}
			if w := ask(t, g, mux, livePath, made); w.Code != http.StatusUnauthorized {
				t.Errorf("session %s, of a page that is open: status %d, want 401", what, w.Code)
			}
		}

		began := time.Now()
		ask(t, g, mux, livePath, cookie) // returns when the session has ended
		if open := time.Since(began); open < sessionLives || open > sessionLives+2*recheckEvery {
			t.Errorf("a page was open for %v, and a session is for %v", open, sessionLives)
		}
		_, cookie = signIn(t, g, mux, ada)
		began = time.Now()
		time.AfterFunc(time.Minute, func() {
			if err := RevokeToken(file, "ada"); err != nil {
				t.Error(err)
			}
		})
		ask(t, g, mux, livePath, cookie)
		if open := time.Since(began); open > time.Minute+2*recheckEvery {
			t.Errorf("a page was open for %v after its token was revoked", open-time.Minute)
		}
	})
}

// Browsers take no place of a program, however many there are.
func TestPeopleHavePlacesOfTheirOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	if _, err := AddToken(file, Token{Name: "ada", User: "ada"}); err != nil {
		t.Fatal(err)
	}
	g, mux := consoleDoor(t, file)
	for range maxPeople {
		g.people <- struct{}{}
	}
	if w := ask(t, g, mux, signInPath, ""); w.Code != http.StatusTooManyRequests {
		t.Errorf("one more page: status %d, want 429", w.Code)
	}
	if len(g.streams) != 0 {
		t.Error("pages take places of programs")
	}
}

// Nobody may more in the console than its owner says; without tokens everybody is a grader of the gateway's own user, unless told otherwise.
func TestMostRole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.json")
	ops, err := AddToken(file, Token{Name: "ops", User: "ops", Role: people.Operator})
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[people.Role]people.Role{"": people.Operator, people.Viewer: people.Viewer, people.Grader: people.Grader, people.Operator: people.Operator} {
		g, mux := consoleDoor(t, file)
		g.MostRole = most
		var got people.Person
		mux.HandleFunc("GET "+consolePath+"who", func(_ http.ResponseWriter, r *http.Request) { got = people.From(r.Context()) })
		_, cookie := signIn(t, g, mux, ops)
		if ask(t, g, mux, consolePath+"who", cookie); got.Role != want || got.User != "ops" {
			t.Errorf("an operator, where %q is the most, is %+v", most, got)
		}
	}
}

// A page that is open ends when its token gets another role, so that it is loaded with that one.
func TestRoleChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens.json")
		ada, err := AddToken(file, Token{Name: "ada", User: "ada", Role: people.Operator})
		if err != nil {
			t.Fatal(err)
		}
		g, mux := consoleDoor(t, file)
		_, cookie := signIn(t, g, mux, ada)
		began := time.Now()
		time.AfterFunc(time.Minute, func() {
			data, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, bytes.Replace(data, []byte("operator"), []byte("viewer"), 1), 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		})
		ask(t, g, mux, livePath, cookie)
		if open := time.Since(began); open > time.Minute+2*recheckEvery {
			t.Errorf("a page was open for %v after its token had another role", open-time.Minute)
		}
	})
}
