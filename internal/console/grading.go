package console

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"tandem/internal/grading"
	"tandem/internal/people"
	"tandem/internal/units"
	"tandem/jobs"
)

// Classes are graded here as `submitter grade` grades them: see package grading.

const (
	gradingPath = home + "/grading"
	uploadLimit = 30 * time.Minute // for sending a class
	deleteLimit = time.Minute      // for the workers to remove what the queue holds of a class
	maxDecision = 64 << 10         // bytes of a form
)

// grading has the pages of classes.
func (c *Console) grading(mux *http.ServeMux, desk *grading.Desk) {
	d := &classDesk{c, desk, grading.MaxUpload}
	c.view(mux, "/grading", view{title: "Grading", part: "grading.html", draw: d.classes})
	if desk == nil {
		return
	}
	desk.OnChange(func() {
		c.watch.mu.Lock()
		defer c.watch.mu.Unlock()
		c.watch.changed()
	})
	c.view(mux, "/grading/{class}", view{title: "Grading", named: "class", part: "grading-class.html", draw: d.class})
	handle := func(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
		method, below, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+gradingPath+below, c.may(people.Grader, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				c.fail(w, r, err)
			}
		}))
	}
	handle("GET /new", d.newClass)
	handle("POST ", d.upload)
	handle("POST /{class}/files", d.upload)
	handle("GET /{class}/grades/{file...}", d.file)
	handle("GET /{class}/grades.zip", d.archive)
	handle("GET /{class}/review", d.queue)
	handle("GET /{class}/review/{student}", d.submission)
	for name, do := range map[string]func(ctx context.Context, c *grading.Class, p people.Person, form url.Values) (to string, err error){
		"check": func(_ context.Context, c *grading.Class, _ people.Person, _ url.Values) (string, error) {
			return c.Name, desk.Check(c.Name)
		},
		"pause": func(_ context.Context, c *grading.Class, _ people.Person, _ url.Values) (string, error) {
			desk.Pause(c.Name)
			return c.Name, nil
		},
		"start":  d.start,
		"review": d.decide,
		"delete": d.delete,
	} {
		handle("POST /{class}/"+name, func(w http.ResponseWriter, r *http.Request) error {
			class, form, err := d.form(w, r)
			if err != nil {
				return err
			}
			to, err := do(r.Context(), class, people.From(r.Context()), form)
			if err == nil {
				http.Redirect(w, r, strings.TrimSuffix(gradingPath+path.Join("/", to), "/"), http.StatusSeeOther)
			}
			return err
		})
	}
	handle("POST /{class}/release", d.release)
}

// classDesk answers about classes.
type classDesk struct {
	*Console
	desk *grading.Desk // nil if there is no folder for them
	most int64         // bytes of an upload
}

// mine reports whether a person may see a class's texts and do something about it.
func mine(p people.Person, c *grading.Class) bool { return p.MayTouch(c.Owner) }

// find has the class of a request, if it is the person's.
func (d *classDesk) find(r *http.Request) (*grading.Class, error) {
	c, err := d.desk.Class(r.PathValue("class"))
	if jobs.CodeOf(err) == jobs.CodeInvalid {
		return nil, refuse(http.StatusNotFound, "%v", err)
	}
	if err == nil && !mine(people.From(r.Context()), c) {
		return nil, refuse(http.StatusForbidden, "only who grades %s sees more of it than its counts, and operators", c.Name)
	}
	return c, err
}

// form reads a small form about a class.
func (d *classDesk) form(w http.ResponseWriter, r *http.Request) (*grading.Class, url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxDecision)
	if err := r.ParseForm(); err != nil {
		return nil, nil, refuse(http.StatusBadRequest, "the form cannot be read: %v", err)
	}
	c, err := d.find(r)
	return c, r.PostForm, err
}

var classChips = map[grading.State]chip{
	grading.Waiting: {plain, "○", "not begun"}, grading.Checking: {plain, "…", "being checked"}, grading.Begun: {good, "▶", "being graded"}, grading.Stopped: {warn, "●", "not finished"},
	grading.Graded: {good, "✓", "graded"},
}

// classRow is a class in the list: names and counts, which every role sees.
type classRow struct {
	*grading.Class
	Chip              chip
	Mine              bool
	Submissions, Done int
}

// Open reports whether something is left to review.
func (c classRow) Open() bool { return c.Summary != nil && c.Summary.Review+c.Summary.Failed > 0 }

// Address is where its page is.
func (c classRow) Address() string { return address(c.Name) }

func address(class string) string { return gradingPath + "/" + url.PathEscape(class) }

func rowOfClass(c *grading.Class, p people.Person) classRow {
	row := classRow{Class: c, Chip: classChips[c.State()], Mine: mine(p, c), Submissions: c.Files}
	switch s := c.Summary; {
	case c.Run != nil && c.Run.Event.Submissions > 0:
		row.Submissions, row.Done = c.Run.Event.Submissions, c.Run.Event.Done
	case s != nil:
		row.Submissions, row.Done = s.Submissions, len(s.Students)
	}
	return row
}

// classes is the answer to: which classes are there, and how far are they?
func (d *classDesk) classes(r *http.Request) (any, error) {
	p := people.From(r.Context())
	page := struct {
		On, May bool
		List    []classRow
	}{d.desk != nil, p.Role.May(people.Grader), nil}
	if d.desk == nil {
		return page, nil
	}
	list, err := d.desk.Classes()
	for _, c := range list {
		page.List = append(page.List, rowOfClass(c, p))
	}
	return page, err
}

// classPage is the answer to: how is this class coming along, and what is there to do?
type classPage struct {
	classRow
	Tone    tone
	Words   string // in one sentence
	Rows    []studentRow
	Models  []judgeRow
	Command string
}

type studentRow struct {
	ID, Name, Points, Why string
	Chip                  chip
	Report                bool
}

type judgeRow struct {
	Model          string
	Jobs, Answered int
}

func (d *classDesk) class(r *http.Request) (any, error) {
	c, err := d.find(r)
	if err != nil {
		return nil, err
	}
	if c.State() == grading.Waiting && c.Check == nil && c.Problem == "" {
		if err := d.desk.Check(c.Name); err == nil { // else somebody else has begun something
			c.Checking = true
		}
	}
	page := classPage{classRow: rowOfClass(c, people.From(r.Context())), Rows: studentRows(c), Command: c.Command()}
	if c.Run != nil {
		for _, j := range c.Run.Event.Judges {
			if n := len(page.Models); n > 0 && page.Models[n-1].Model == j.Model {
				page.Models[n-1].Jobs += j.Jobs
				page.Models[n-1].Answered += j.Answered
			} else if j.Jobs > 0 {
				page.Models = append(page.Models, judgeRow{j.Model, j.Jobs, j.Answered})
			}
		}
	}
	page.Tone, page.Words = sentence(c)
	return page, nil
}

// gradeChips are how a submission stands.
var gradeChips = map[string]chip{
	"graded": {good, "✓", "graded"}, "final": {good, "✓", "final"}, "needs_review": {warn, "●", "needs review"}, "failed": {bad, "✕", "could not be graded"},
}

// studentRows are the submissions that have a report and, while they are graded, those that wait for one.
func studentRows(c *grading.Class) (rows []studentRow) {
	known := map[string]studentRow{}
	var ids []string
	if c.Summary != nil {
		for _, s := range c.Summary.Students {
			row := studentRow{ID: s.ID, Name: c.Names[s.ID], Chip: gradeChips[string(s.Status)], Why: strings.Join(s.Why, "; "), Points: none, Report: true}
			if s.Certain {
				row.Points = fmt.Sprintf("%g", s.Points)
			} else if s.Scored() {
				row.Points = fmt.Sprintf("%g–%g", s.Low, s.High)
			}
			known[s.ID], ids = row, append(ids, s.ID)
		}
	}
	if c.Run != nil && len(c.Run.People) > 0 {
		ids = nil
		for _, s := range c.Run.People {
			row, reported := known[s.ID]
			switch status := c.Run.Statuses[s.ID]; {
			case status != "" && !reported: // its row comes with the class's next page
				row = studentRow{Chip: gradeChips[string(status)], Points: none, Report: true}
			case status == "":
				row = studentRow{Chip: chip{plain, "…", "waiting"}, Points: none}
				if n := c.Run.Answers[s.ID]; n > 0 {
					row.Chip.Word = count(n, "answer", "answers")
				}
			}
			row.ID, row.Name = s.ID, s.Name
			known[s.ID], ids = row, append(ids, s.ID)
		}
	}
	for _, id := range ids {
		rows = append(rows, known[id])
	}
	slices.SortStableFunc(rows, func(a, b studentRow) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return rows
}

// sentence says how a class is.
func sentence(c *grading.Class) (tone, string) {
	switch c.State() {
	case grading.Checking:
		return plain, "Being checked …"
	case grading.Begun:
		e := c.Run.Event
		if e.Submissions == 0 {
			return good, "Reading the notebooks …"
		}
		words := fmt.Sprintf("%d of %s reported", e.Done, count(e.Submissions, "submission", "submissions"))
		if c.Run.Left > 0 {
			words += ", about " + units.Roughly(c.Run.Left) + " left"
		}
		return good, words + "."
	case grading.Waiting:
		switch k := c.Check; {
		case k == nil:
			return plain, "Not begun."
		case len(k.Rubric) > 0:
			return bad, fmt.Sprintf("The rubric has %s.", count(len(k.Rubric), "mistake", "mistakes"))
		case k.Problem != "":
			return bad, "It cannot be graded yet."
		case !k.Fair:
			return warn, "The rubric is not fair."
		default:
			words := fmt.Sprintf("Ready: %s, %s to the models", count(k.Plan.Submissions, "submission", "submissions"), count(k.Jobs, "request", "requests"))
			if k.Seconds > 0 {
				words += ", about " + units.Roughly(time.Duration(k.Seconds*float64(time.Second)))
			}
			return good, words + "."
		}
	}
	s := c.Summary
	if s == nil {
		return warn, "Not finished: no submission has a report yet."
	}
	if s.FinishedAt.IsZero() {
		return warn, fmt.Sprintf("Not finished: %d of %s reported.", len(s.Students), count(s.Submissions, "submission", "submissions"))
	}
	at := good
	if s.Review+s.Failed > 0 {
		at = warn
	}
	return at, fmt.Sprintf("%s: %d graded, %d need review, %d failed.", count(s.Submissions, "submission", "submissions"), s.Graded+s.Final, s.Review, s.Failed)
}

// newClass shows the form for a class.
func (d *classDesk) newClass(w http.ResponseWriter, r *http.Request) error {
	page(w, http.StatusOK, "grading-new.html", d.shell(r, "New class"))
	return nil
}

// upload takes the files of a class, or makes one of them.
func (d *classDesk) upload(w http.ResponseWriter, r *http.Request) error {
	user, class := people.From(r.Context()).User, r.PathValue("class")
	if class != "" {
		if _, err := d.find(r); err != nil {
			return err
		}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadLimit))
	r.Body = http.MaxBytesReader(w, r.Body, d.most)
	form, err := r.MultipartReader()
	if err != nil {
		return refuse(http.StatusBadRequest, "this is no form with files: %v", err)
	}
	class, err = d.desk.Upload(r.Context(), class, user, form)
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return refuse(http.StatusRequestEntityTooLarge, "the files have more than %s together; send fewer at a time", units.Bytes(d.most))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(http.StatusBadRequest, "the files did not come whole; send them again")
	}
	if err != nil {
		return err
	}
	if err := d.desk.Check(class); err != nil {
		return err
	}
	http.Redirect(w, r, address(class), http.StatusSeeOther)
	return nil
}

func (d *classDesk) start(_ context.Context, c *grading.Class, p people.Person, form url.Values) (string, error) {
	return c.Name, d.desk.Start(c.Name, grading.Ask{Only: form.Get("only"), Accept: form.Has("accept"), WithoutModels: form.Has("checks"), Models: p.Models})
}

func (d *classDesk) delete(ctx context.Context, c *grading.Class, _ people.Person, form url.Values) (string, error) {
	if form.Get("name") != c.Name {
		return "", refuse(http.StatusBadRequest, "the name that you typed is not that of the class; nothing was deleted")
	}
	ctx, cancel := context.WithTimeout(ctx, deleteLimit)
	defer cancel()
	return "", d.desk.Delete(ctx, c.Name)
}

// decide takes a decision, and leads back to where it was taken.
func (d *classDesk) decide(_ context.Context, c *grading.Class, p people.Person, form url.Values) (string, error) {
	return path.Join(c.Name, "review", form.Get("from")), d.desk.Decide(c.Name, p.User, form)
}

func (d *classDesk) queue(w http.ResponseWriter, r *http.Request) error {
	c, err := d.find(r)
	if err != nil {
		return err
	}
	q, err := d.desk.Queue(c.Name, people.From(r.Context()).User)
	if err != nil {
		return err
	}
	page(w, http.StatusOK, "grading-review.html", struct {
		shell
		*grading.Queue
		Row classRow
	}{d.shell(r, "Review "+c.Name), q, rowOfClass(c, people.From(r.Context()))})
	return nil
}

func (d *classDesk) submission(w http.ResponseWriter, r *http.Request) error {
	c, err := d.find(r)
	if err != nil {
		return err
	}
	s, err := d.desk.Submission(c.Name, people.From(r.Context()).User, r.PathValue("student"))
	if err != nil {
		return err
	}
	page(w, http.StatusOK, "grading-student.html", struct {
		shell
		*grading.Submission
		Chip chip
		Row  classRow
	}{d.shell(r, cmp.Or(c.Names[s.ID], s.ID)), s, gradeChips[string(s.Status)], rowOfClass(c, people.From(r.Context()))})
	return nil
}

func (d *classDesk) release(w http.ResponseWriter, r *http.Request) error {
	c, form, err := d.form(w, r)
	if err != nil {
		return err
	}
	released, err := d.desk.Release(c.Name, people.From(r.Context()).User, form.Has("solution"))
	if err != nil {
		return err
	}
	page(w, http.StatusOK, "grading-released.html", struct {
		shell
		Released any
		Row      classRow
	}{d.shell(r, "Release "+c.Name), released, rowOfClass(c, people.From(r.Context()))})
	return nil
}

func (d *classDesk) archive(w http.ResponseWriter, r *http.Request) error {
	c, err := d.find(r)
	if err != nil {
		return err
	}
	if c.Summary == nil {
		return refuse(http.StatusNotFound, "%s is not graded yet; nothing is there to be downloaded", c.Name)
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": c.Name + ".zip"}))
	if err := d.desk.Archive(c.Name, w); err != nil {
		panic(http.ErrAbortHandler) // or half of it would look like all
	}
	return nil
}

// styleOf is the style sheet of a page of the grader's, which stands before any text of a student's.
var styleOf = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// skips is what stands first in such a page, and behind which the way back is put.
const skips = `<a class="skip" href="#main">Skip to the content</a>`

// file answers with a file that was written about a class. A page of it may have its own style sheet and nothing else; no script of it runs.
func (d *classDesk) file(w http.ResponseWriter, r *http.Request) error {
	c, err := d.find(r)
	if err != nil {
		return err
	}
	root, err := d.desk.Grades(c.Name)
	if err != nil {
		return err
	}
	defer root.Close()
	name := r.PathValue("file")
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".json": "application/json"}
	kind := kinds[path.Ext(name)]
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || kind == "" {
		return refuse(http.StatusNotFound, "nothing is written there")
	}
	text, err := root.ReadFile(name)
	if err != nil {
		return err
	}
	style := "'none'"
	if path.Ext(name) == ".html" {
		if sheet := styleOf.FindSubmatch(text); sheet != nil {
			sum := sha256.Sum256(sheet[1])
			style = "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		back := fmt.Sprintf(`%[3]s<nav class="top" aria-label="Console"><ul><li><a href="%[1]s">%[2]s</a></li><li><a href="%[1]s/grades/index.html">Report of the class</a></li><li><a href="%[1]s/review">Review</a></li></ul></nav>`,
			address(c.Name), c.Name, skips) // a class's name has no markup
		text = []byte(strings.Replace(string(text), skips, back, 1))
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src "+style+"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(text) // whoever is gone is told nothing
	return nil
}
