// Package console is what people see of the pipeline in a browser: pages made on the server, which live by server-sent events and ask nothing of other machines.
package console

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/look"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

const (
	sendEvery  = 500 * time.Millisecond // at most, to a page that is open
	sendLimit  = 10 * time.Second       // for a browser to take it
	keepsAlive = 15 * time.Second       // between signs of life to one to which nothing is to be said
)

// Options are what a console is made of.
type Options struct {
	System  *admin.Client // hears what happens to jobs of all users, and knows the workers
	Version string        // of the program
	Log     *slog.Logger
}

// Console is an [http.Handler] for the paths below /console/. Who may see it, is the caller's to say.
type Console struct {
	http.Handler
	version string
	watch   *watch
	open    context.Context // ends with the console
	stop    func()

	mu    sync.Mutex
	drawn drawn // the overview
}

// drawn is a part of a page, as it was made last.
type drawn struct {
	html    string
	version uint64 // of what was seen
	at      time.Time
}

// New returns a console. Close must be called.
func New(o Options) *Console {
	ctx, stop := context.WithCancel(context.Background())
	c := &Console{version: o.Version, open: ctx, watch: newWatch(o.System, o.Log)}
	var running sync.WaitGroup
	running.Go(func() { c.watch.listen(ctx) })
	running.Go(func() { c.watch.poll(ctx) })
	c.stop = func() { stop(); running.Wait() }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/{$}", c.overview)
	mux.HandleFunc("GET /console/live", c.live)
	mux.HandleFunc("GET /console/sign-in", c.signIn)
	mux.HandleFunc("GET /console/static/{file}", static)
	c.Handler = guard(mux)
	return c
}

// Close ends the pages' streams, and what goes on beside the requests.
func (c *Console) Close() { c.stop() }

// guard has browsers take nothing from elsewhere, and show these pages in nobody's frame.
func guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

//go:embed page
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"count": count, "seconds": seconds, "rate": rate, "ago": ago,
}).ParseFS(pageFiles, "page/*"))

// render makes a page, or a part of one. Whatever text came into it, it holds no character that acts: html/template knows markup, not control characters.
func render(name string, data any) (string, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("make page %s: %w", name, err)
	}
	return sanitize.Text(b.String()), nil
}

// page answers with a page.
func page(w http.ResponseWriter, name string, data any) {
	html, err := render(name, data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(html)) // whoever is gone is told nothing
}

// static answers with a script or the style sheet.
func static(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	if file == "style.css" {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		own, _ := fs.ReadFile(staticFiles, "static/style.css") // it is part of the program
		_, _ = w.Write(append([]byte(look.CSS), own...))
		return
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+file)
}

// shell is around each page.
type shell struct {
	Title, Version string
	Part           template.HTML // of the page, which render made
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	c.watch.refresh(context.WithoutCancel(r.Context())) // others see what comes of it, too
	part, _, err := c.part()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	page(w, "overview.html", shell{"Overview", c.version, template.HTML(part)})
}

// part is what of the overview changes. It is made anew at most twice a second, for all who look.
func (c *Console) part() (html string, version uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen, _ := c.watch.version(); c.drawn.html == "" || seen != c.drawn.version && time.Since(c.drawn.at) >= sendEvery {
		if c.drawn.html, err = render("overview-live.html", c.watch.overview(time.Now())); err != nil {
			return "", 0, err
		}
		c.drawn.version, c.drawn.at = seen, time.Now()
	}
	return c.drawn.html, c.drawn.version, nil
}

// live sends the overview again whenever it has changed, until the browser goes away.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	defer c.watch.look()()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(text string) error {
		if err := control.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
			return err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return control.Flush()
	}
	last, sent := "", time.Now()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		seen, changed := c.watch.version()
		html, version, err := c.part()
		if err == nil && html != last {
			last, sent = html, time.Now()
			err = send("data: " + strings.ReplaceAll(html, "\n", "\ndata: ") + "\n\n")
		}
		if err != nil {
			return
		}
		pause.Reset(sendEvery)
		select {
		case <-pause.C:
		case <-r.Context().Done():
			return
		case <-c.open.Done():
			return
		}
		if version != seen { // it was drawn too short a time before
			continue
		}
		pause.Reset(time.Until(sent.Add(keepsAlive)))
		select {
		case <-changed:
		case <-pause.C:
			if sent = time.Now(); send(": nothing new\n\n") != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-c.open.Done():
			return
		}
	}
}

// signIn asks for a token; who looks at it is the caller.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	page(w, "sign-in.html", struct {
		shell
		Again bool
	}{shell{Title: "Sign in", Version: c.version}, r.URL.Query().Has("again")})
}

// tone is how a word is coloured; the word says the same.
type tone string

const (
	good  tone = "good"
	warn  tone = "warn"
	bad   tone = "bad"
	plain tone = ""
)

// chip is a state: a word, a sign and a colour.
type chip struct {
	Tone       tone
	Sign, Word string
}

var statusChips = map[jobs.Status]chip{
	jobs.Succeeded: {good, "✓", "succeeded"}, jobs.Failed: {bad, "✕", "failed"}, jobs.Cancelled: {plain, "–", "cancelled"}, jobs.Expired: {warn, "●", "expired"},
}
