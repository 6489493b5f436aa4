package workerhttp

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net/http"
	"strings"

	"tandem/internal/httphost"
	"tandem/jobs"
)

// callsPerSlot is how many calls are taken at once for each slot: one that runs, and the others wait.
const callsPerSlot = 9

// retryAfter is when to try again, in seconds, if too many calls wait.
const retryAfter = "10"

// refusal is the error of a request that reaches no engine, with a status of its own.
type refusal struct {
	status int
	err    *jobs.Error
}

func (r *refusal) Error() string { return r.err.Error() }

// Unwrap returns the error with its code.
func (r *refusal) Unwrap() error { return r.err }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, jobs.Errorf(jobs.CodeInvalid, format, args...)}
}

// guard lets requests through to the routes that no web page can have sent and that have the token, if one is asked for.
func (s *server) guard(routes *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.admit(w, r); err != nil {
			_, pattern := routes.Handler(r)
			_, path, _ := strings.Cut(pattern, " ")
			s.write(w, cmp.Or(path, "other"), nil, err)
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// admit is why a request is refused, or nil. A page whose own name was made to lead to this address sends that name as Host.
func (s *server) admit(w http.ResponseWriter, r *http.Request) error {
	if !httphost.Ours(r.Host, s.Hosts...) {
		return refuse(http.StatusMisdirectedRequest, "this worker does not answer to the host %.100q; ask for it by its IP address, or allow the name with --http-host", r.Host)
	}
	// Checked as a POST, since a GET passes always; pages have no business here with either.
	if err := s.origins.Check(&http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}); err != nil {
		return refuse(http.StatusForbidden, "web pages of other origins cannot use this API: %w", err)
	}
	if s.authorized(r) {
		return nil
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	if r.Header.Get("Authorization") == "" && r.URL.Path == "/health" { // which then says only whether the worker lives
		return nil
	}
	return refuse(http.StatusUnauthorized, "this API asks for a token; send the one in the worker's --http-token-file as Authorization: Bearer TOKEN")
}

// authorized reports whether a request has the token, or none is asked for.
func (s *server) authorized(r *http.Request) bool {
	if s.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.Token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// bounded lets as many calls through to f as may wait for the slots. Only JSON is taken: what a page's form can send is not.
func (s *server) bounded(f handler) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		sent := r.Header.Get("Content-Type")
		if kind, _, err := mime.ParseMediaType(sent); err != nil || kind != "application/json" {
			return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type is %.100q; send application/json (curl -H 'Content-Type: application/json')", sent)
		}
		select {
		case s.calls <- struct{}{}:
			defer func() { <-s.calls }()
			return f(w, r)
		default:
			w.Header().Set("Retry-After", retryAfter)
			return nil, jobs.Errorf(jobs.CodeEngineBusy, "%d calls run or wait at this worker already; try again later, or submit a job, which waits in the queue", cap(s.calls))
		}
	}
}
