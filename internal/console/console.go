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
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/grading"
	"tandem/internal/look"
	"tandem/internal/people"
	"tandem/internal/sanitize"
	"tandem/internal/units"
	"tandem/jobs"
)

// Options are what a console is made of.
type Options struct {
	System  *admin.Client // hears what happens to jobs of all users, and knows the workers
	Version string        // of the program
	Grading *grading.Desk // has classes graded; nil if there is no folder for them
	Log     *slog.Logger

	UsedBy func(ctx context.Context, from string) ([]Usage, error) // what each token used on each day from one on; nil if none is needed
}

// Console is an [http.Handler] for the paths below /console/. Who may see it, is the caller's to say.
type Console struct {
	http.Handler
	version string
	usedBy  func(ctx context.Context, from string) ([]Usage, error)
	watch   *watch
	open    context.Context // ends with the console
	stop    func()
	parts   parts
	details details
	tasks   tasks
}

// New returns a console. Close must be called.
func New(o Options) *Console {
	ctx, stop := context.WithCancel(context.Background())
	c := &Console{version: o.Version, usedBy: o.UsedBy, open: ctx, watch: newWatch(o.System, o.Log), parts: parts{m: map[string]*part{}}, details: details{m: map[jobKey]*detail{}}}
	var running sync.WaitGroup
	running.Go(func() { c.watch.listen(ctx) })
	running.Go(func() { c.watch.poll(ctx) })
	running.Go(func() { c.watch.tail(ctx) })
	c.stop = func() { stop(); running.Wait(); c.tasks.running.Wait() }
	mux := http.NewServeMux()
	c.view(mux, "/{$}", view{title: "Overview", part: "overview.html", same: true, scripts: []string{plotScript, "charts.js"}, draw: func(*http.Request) (any, error) { return c.watch.overview(time.Now()), nil }})
	c.view(mux, "/jobs", view{title: "Jobs", part: "jobs.html", jobs: true, query: queryOfJobs, draw: c.jobs})
	c.view(mux, "/jobs/{user}/{id}", view{title: "Job", part: "job.html", jobs: true, draw: c.job})
	c.view(mux, "/queues", view{title: "Queues", part: "queues.html", same: true, jobs: true, draw: c.queues})
	c.view(mux, "/tasks/{number}", view{title: "Jobs, many at once", part: "task.html", draw: c.task})
	mux.HandleFunc("GET /console/jobs/confirm", c.may(people.Grader, c.confirm))
	mux.HandleFunc("POST /console/jobs/act", c.may(people.Grader, c.act))
	mux.HandleFunc("POST /console/tasks/{number}/stop", c.may(people.Grader, c.stopTask))
	c.machines(mux)
	c.usage(mux)
	c.try(mux)
	c.grading(mux, o.Grading)
	mux.HandleFunc("GET /console/sign-in", c.signIn)
	mux.HandleFunc("GET /console/static/{file...}", static)
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

// What draws charts: uPlot. In vendor lies what is others', as npm has it, with the version in its name.
const vendor, plotScript, plotStyle = "vendor/", vendor + "uplot-1.6.32.min.js", vendor + "uplot-1.6.32.min.css"

//go:embed page
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"count": count, "counted": units.Count[int], "seconds": seconds, "rate": rate, "ago": ago, "brief": brief, "kindOf": kindOf,
	"number": units.Count[int64], "size": units.Bytes[int64], "speed": speed, "signed": signed,
}).ParseFS(pageFiles, "page/*"))

// render makes a page, or a part of one. Whatever text came into it, it holds no character that acts: html/template knows markup, not control characters.
func render(name string, data any) (string, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("make page %s: %w", name, err)
	}
	return sanitize.Text(b.String()), nil
}

// page answers with a status and a page.
func page(w http.ResponseWriter, status int, name string, data any) {
	html, err := render(name, data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(html)) // whoever is gone is told nothing
}

// static answers with a script or the style sheet.
func static(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	if file == "style.css" {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		plot, _ := fs.ReadFile(staticFiles, "static/"+plotStyle) // they are part of the program
		own, _ := fs.ReadFile(staticFiles, "static/style.css")
		_, _ = w.Write(slices.Concat([]byte(look.CSS), plot, own))
		return
	}
	if strings.HasPrefix(file, vendor) { // another version has another name
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+file)
}

// signIn asks for a token; who looks at it is the caller.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	page(w, http.StatusOK, "sign-in.html", struct {
		shell
		Again bool
	}{c.shell(r, "Sign in"), r.URL.Query().Has("again")})
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
