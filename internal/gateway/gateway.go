// Package gateway is the front door for programs that speak Ollama's or OpenAI's API: each request becomes a job, and its answer what the program
// expects. Behind it is the public client (tandem/client), and nothing else.
package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/httphost"
	"tandem/internal/people"
	"tandem/internal/tracing"
	"tandem/jobs"
)

// Limits of requests.
const (
	maxBody    = 8 << 20 // bytes; a job's own limit is below it
	maxStreams = 1000    // requests that are answered at the same time
)

// Options are what a gateway is made of.
type Options struct {
	System   *admin.Client // does the jobs, and knows the workers
	Tokens   string        // file of those who may ask, each for jobs of its own user, which the key of System must allow; empty: everybody, for the user of System
	Plan     jobs.Plan     // of jobs whose request names none
	Hosts    []string      // names under which it may be asked, beside IP addresses and localhost
	Timeout  time.Duration // after which a request that is not answered is given up, and its job cancelled; default half an hour
	Version  string        // of the program
	Console  http.Handler  // pages for people, below /console/, which asks package people who they are; nil for none
	MostRole people.Role   // what anybody may do there at most, whatever the token says; without tokens what everybody may, grader if it is empty
	Log      *slog.Logger  // of each request: who, what, status, seconds; no text of a prompt or an answer
	Observe  Observer      // may be nil
}

// Gateway is an [http.Handler] that answers requests.
type Gateway struct {
	http.Handler
	stop func()
}

// Close ends what goes on beside the requests, which must have ended.
func (g *Gateway) Close() { g.stop() }

// gateway answers requests.
type gateway struct {
	Options
	origins *http.CrossOriginProtection
	streams chan struct{}
	people  chan struct{} // likewise of browsers
	now     func() time.Time

	tokens  *tokens // nil if everybody may ask
	account *account
	users   sync.Map // by name: [*admin.Client]
	held    held
}

// New returns a gateway. Close must be called.
func New(ctx context.Context, o Options) (*Gateway, error) {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Minute)
	if o.Observe == nil {
		o.Observe = nobody{}
	}
	g := &gateway{Options: o, origins: http.NewCrossOriginProtection(), streams: make(chan struct{}, maxStreams), people: make(chan struct{}, maxPeople), now: time.Now}
	running, stop := context.WithCancel(context.Background())
	var aside sync.WaitGroup
	if o.Tokens != "" {
		var err error
		if g.tokens, err = openTokens(o.Tokens, o.Log); err != nil {
			stop()
			return nil, err
		}
		kv, err := OpenUsage(ctx, o.System.JetStream())
		if err != nil {
			stop()
			return nil, err
		}
		g.account = newAccount(kv, o.Log)
		aside.Go(func() { g.account.run(running) })
	}
	mux := http.NewServeMux()
	g.ollama(mux)
	g.openAI(mux)
	g.seeds(mux)
	if o.Console != nil {
		mux.Handle(consolePath, o.Console)
		mux.HandleFunc("POST "+signInPath, g.signIn)
		g.handle(mux, "POST "+askPath, ollamaError, g.ask)
	}
	b, err := openBatches(ctx, g)
	if err != nil {
		o.Log.Warn("no files and batches: the key to NATS may not keep them; gateway.nk may", "error", err)
		mux.HandleFunc("/v1/files", noBatches)
		mux.HandleFunc("/v1/batches", noBatches)
	} else {
		b.api(func(pattern string, h handler) { g.handle(mux, pattern, openAIError, h) })
		aside.Go(func() { b.run(running) })
	}
	return &Gateway{g.guard(mux), func() { stop(); aside.Wait() }}, nil
}

func noBatches(w http.ResponseWriter, _ *http.Request) {
	writeError(w, openAIError, refuse(http.StatusNotImplemented, "path", "this gateway keeps no files and batches: its key to NATS may not; whoever runs it gives it gateway.nk"))
}

// caller is who sends a request.
type caller struct {
	token  *Token // nil if none is asked for
	system *admin.Client
}

type callerKey struct{}

func callerOf(r *http.Request) caller { return r.Context().Value(callerKey{}).(caller) }

// may refuses a model that is not for the caller.
func (c caller) may(model string) error {
	if c.token != nil && len(c.token.Models) > 0 && !slices.Contains(c.token.Models, model) {
		return refuse(http.StatusForbidden, "model", "token %s is not for model %.100s; it is for %s", c.token.Name, model, strings.Join(c.token.Models, ", "))
	}
	return nil
}

// enter finds out who sends a request. Leave must be called at its end.
func (g *gateway) enter(r *http.Request) (c caller, leave func(), err error) {
	if g.tokens == nil {
		return caller{system: g.System}, func() {}, nil
	}
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains([]string{"/", "/api/version", "/health"}, r.URL.Path) { // which ask only whether there is a gateway
		return caller{token: &Token{Name: "none"}, system: g.System}, func() {}, nil
	}
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token, leave, err := g.tokens.enter(secret)
	return g.within(r.Context(), token, leave, err)
}

// within lets in whose token was let in, unless it has used what it may today.
func (g *gateway) within(ctx context.Context, token *Token, left func(), refused error) (c caller, leave func(), err error) {
	if refused != nil {
		return c, nil, refused
	}
	c.token = token
	if most := c.token.PerDay; most > 0 && g.account.today(ctx, c.token.Name) >= most {
		left()
		now := g.now().UTC()
		return c, nil, tooMany("tokens_per_day", now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now), "token %s has used its %d tokens of today; it has as many again at midnight UTC", c.token.Name, most)
	}
	c.system = g.client(c.token.User)
	return c, left, nil
}

// place is that of a request among those that are answered. It must be left at its end.
func (g *gateway) place() (leave func(), err error) {
	select {
	case g.streams <- struct{}{}:
		return func() { <-g.streams }, nil
	default:
		return nil, tooMany("streams", 10*time.Second, "%d requests are being answered already; try again later", maxStreams)
	}
}

// client is the client of a user.
func (g *gateway) client(user string) *admin.Client {
	if known, there := g.users.Load(user); there {
		return known.(*admin.Client)
	}
	known, _ := g.users.LoadOrStore(user, g.System.For(user))
	return known.(*admin.Client)
}

// dialect is how an API writes its errors.
type dialect func(err error) any

// handler answers one request. An error that it returns before anything was written becomes the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle makes a handler part of an API.
func (g *gateway) handle(mux *http.ServeMux, pattern string, as dialect, h handler) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			writeError(w, as, err)
		}
	})
}

// guard refuses what must not come in, and logs all.
func (g *gateway) guard(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answered := g.now(), g.Observe.Request()
		seen := &recorder{ResponseWriter: w, status: http.StatusOK}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // of the stream before, on this connection
		_, pattern := mux.Handler(r)
		defer func() { answered(cmp.Or(pattern, "other"), seen.status, seen.limit) }()
		token := g.admit(seen, r, mux)
		g.Log.Info("request", "token", token, "method", r.Method, "path", cmp.Or(pattern, "other"), "status", seen.status, "seconds", g.now().Sub(began).Seconds(), "job", w.Header().Get(headerJob), seen.trace)
	})
}

// admit lets a request through to its handler, or refuses it. It returns the name of its token.
func (g *gateway) admit(w *recorder, r *http.Request, mux *http.ServeMux) (token string) {
	as := dialect(ollamaError)
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		as = openAIError
	}
	if !httphost.Ours(r.Host, append([]string{"localhost"}, g.Hosts...)...) {
		writeError(w, as, refuse(http.StatusMisdirectedRequest, "host", "this gateway does not answer to the host %.100q; ask for it by its IP address, or allow the name with --http-host", r.Host))
		return ""
	}
	if strings.HasPrefix(r.URL.Path, consolePath) && g.Console != nil {
		return g.admitPerson(w, r, mux)
	}
	// Checked as a POST, since a GET passes always; pages of other origins have no business here with either.
	if err := g.origins.Check(&http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}); err != nil {
		writeError(w, as, refuse(http.StatusForbidden, "origin", "web pages of other origins cannot use this API: %v", err))
		return ""
	}
	who, leave, err := g.enter(r)
	if err != nil {
		writeError(w, as, err)
		return ""
	}
	defer leave()
	if who.token != nil {
		token = who.token.Name
	}
	left, err := g.place()
	if err != nil {
		writeError(w, as, err)
		return token
	}
	defer left()
	_, pattern := mux.Handler(r)
	if pattern == "" {
		writeError(w, as, refuse(http.StatusNotFound, "path", "there is no %s %.100q here; docs/GATEWAY.md lists what there is", r.Method, r.URL.Path))
		return token
	}
	if r.Method == http.MethodPost { // no other begins a job
		traced, answered := traced(w, r, pattern)
		defer answered()
		r = traced
	}
	mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
	return token
}

// traced begins the trace of a request that was let in, or goes on with the one that it names.
func traced(w *recorder, r *http.Request, pattern string) (_ *http.Request, answered func()) {
	r, end := tracing.Request(r, pattern)
	w.trace = tracing.Log(r.Context())
	return r, func() { end(w.status) }
}

// read reads a request's body, strictly: no key twice, no key that is not known.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	return decode(data, into)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	// Ollama's own clients send JSON without saying so, and curl calls it a form; what pages can send was refused before.
	if sent := r.Header.Get("Content-Encoding"); sent != "" && sent != "identity" { // nor unpack what may be a thousand times as long
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Encoding", "Content-Encoding is %.40q; send the body as it is", sent)
	}
	if sent := r.Header.Get("Content-Type"); sent != "" {
		if kind, _, err := mime.ParseMediaType(sent); err != nil || kind != "application/json" && kind != "application/x-www-form-urlencoded" {
			return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type", "Content-Type is %.100q; send application/json", sent)
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLong, is := errors.AsType[*http.MaxBytesError](err); is {
		return nil, refuse(http.StatusRequestEntityTooLarge, "", "the body has more than %d bytes; send less", tooLong.Limit)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "", "the body cannot be read: %v", err)
	}
	return data, nil
}

// decode reads a JSON object.
func decode(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return refuse(http.StatusBadRequest, "", "the body is empty; send a JSON object")
	}
	if err := jobs.CheckJSON(data); err != nil {
		return refuse(http.StatusBadRequest, "", "the body is not as it must be: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badField(err)
	}
	return nil
}

// badField says which field of a body is wrong.
func badField(err error) error {
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return refuse(http.StatusBadRequest, wrong.Field, "%s is of JSON type %s; want %s", cmp.Or(wrong.Field, "the body"), wrong.Value, wrong.Type)
	}
	if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
		field = strings.Trim(field, `"`)
		return refuse(http.StatusBadRequest, field, "%s is not supported here; leave it out (docs/GATEWAY.md lists what is)", field)
	}
	return refuse(http.StatusBadRequest, "", "the body is not as it must be: %v", err)
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // whoever is gone is told nothing
	return nil
}

// recorder remembers the status of an answer, and the limit by which it was refused.
type recorder struct {
	http.ResponseWriter
	status int
	limit  string
	trace  slog.Attr // names the request's trace; zero if there is none
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// models are those that the caller's jobs may ask for, each with what its live workers say.
func (g *gateway) models(r *http.Request) ([]model, error) {
	ctx, who := r.Context(), callerOf(r)
	names, err := g.System.Models(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := g.System.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var list []model
	for _, name := range names {
		if who.may(name) != nil {
			continue
		}
		m := model{name: name}
		for _, w := range workers {
			if w.Model == name && w.Live() {
				m.live = true
				m.capabilities = inBoth(m.capabilities, w.Capabilities)
				m.digest = cmp.Or(m.digest, strings.TrimPrefix(w.ModelDigest, "sha256:"))
				if m.context == 0 || w.ContextTokens > 0 && w.ContextTokens < m.context {
					m.context = w.ContextTokens
				}
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// model is what is known of one.
type model struct {
	name    string
	digest  string // of its file, "" if no live worker says it
	context int    // smallest of its workers, in tokens; 0 if not known
	live    bool   // a worker serves it now

	capabilities []string // that all its live workers have; nil if none says
}

// can reports whether its workers have an ability, as far as they say.
func (m model) can(ability string) bool {
	return m.capabilities == nil || slices.Contains(m.capabilities, ability)
}

// inBoth are the capabilities of two workers; one that does not say has any.
func inBoth(a, b []string) []string {
	if a == nil || b == nil {
		return append(a, b...)
	}
	return slices.DeleteFunc(slices.Clone(a), func(c string) bool { return !slices.Contains(b, c) })
}

// find looks for a model by any of its names.
func (g *gateway) find(r *http.Request, name string) (model, error) {
	canonical, err := jobs.CanonicalModel(name)
	if err != nil {
		return model{}, refuse(http.StatusBadRequest, "model", "model: %v", err)
	}
	if err := callerOf(r).may(canonical); err != nil {
		return model{}, err
	}
	list, err := g.models(r)
	if err != nil {
		return model{}, err
	}
	i := slices.IndexFunc(list, func(m model) bool { return m.name == canonical })
	if i < 0 {
		return model{}, refuse(http.StatusNotFound, "model", "model '%s' not found", canonical)
	}
	return list[i], nil
}
