package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	perPage   = 50
	maxChoice = 100 // names that a field of the filter suggests
)

// filter says which jobs to show, or to do something about; what is empty matches all.
type filter struct {
	State               state
	Model, Batch, User  string
	Method              jobs.Method
	Error               string     // part of an error's code or text, in any case
	Code                jobs.Code  // of the error, all of it; noCode for jobs that have none
	Stage               jobs.Stage // that gave up
	matchUser           bool       // User must be it, even if that is empty
	none                bool       // it matches nothing
	lower               string     // of Error
	model, batch, user  word
	method, stateIsWord word
	code, stage         word
}

// methods are what may be filtered by.
var methods = []jobs.Method{jobs.MethodDisaggregated, jobs.MethodLocal, jobs.MethodFallback}

// filterOf reads the filter of a query.
func filterOf(q url.Values) (filter, error) {
	f := filter{
		State: state(q.Get("state")), Model: strings.TrimSpace(q.Get("model")), Batch: strings.TrimSpace(q.Get("batch")), User: strings.TrimSpace(q.Get("user")),
		Method: jobs.Method(q.Get("method")), Error: strings.TrimSpace(q.Get("error")), Code: jobs.Code(q.Get("code")), Stage: jobs.Stage(q.Get("stage")),
	}
	if f.State != "" && !slices.Contains(states, f.State) {
		return f, refuse(http.StatusBadRequest, "state is %.40q; want one of %v", f.State, states)
	}
	if f.Method != "" && !slices.Contains(methods, f.Method) {
		return f, refuse(http.StatusBadRequest, "method is %.40q; want one of %v", f.Method, methods)
	}
	for name, value := range map[string]string{"model": f.Model, "batch": f.Batch, "user": f.User, "error": f.Error, "code": string(f.Code), "stage": string(f.Stage)} {
		if len(value) > jobs.MaxName {
			return f, refuse(http.StatusBadRequest, "%s is %d bytes long; %d are allowed", name, len(value), jobs.MaxName)
		}
	}
	f.lower, f.model, f.batch, f.user, f.method, f.stateIsWord = strings.ToLower(f.Error), wordOf(f.Model), wordOf(f.Batch), wordOf(f.User), wordOf(string(f.Method)), wordOf(string(f.State))
	f.code, f.stage = wordOf(strings.TrimPrefix(string(f.Code), noCode)), wordOf(string(f.Stage))
	return f, nil
}

// noCode is the code of a filter for jobs without any.
const noCode = "none"

// of narrows a filter to the jobs that a person may touch.
func (f filter) of(p people.Person) filter {
	if !p.Role.May(people.Operator) {
		f.none = f.User != "" && f.User != p.User
		f.User, f.user, f.matchUser = p.User, wordOf(p.User), true
	}
	return f
}

// Query is the filter as a page's address has it.
func (f filter) Query() string {
	q := url.Values{}
	for name, value := range map[string]string{"state": string(f.State), "model": f.Model, "batch": f.Batch, "user": f.User, "method": string(f.Method), "error": f.Error, "code": string(f.Code), "stage": string(f.Stage)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

func (f *filter) matches(j *job) bool {
	if f.none || f.Code != "" && j.code != f.code || f.Stage != "" && j.stage != f.stage {
		return false
	}
	switch f.State {
	case "":
	case unfinished:
		if j.ended() {
			return false
		}
	case anyLetter:
		if j.letter == 0 {
			return false
		}
	default:
		if j.state != f.stateIsWord {
			return false
		}
	}
	if f.Model != "" && j.model != f.model || f.Batch != "" && j.batch != f.batch || (f.User != "" || f.matchUser) && j.user != f.user || f.Method != "" && j.method != f.method {
		return false
	}
	return f.lower == "" || strings.Contains(strings.ToLower(j.code.Value()), f.lower) || strings.Contains(strings.ToLower(j.message.Value()), f.lower)
}

// jobRow is a job as the list has it.
type jobRow struct {
	Path, ID           string
	Accepted           string
	Model, Batch, User string
	State              chip
	Where, Method      string
	Seconds            float64
	Prompt, Generated  int
	Code, Message      string
}

// jobsPage is the answer to: which jobs, and what about them?
type jobsPage struct {
	Filter          filter
	Words           string // how many match, in one sentence
	Problem         string
	Rows            []jobRow
	Number, Pages   int
	Newer, Older    string // addresses; empty if there are none
	States          []stateChoice
	Models, Methods []string
	Batches, Users  []string // suggestions
	Acts            []act    // what can be done about all that match
}

type stateChoice struct {
	State state
	Count string
}

// act is something that can be done about all jobs that match a filter.
type act struct{ Verb, Label string }

// jobs draws the page of jobs.
func (c *Console) jobs(r *http.Request) (any, error) {
	f, err := filterOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	return c.watch.jobs(f, pageOf(r.URL.Query()), people.From(r.Context()), time.Now()), nil
}

// pageOf is the number of the page of a list that a query asks for.
func pageOf(q url.Values) int {
	number, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		return 1
	}
	return max(1, number)
}

// queryOfJobs is what the list depends on; one whose filter is wrong is not kept.
func queryOfJobs(q url.Values) string {
	f, _ := filterOf(q)
	return f.Query() + "&page=" + strconv.Itoa(pageOf(q))
}

// jobs lists the jobs that match a filter, the last accepted first.
func (w *watch) jobs(f filter, number int, who people.Person, now time.Time) jobsPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list(f, number, who, now)
}

// list is jobs; the lock must be held.
func (w *watch) list(f filter, number int, who people.Person, now time.Time) jobsPage {
	x := w.index
	x.sort()
	p := jobsPage{Filter: f, Number: number}
	counts := map[word]int{}
	models, batches, users := map[word]bool{}, map[word]bool{}, map[word]bool{}
	matched, letters, all := 0, 0, 0
	whatever := f
	whatever.State = ""
	mine := filter{}.of(who)
	var can [len(verbs)]int
	for _, j := range slices.Backward(x.order) {
		all++
		if len(models) < maxChoice {
			models[j.model] = true
		}
		if len(batches) < maxChoice {
			batches[j.batch] = true
		}
		if len(users) < maxChoice {
			users[j.user] = true
		}
		if !whatever.matches(j) {
			continue
		}
		counts[j.state]++
		if j.letter > 0 {
			letters++
		}
		if f.State != "" && !f.matches(j) {
			continue
		}
		if matched++; matched > (number-1)*perPage && len(p.Rows) < perPage {
			p.Rows = append(p.Rows, rowOfJob(j, who, now))
		}
		if who.Role.May(people.Grader) && mine.matches(j) {
			for i, v := range verbs {
				if v.Fits(j) {
					can[i]++
				}
			}
		}
	}
	for _, s := range states {
		n := counts[wordOf(string(s))]
		switch s {
		case unfinished:
			n = counts[wordOf(string(waiting))] + counts[wordOf(string(running))]
		case anyLetter:
			n = letters
		}
		p.States = append(p.States, stateChoice{s, units.Count(n)})
	}
	p.Words = count(matched, "job", "jobs")
	if matched < all {
		p.Words += " of " + units.Count(all)
	}
	if p.Pages = max(1, (matched+perPage-1)/perPage); number > p.Pages {
		return w.list(f, p.Pages, who, now)
	}
	at := func(n int) string {
		if n < 1 || n > p.Pages {
			return ""
		}
		q := f.Query()
		if n > 1 {
			q += "&page=" + strconv.Itoa(n)
		}
		return home + "/jobs?" + strings.TrimPrefix(q, "&")
	}
	p.Newer, p.Older = at(number-1), at(number+1)
	p.Models, p.Batches, p.Users = wordsOf(models), wordsOf(batches), wordsOf(users)
	for _, m := range methods {
		p.Methods = append(p.Methods, string(m))
	}
	for i, v := range verbs {
		if can[i] > 0 {
			p.Acts = append(p.Acts, act{v.Name, v.Title + " " + count(can[i], "job", "jobs") + " …"})
		}
	}
	p.Problem = w.notRead()
	return p
}

// notRead says why not all jobs may be known; nothing if they are. The lock must be held.
func (w *watch) notRead() string {
	switch {
	case w.unread != "":
		return "What the streams hold cannot be read, so jobs may be missing here: " + w.unread
	case !w.index.read:
		return "What the streams hold is being read: " + count(len(w.index.order), "job", "jobs") + " so far."
	}
	return ""
}

func wordsOf(m map[word]bool) (list []string) {
	for w := range maps.Keys(m) {
		if w.Value() != "" {
			list = append(list, w.Value())
		}
	}
	slices.Sort(list)
	return list
}

// stateChips are those of jobs that have not ended.
var stateChips = map[state]chip{waiting: {plain, "○", "waiting"}, running: {good, "▶", "running"}}

func chipOf(j *job) chip {
	if c, there := stateChips[state(j.state.Value())]; there {
		return c
	}
	if c, there := statusChips[jobs.Status(j.state.Value())]; there {
		return c
	}
	return chip{Word: j.state.Value()}
}

// where says where a job is, or what went wrong with it.
func (j *job) where() string {
	stage, worker := j.stage.Value(), j.worker.Value()
	switch state(j.state.Value()) {
	case waiting:
		return "for " + map[bool]string{true: string(jobs.StagePrefill), false: "decode"}[stage == "" || stage == string(jobs.StagePrefill)]
	case running:
		machine, _, _ := strings.Cut(worker, "/")
		return stage + " on " + machine
	}
	return ""
}

func rowOfJob(j *job, who people.Person, now time.Time) jobRow {
	r := jobRow{
		Path: pathOf(j.user.Value(), j.id), ID: j.id, Accepted: moment(j.accepted, now), Model: j.model.Value(), Batch: j.batch.Value(), User: j.user.Value(), State: chipOf(j),
		Where: j.where(), Method: j.method.Value(), Seconds: float64(j.seconds), Prompt: int(j.prompt), Generated: int(j.generated), Code: j.code.Value(), Message: j.message.Value(),
	}
	if !j.ended() {
		r.Seconds = now.Sub(j.accepted).Round(time.Second).Seconds()
	}
	return r
}

// pathOf is the address of a job's page.
func pathOf(user, id string) string {
	return home + "/jobs/" + url.PathEscape(cmp.Or(jobs.EncodeToken(user), protocol.NoUser)) + "/" + id
}

// moment is a time of day, with the day if it is another one than today, in UTC.
func moment(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2 Jan 15:04")
}
