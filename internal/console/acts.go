package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/people"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	maxForm   = 16 << 10         // bytes
	oneLimit  = 30 * time.Second // for something done about one job
	atOnce    = 16               // jobs about which something is done
	keptTasks = 100
	keptAsked = 50 // questions that were not answered yet
	maxTasks  = 4  // that run
	keptWrong = 10 // errors that are shown of a task
)

// verbOf is something that can be done about a job.
type verbOf struct {
	Name, Title string
	Note        string // what it means
	Danger      bool   // it cannot be undone
	Fits        func(*job) bool
	do          func(ctx context.Context, c *admin.Client, id string) (came string, err error)
}

var verbs = [...]verbOf{
	{
		Name: "cancel", Title: "Cancel", Danger: true, Note: "What runs is stopped, and what waits is not begun. Each has a result then, which says cancelled.",
		Fits: func(j *job) bool { return !j.ended() },
		do: func(ctx context.Context, c *admin.Client, id string) (string, error) {
			was, err := c.Cancel(ctx, id)
			switch {
			case err != nil:
				return "", err
			case was.Was == jobs.PriorFinished:
				return "had ended", nil
			case was.Was == jobs.PriorKept:
				return "noted: the first worker that comes cancels it", nil
			}
			return "cancelled", nil
		},
	},
	{
		Name: "replay", Title: "Replay", Note: "Each is submitted again as a new job, without a deadline; whoever waits for the old one gets the new result. The dead letters stay.",
		Fits: isLetter,
		do: func(ctx context.Context, c *admin.Client, id string) (string, error) {
			_, again, err := c.ReplayOwn(ctx, id)
			if again {
				return "had been replayed", err
			}
			return "replayed", err
		},
	},
	{
		Name: "drop", Title: "Drop", Danger: true, Note: "Their dead letters are removed for good, and with them what could be replayed. Their results stay.",
		Fits: isLetter,
		do: func(ctx context.Context, c *admin.Client, id string) (string, error) {
			return "dropped", c.DropOwn(ctx, id)
		},
	},
}

// isLetter reports whether a job has a dead letter about which something can be done in its user's name. That of a record that names none, an operator drops with
// submitter dlq.
func isLetter(j *job) bool { return j.letter > 0 && j.user.Value() != "" }

func verbNamed(name string) (verbOf, error) {
	for _, v := range verbs {
		if v.Name == name {
			return v, nil
		}
	}
	return verbOf{}, refuse(http.StatusBadRequest, "verb is %.40q; want cancel, replay or drop", name)
}

// chosen are the jobs that match a filter, about which a person may do something.
func (w *watch) chosen(f filter, v verbOf, who people.Person) (keys []jobKey, states map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, states = f.of(who), map[string]int{}
	for _, j := range w.index.order {
		if v.Fits(j) && f.matches(j) {
			keys = append(keys, j.jobKey)
			states[j.state.Value()]++
		}
	}
	return keys, states
}

// confirm asks whether to do something about all jobs that match a filter.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request) { c.ask(w, r, r.URL.Query(), "") }

func (c *Console) ask(w http.ResponseWriter, r *http.Request, q url.Values, changed string) {
	v, err := verbNamed(q.Get("verb"))
	var f filter
	if err == nil {
		f, err = filterOf(q)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.watch.wantJobs(r.Context())
	keys, states := c.watch.chosen(f, v, people.From(r.Context()))
	c.watch.mu.Lock()
	problem := c.watch.notRead()
	c.watch.mu.Unlock()
	var of []string
	for _, s := range slices.Sorted(maps.Keys(states)) {
		of = append(of, units.Count(states[s])+" "+s)
	}
	page(w, http.StatusOK, "confirm.html", struct {
		shell
		Verb    verbOf
		Filter  filter
		Asked   string // names what is asked about
		Count   int
		Words   string
		Of      []string
		Changed string
		Problem string
	}{c.shell(r, v.Title+" jobs"), v, f, c.tasks.ask(people.From(r.Context()), keys), len(keys), count(len(keys), "job", "jobs"), of, changed, problem})
}

// act does something about one job, or begins to do it about all that match a filter.
func (c *Console) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, refuse(http.StatusBadRequest, "the form cannot be read: %v", err))
		return
	}
	v, err := verbNamed(r.PostForm.Get("verb"))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	who := people.From(r.Context())
	if id := r.PostForm.Get("id"); id != "" {
		user := r.PostForm.Get("of")
		if user == "" {
			c.fail(w, r, refuse(http.StatusBadRequest, "the record of job %s names no user; submitter dlq drop removes it", id))
			return
		}
		if !who.MayTouch(user) {
			c.fail(w, r, refuse(http.StatusForbidden, "the job is %q's; this takes the role %s", user, people.Operator))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), oneLimit)
		defer cancel()
		if _, err := v.do(ctx, c.watch.system.For(user), id); err != nil {
			c.fail(w, r, err)
			return
		}
		c.watch.done(v, jobKey{wordOf(user), id})
		http.Redirect(w, r, pathOf(user, id), http.StatusSeeOther)
		return
	}
	f, err := filterOf(r.PostForm)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	confirmed, there := c.tasks.confirmed(r.PostForm.Get("confirmed"), who)
	if !there {
		c.ask(w, r, r.PostForm, "It is not known any more which jobs you were asked about. Nothing has been done.")
		return
	}
	keys, _ := c.watch.chosen(f, v, who)
	keys = slices.DeleteFunc(keys, func(key jobKey) bool { return !confirmed[key] }) // others came since
	t, err := c.tasks.begin(c.open, c.watch, v, f, who, keys)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, t.path(), http.StatusSeeOther)
}

// done notes what was done about a job, so that it shows before its streams are read again.
func (w *watch) done(v verbOf, key jobKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.index.byKey[key]; j != nil && v.Name == "drop" && j.letter > 0 {
		j.letter = 0
		w.index.letters--
	}
	w.changed()
}

// tasks is what is done about many jobs, or was.
type tasks struct {
	mu      sync.Mutex
	list    []*task
	last    int
	asked   []question
	running sync.WaitGroup
}

// question has the jobs about which somebody was asked whether to do something.
type question struct {
	name string
	who  people.Person
	keys map[jobKey]bool
}

// ask keeps the jobs about which somebody is asked, for a while.
func (s *tasks) ask(who people.Person, keys []jobKey) (name string) {
	one := question{rand.Text(), who, map[jobKey]bool{}}
	for _, key := range keys {
		one.keys[key] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked = append(s.asked, one); len(s.asked) > keptAsked {
		s.asked = slices.Delete(s.asked, 0, 1)
	}
	return one.name
}

// confirmed are the jobs about which somebody was asked, once.
func (s *tasks) confirmed(name string, who people.Person) (keys map[jobKey]bool, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.asked, func(one question) bool { return one.name == name && one.who.Is(who) })
	if i < 0 {
		return nil, false
	}
	keys = s.asked[i].keys
	s.asked = slices.Delete(s.asked, i, i+1)
	return keys, true
}

// task is one thing done about many jobs.
type task struct {
	number int
	verb   verbOf
	filter filter
	who    people.Person
	total  int
	began  time.Time
	stop   func()

	mu    sync.Mutex
	came  map[string]int // of how many jobs what came
	wrong []string       // the first errors
	bad   int            // how many there were
	left  int            // not begun when it was stopped
	ended time.Time
}

func (t *task) path() string { return home + "/tasks/" + strconv.Itoa(t.number) }

func (t *task) isRunning() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended.IsZero()
}

// begin begins a task, which ends with open.
func (s *tasks) begin(open context.Context, w *watch, v verbOf, f filter, who people.Person, keys []jobKey) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, t := range s.list {
		if t.isRunning() {
			running++
		}
	}
	if running >= maxTasks {
		return nil, refuse(http.StatusTooManyRequests, "%d of these are being done already; try again when one has ended", running)
	}
	s.last++
	ctx, stop := context.WithCancel(open)
	t := &task{number: s.last, verb: v, filter: f, who: who, total: len(keys), began: time.Now(), stop: stop, came: map[string]int{}}
	s.list = append(s.list, t)
	if first := slices.IndexFunc(s.list, func(t *task) bool { return !t.isRunning() }); len(s.list) > keptTasks && first >= 0 {
		s.list = slices.Delete(s.list, first, first+1)
	}
	s.running.Go(func() {
		defer stop()
		t.run(open, ctx, w, keys)
	})
	return t, nil
}

// run does it about one job after the other, several at once, until ctx ends.
func (t *task) run(open, ctx context.Context, w *watch, keys []jobKey) {
	next := make(chan jobKey)
	var doing sync.WaitGroup
	for range atOnce {
		doing.Go(func() {
			for key := range next {
				limited, cancel := context.WithTimeout(open, oneLimit) // what is begun is ended, also when the task is stopped
				came, err := t.verb.do(limited, w.system.For(key.user.Value()), key.id)
				cancel()
				if t.note(came, key, err); err == nil {
					w.done(t.verb, key)
				}
			}
		})
	}
	for i, key := range keys {
		select {
		case next <- key:
			continue
		case <-ctx.Done():
		}
		t.mu.Lock()
		t.left = len(keys) - i
		t.mu.Unlock()
		break
	}
	close(next)
	doing.Wait()
	t.mu.Lock()
	t.ended = time.Now()
	t.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed()
}

// note counts what came of one job.
func (t *task) note(came string, key jobKey, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.came[came]++
		return
	}
	if t.bad++; len(t.wrong) < keptWrong {
		t.wrong = append(t.wrong, "job "+key.id+": "+err.Error())
	}
}

// of finds a task that a person may see: who began it, and operators.
func (s *tasks) of(number string, who people.Person) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.list {
		if strconv.Itoa(t.number) == number && (t.who.Is(who) || who.Role.May(people.Operator)) {
			return t, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "there is no task %.20s; after the gateway was started again the last ones are not known: look at what still matches among the jobs", number)
}

// taskPage is the answer to: how far is it?
type taskPage struct {
	Path, Title, Back string
	Words             string
	Tone              tone
	Done, Total       int
	Percent           int
	Came              []string
	Wrong             []string
	MoreWrong         int
	Running           bool
}

func (c *Console) task(r *http.Request) (any, error) {
	t, err := c.tasks.of(r.PathValue("number"), people.From(r.Context()))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := taskPage{Path: t.path(), Title: t.verb.Title, Back: home + "/jobs?" + t.filter.Query(), Total: t.total, Running: t.ended.IsZero(), Wrong: t.wrong, MoreWrong: t.bad - len(t.wrong), Done: t.bad}
	for _, came := range slices.Sorted(maps.Keys(t.came)) {
		p.Done += t.came[came]
		p.Came = append(p.Came, units.Count(t.came[came])+" "+came)
	}
	if t.bad > 0 {
		p.Came = append(p.Came, units.Count(t.bad)+" went wrong")
	}
	if p.Percent = 100; t.total > 0 {
		p.Percent = 100 * p.Done / t.total
	}
	took := time.Since(t.began)
	if !p.Running {
		took = t.ended.Sub(t.began)
	}
	p.Words, p.Tone = fmt.Sprintf("%s of %s done, %s.", units.Count(p.Done), count(t.total, "job", "jobs"), units.Roughly(took)), plain
	switch {
	case p.Running:
		if p.Done > 0 {
			p.Words += " About " + units.Roughly(time.Duration(float64(took)/float64(p.Done)*float64(t.total-p.Done))) + " left."
		}
	case t.left > 0:
		p.Words, p.Tone = "Stopped. "+p.Words, warn
	case t.bad > 0:
		p.Tone = bad
	default:
		p.Tone = good
	}
	return p, nil
}

// stopTask has a task begin with no more jobs.
func (c *Console) stopTask(w http.ResponseWriter, r *http.Request) {
	t, err := c.tasks.of(r.PathValue("number"), people.From(r.Context()))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	t.stop()
	http.Redirect(w, r, t.path(), http.StatusSeeOther)
}
