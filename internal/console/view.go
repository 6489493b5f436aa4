package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"tandem/internal/people"
	"tandem/jobs"
)

const (
	sendEvery  = 500 * time.Millisecond // at most, to a page that is open
	sendLimit  = 10 * time.Second       // for a browser to take it
	keepsAlive = 15 * time.Second       // between signs of life to one to which nothing is to be said
	keepsDrawn = time.Minute            // a part of a page at which nobody looks
)

const home, livePath = "/console", "/console/live"

// view is a page of which all below its head is drawn again whenever something has changed, and sent to those who have it open.
type view struct {
	title string
	named string // the part of the path that is the title in its place, if any
	part  string // the template
	same  bool   // for all who look; else it depends on who does
	draw  func(r *http.Request) (any, error)
}

// sections are the pages that each page leads to.
var sections = []struct{ Path, Name string }{{home + "/", "Overview"}, {home + "/grading", "Grading"}}

// shell is around each page.
type shell struct {
	Title, Version string
	Live           string        // where news of the page come from; empty for a page without any
	Part           template.HTML // of the page, which render made
	Sections       any
	Here           string // the section
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
}

// find has the part of a page's request.
func (p *parts) find(key string) *part {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m[key] == nil {
		if p.m == nil {
			p.m = map[string]*part{}
		}
		p.m[key] = &part{at: time.Now()}
		for other, o := range p.m {
			if other != key && o.mu.TryLock() {
				old := time.Since(o.at) > keepsDrawn
				o.mu.Unlock()
				if old {
					delete(p.m, other)
				}
			}
		}
	}
	return p.m[key]
}

// drawn is a part of a page at one moment.
type drawn struct {
	html    string
	version uint64 // of what was seen
}

// part draws what of a page changes: at most twice a second, for all who look at the same.
func (c *Console) part(v view, r *http.Request) (drawn, error) {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.RequestURI(), livePath), home)
	if !v.same {
		who := people.From(r.Context())
		key += " " + string(who.Role) + " " + who.User
	}
	p := c.parts.find(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen, _ := c.watch.version(); p.html == "" || seen != p.version && time.Since(p.at) >= sendEvery {
		data, err := v.draw(r)
		if err != nil {
			return drawn{}, err
		}
		if p.html, err = render(v.part, data); err != nil {
			return drawn{}, err
		}
		p.version, p.at = seen, time.Now()
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
