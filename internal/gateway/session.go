package gateway

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"tandem/internal/people"
)

// People come with a browser, which signs in once with a token and has a session then: a cookie that names the token, and is signed with its hash. So a session ends
// with its token, and lives on when the gateway is started again.

const (
	consolePath  = "/console/"
	signInPath   = consolePath + "sign-in"
	staticPath   = consolePath + "static/"
	livePath     = consolePath + "live/"
	cookieName   = "tandem-session"
	sessionLives = 12 * time.Hour
	maxForm      = 4 << 10          // bytes
	formLimit    = 5 * time.Second  // for sending it
	maxPeople    = 200              // requests of browsers that are answered at the same time, pages that are open among them
	recheckEvery = 10 * time.Second // whether who has a page open still may
)

// admitPerson lets a browser's request through to the console, or has it sign in first. It returns the name of its token.
func (g *gateway) admitPerson(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) (token string) {
	if err := g.origins.Check(r); err != nil {
		writeError(w, ollamaError, refuse(http.StatusForbidden, "origin", "pages of other origins cannot use the console: %v", err))
		return ""
	}
	select { // apart from the places of programs, since no token is needed to sign in
	case g.people <- struct{}{}:
		defer func() { <-g.people }()
	default:
		writeError(w, ollamaError, tooMany("streams", 10*time.Second, "%d pages are open already; close some, or try again later", maxPeople))
		return ""
	}
	if g.tokens == nil {
		g.serve(w, r, mux, people.Person{User: g.System.User(), Role: cmp.Or(g.MostRole, people.Grader)})
		return ""
	}
	if r.URL.Path == signInPath || strings.HasPrefix(r.URL.Path, staticPath) {
		mux.ServeHTTP(w, r)
		return ""
	}
	who, there := g.session(r)
	switch {
	case there:
	case strings.HasPrefix(r.URL.Path, livePath): // which a page asks, that is to be loaded anew
		w.WriteHeader(http.StatusUnauthorized)
		return ""
	default:
		http.Redirect(w, r, signInPath, http.StatusSeeOther)
		return ""
	}
	ctx, stop := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		again := time.NewTicker(recheckEvery)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				if now, still := g.session(r); !still || now.Role != who.Role || now.User != who.User {
					stop()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	defer watching.Wait()
	defer stop()
	g.serve(w, r.WithContext(ctx), mux, people.Person{Name: who.Name, User: who.User, Role: who.Role, Models: who.Models})
	return who.Name
}

// serve has the console answer a person.
func (g *gateway) serve(w http.ResponseWriter, r *http.Request, mux *http.ServeMux, p people.Person) {
	if g.MostRole != "" && !g.MostRole.May(p.Role) {
		p.Role = g.MostRole
	}
	mux.ServeHTTP(w, r.WithContext(people.With(r.Context(), p)))
}

// session is the token that a browser signed in with.
func (g *gateway) session(r *http.Request) (Token, bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Token{}, false
	}
	name, rest, _ := strings.Cut(cookie.Value, ".")
	until, _, _ := strings.Cut(rest, ".")
	ends, err := strconv.ParseInt(until, 10, 64)
	who, there := g.tokens.named(name)
	if err != nil || !there || who.Role == "" || g.now().After(time.Unix(ends, 0)) || !hmac.Equal([]byte(cookie.Value), []byte(sessionOf(who, ends))) {
		return Token{}, false
	}
	return who, true
}

// sessionOf is the cookie of who has a token, until a time in Unix seconds.
func sessionOf(t Token, ends int64) string {
	said := fmt.Sprintf("%s.%d", t.Name, ends)
	mac := hmac.New(sha256.New, []byte(strings.ToLower(t.SHA256)))
	mac.Write([]byte(said))
	return said + "." + hex.EncodeToString(mac.Sum(nil))
}

// signIn begins a session for who has a token that may see the console.
func (g *gateway) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formLimit))
	if g.tokens == nil {
		http.Redirect(w, r, consolePath, http.StatusSeeOther)
		return
	}
	who, leave, err := g.tokens.enter(r.PostFormValue("token"))
	if err != nil {
		http.Redirect(w, r, signInPath+"?again", http.StatusSeeOther)
		return
	}
	leave()
	if who.Role == "" {
		http.Redirect(w, r, signInPath+"?again", http.StatusSeeOther)
		return
	}
	ends := g.now().Add(sessionLives)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: sessionOf(*who, ends.Unix()), Path: consolePath, Expires: ends, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, consolePath, http.StatusSeeOther)
}
