package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"tandem/internal/people"
	"tandem/jobs"
)

const (
	sendEvery    = 500 * time.Millisecond // at most, to a page that is open
	sendLimit    = 10 * time.Second       // for a browser to take it
	keepsAlive   = 15 * time.Second       // between signs of life to one to which nothing is to be said
	keepsDrawn   = time.Minute            // a part of a page at which nobody looks
	drawShare    = 50                     // times as long as a part took it is not drawn again,
	longestPause = 5 * time.Second        // but no longer
	maxDrawn     = 1000                   // parts that are kept; of more, each is drawn for who asks alone
)

const home, livePath = "/console", "/console/live"

// view is a page of which all below its head is drawn again whenever something has changed, and sent to those who have it open.
type view struct {
	title string
	named string // the part of the path that is the title in its place, if any
	part  string // the template
	same  bool   // for all who look; else it depends on who does
	jobs  bool   // of what the streams hold of jobs, which are read while somebody looks
	draw  func(r *http.Request) (any, error)
	query func(url.Values) string // what of the address's query the page depends on, in one form; nil for nothing

	scripts []string // beside console.js, which each page has
}

// sections are the pages that each page leads to.
var sections = []struct{ Path, Name string }{
	{home + "/", "Overview"}, {home + "/jobs", "Jobs"}, {home + "/grading", "Grading"}, {home + "/queues", "Queues"}, {home + "/machines", "Machines"}, {home + "/usage", "Usage"}, {home + "/try", "Try it"},
}

// shell is around each page.
type shell struct {
	Title, Version string
	Live           string        // where news of the page come from; empty for a page without any
	Part           template.HTML // of the page, which render made
	Sections       any
	Here           string // the section
	Scripts        []string
	Person         people.Person
}

func (c *Console) shell(r *http.Request, title string) shell {
	s := shell{Title: title, Version: c.version, Person: people.From(r.Context())}
	if s.Person.Role == "" {
		return s
	}
	s.Sections = sections
	for _, one := range sections {
		if r.URL.Path == one.Path || one.Path != home+"/" && strings.HasPrefix(r.URL.Path, one.Path) {
			s.Here = one.Path
		}
	}
	return s
}

// view has the page at a path below /console, and its news.
func (c *Console) view(mux *http.ServeMux, path string, v view) {
	mux.HandleFunc("GET "+home+path, func(w http.ResponseWriter, r *http.Request) {
		c.watch.refresh(context.WithoutCancel(r.Context())) // others see what comes of it, too
		part, err := c.part(v, r)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		s := c.shell(r, cmp.Or(r.PathValue(v.named), v.title))
		s.Scripts = v.scripts
		s.Live, s.Part = livePath+strings.TrimPrefix(r.URL.RequestURI(), home), template.HTML(part.html)
		page(w, http.StatusOK, "page.html", s)
	})
	mux.HandleFunc("GET "+livePath+path, func(w http.ResponseWriter, r *http.Request) { c.live(w, r, v) })
}

// refusal is an error with its status.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// statuses are those of errors of the queue; all others are ours.
var statuses = map[jobs.Code]int{
	jobs.CodeInvalid: http.StatusBadRequest, jobs.CodeUnknownModel: http.StatusNotFound, jobs.CodeQueueFull: http.StatusTooManyRequests,
	jobs.CodeTimeout: http.StatusGatewayTimeout, jobs.CodeNATS: http.StatusServiceUnavailable,
}

// fail answers with a page that says what is wrong.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	if known, is := errors.AsType[*refusal](err); is {
		status = known.status
	} else if known := statuses[jobs.CodeOf(err)]; known != 0 {
		status = known
	}
	page(w, status, "failed.html", struct {
		shell
		Why string
	}{c.shell(r, http.StatusText(status)), err.Error()})
}

// parts are those of pages that are open, or were a moment ago, as they were drawn last.
type parts struct {
	mu sync.Mutex
	m  map[string]*part
}

type part struct {
	mu      sync.Mutex
	html    string
	version uint64 // of what was seen
	at      time.Time
	took    time.Duration // to draw it
}

// find has the part of a page's request.
func (p *parts) find(key string) *part {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.m[key]; one != nil {
		return one
	}
	maps.DeleteFunc(p.m, func(_ string, one *part) bool {
		if !one.mu.TryLock() { // it is being drawn
			return false
		}
		defer one.mu.Unlock()
		return time.Since(one.at) > keepsDrawn
	})
	one := &part{at: time.Now()}
	if len(p.m) < maxDrawn {
		p.m[key] = one
	}
	return one
}

// drawn is a part of a page at one moment.
type drawn struct {
	html    string
	version uint64 // of what was seen
}

// part draws what of a page changes: at most twice a second, for all who look at the same.
func (c *Console) part(v view, r *http.Request) (drawn, error) {
	if v.jobs {
		c.watch.wantJobs(r.Context())
	}
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, livePath), home)
	if v.query != nil {
		key += "?" + v.query(r.URL.Query())
	}
	if !v.same {
		who := people.From(r.Context())
		key += " " + string(who.Role) + " " + who.User
	}
	p := c.parts.find(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen, _ := c.watch.version(); p.html == "" || seen != p.version && time.Since(p.at) >= min(max(sendEvery, drawShare*p.took), longestPause) {
		began := time.Now()
		data, err := v.draw(r)
		if err != nil {
			return drawn{}, err
		}
		if p.html, err = render(v.part, data); err != nil {
			return drawn{}, err
		}
		p.version, p.at, p.took = seen, time.Now(), time.Since(began)
	}
	return drawn{p.html, p.version}, nil
}

// live sends the part of a page again whenever it has changed, until the browser goes away.
func (c *Console) live(w http.ResponseWriter, r *http.Request, v view) {
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
		now, err := c.part(v, r)
		if err == nil && now.html != last {
			last, sent = now.html, time.Now()
			err = send("data: " + strings.ReplaceAll(now.html, "\n", "\ndata: ") + "\n\n")
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
		if now.version != seen { // it was drawn too short a time before
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

// may lets a request through to who has a role.
func (c *Console) may(role people.Role, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !people.From(r.Context()).Role.May(role) {
			c.fail(w, r, refuse(http.StatusForbidden, "this takes the role %s, which whoever runs the gateway gives to a token, unless its console is read-only", role))
			return
		}
		h(w, r)
	}
}
