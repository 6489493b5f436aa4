package engines

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// pair is a prefill and a decode machine, with the way between them.
type pair struct {
	*system
	there, here *machine
	link        *link
	right       func(t *testing.T, list ...*jobs.Job) string // the text of the last of these jobs where its state was not used
	window      int                                          // of the model; llama-server computes some of the last tokens of a shorter prompt again
	counted     map[jobs.Failure]int                         // hand-overs that the decode worker has ended
}

func newPair(t *testing.T, there, here *machine) *pair {
	return &pair{
		system: newSystem(t), there: there, here: here, link: newLink(t), right: there.cold, counted: map[jobs.Failure]int{},
	}
}

// in is the pair in another test, with which the workers end that are started there.
func (p *pair) in(t *testing.T) *pair {
	s, q := *p.system, *p
	s.t, q.system = t, &s
	return &q
}

func (p *pair) prefill(change ...func(*app.WorkerFlags)) (stop func()) {
	p.t.Helper()
	return p.worker(protocol.RolePrefill, nil, p.there.slots, append([]func(*app.WorkerFlags){p.there.flags, p.through}, change...)...)
}

// through has a prefill worker offer its states through the link.
func (p *pair) through(f *app.WorkerFlags) {
	f.HandoverListen, f.HandoverURL = p.link.target, "http://"+p.link.addr
}

func (p *pair) decode(change ...func(*app.WorkerFlags)) (stop func()) {
	p.t.Helper()
	return p.worker(protocol.RoleDecode, nil, p.here.slots, append([]func(*app.WorkerFlags){p.here.flags}, change...)...)
}

// ready waits until both workers are there and know of each other.
func (p *pair) ready() {
	p.t.Helper()
	p.eventually("both workers are there", func() error {
		var roles []jobs.Stage
		for _, w := range p.workers() {
			if w.Live() {
				roles = append(roles, w.Role)
			}
		}
		if !slices.Contains(roles, protocol.RolePrefill) || !slices.Contains(roles, protocol.RoleDecode) {
			return fmt.Errorf("only %v", roles)
		}
		return nil
	})
	p.eventually("a job goes to the prefill worker", func() error {
		r := p.run(job("Ready?", 0))
		if r.Method != jobs.MethodDisaggregated {
			return fmt.Errorf("it went by %s", r.Method)
		}
		if r.Handover == nil {
			return nil
		}
		p.counted[r.Handover.Failure]++
		if strings.Contains(r.Handover.Message, "digest is not known") {
			return errors.New(r.Handover.Message) // it is computed beside the first jobs
		}
		return nil
	})
}

func (p *pair) workers() []queue.Presence {
	p.t.Helper()
	list, err := p.client.Workers(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// checkedStart names the start of the prefill worker's engine that it says is checked; it is empty if none is.
func (p *pair) checkedStart() string {
	p.t.Helper()
	for _, w := range p.workers() {
		if w.Role == protocol.RolePrefill && w.Live() && w.Check != nil {
			return w.Check.Start
		}
	}
	return ""
}

// eventually asks until there is no error.
func (p *pair) eventually(what string, check func() error) {
	p.t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			p.t.Fatalf("did not happen: %s: %v", what, err)
		}
	}
}

// await waits until a channel is closed.
func (p *pair) await(what string, happened <-chan struct{}) {
	p.t.Helper()
	select {
	case <-happened:
	case <-time.After(time.Minute):
		p.t.Fatalf("did not happen: %s", what)
	}
}

// fails runs a job whose state cannot be used, and then one whose can.
func (p *pair) fails(name string, want jobs.Failure) *jobs.Result {
	p.t.Helper()
	j := job(lines(name, 20), 0)
	r := p.failsFor(j, want)
	p.link.spoil(nil)
	return r
}

// failsFor runs a job whose state cannot be used: the text is that of an engine that computes the prompt from its
// beginning, as this one did.
func (p *pair) failsFor(j *jobs.Job, want jobs.Failure) *jobs.Result {
	p.t.Helper()
	if p.here.inner == nil {
		r := p.run(j)
		p.failed(r, want, j)
		return r
	}
	p.here.erase(p.t)
	_, process := p.here.inner()
	r := p.run(j)
	p.failed(r, want, j)
	if _, now := p.here.inner(); now != process {
		p.t.Errorf("the decode engine was started again")
	}
	return r
}

// failed checks the result of the last of these jobs.
func (p *pair) failed(r *jobs.Result, want jobs.Failure, list ...*jobs.Job) {
	p.t.Helper()
	p.counted[want]++
	u, h := r.Usage, r.Handover
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || h == nil || h.Failure != want || h.Message == "" {
		p.t.Fatalf("%s by %s, report %+v, error %+v, decision %s; want %s", r.Status, r.Method, h, r.Error, r.Decision, want)
	}
	if u.HandedOver != 0 || u.DecodeCached+u.DecodeComputed != u.PromptTokens || u.DecodeCached > 16 {
		p.t.Errorf("usage %+v; want nothing handed over and the prompt computed", u)
	}
	if !strings.HasPrefix(r.Decision, "disaggregated, as asked: ") || !strings.Contains(r.Decision, h.Message) {
		p.t.Errorf("decision %s\nwant one that says %s", r.Decision, h.Message)
	}
	if !slices.Contains(r.Warnings, fmt.Sprintf("KV state not used (%s): %s", want, h.Message)) {
		p.t.Errorf("warnings %q do not say why", r.Warnings)
	}
	if said := r.Decision + strings.Join(r.Warnings, " "); strings.Contains(said, "quantity") || strings.Contains(said, "/state/") {
		p.t.Errorf("the prompt or the state's address is told: %s", said)
	}
	p.equal(r, list...)
	if left := p.here.states(p.t); len(left) != 0 {
		p.t.Errorf("%q is left on the decode machine", left)
	}
}

// equal compares a result's text with what an engine says to the last of these jobs, having read them from the beginning.
func (p *pair) equal(r *jobs.Result, list ...*jobs.Job) {
	p.t.Helper()
	if text := p.right(p.t, list...); r.Text != text || text == "" {
		p.t.Errorf("text %q; the engine by itself says %q", r.Text, text)
	}
}

// normal runs a job whose state is handed over: the text is how the prefill engine goes on.
func (p *pair) normal(name string) *jobs.Result {
	p.t.Helper()
	j := job(lines(name, 12), 0)
	r := p.run(j)
	p.handedOver(r, j)
	for _, w := range r.Warnings {
		if !strings.HasPrefix(w, "Slow context transfer") { // which a busy test machine may be
			p.t.Errorf("%s: warning %s", name, w)
		}
	}
	return r
}

func (p *pair) handedOver(r *jobs.Result, j *jobs.Job) {
	p.t.Helper()
	p.counted[""]++
	u, h, most := r.Usage, r.Handover, 1
	if u.PromptTokens <= p.window {
		most = 8
	}
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || h == nil || h.Failure != "" || u.HandedOver != u.PromptTokens-1 || u.DecodeComputed > most {
		p.t.Fatalf("%s by %s, report %+v, error %+v, usage %+v; want all but one token handed over", r.Status, r.Method, h, r.Error, u)
	}
	if p.there.direct == nil {
		p.equal(r, j)
	} else if text := p.there.ask(p.t, j).Text; r.Text != text || text == "" {
		p.t.Errorf("text %q; the prefill engine goes on with %q", r.Text, text)
	}
	if left := p.here.states(p.t); len(left) != 0 {
		p.t.Errorf("%q is left on the decode machine", left)
	}
}

// nothingLeft waits until no lease is left on the prefill machine.
func (p *pair) nothingLeft() {
	p.t.Helper()
	p.eventually("nothing is left on the prefill machine", func() error {
		if left := p.there.states(p.t); len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		return nil
	})
}

// metrics are the lines of a worker's metrics that hold a text.
func (p *pair) metrics(role jobs.Stage, text string) []string {
	p.t.Helper()
	for _, w := range p.workers() {
		if w.Role != role {
			continue
		}
		resp, err := http.Get("http://" + w.HTTP + "/metrics")
		if err != nil {
			p.t.Fatal(err)
		}
		defer resp.Body.Close()
		var all strings.Builder
		if err := resp.Write(&all); err != nil {
			p.t.Fatal(err)
		}
		var found []string
		for line := range strings.Lines(all.String()) {
			if strings.Contains(line, text) && !strings.HasPrefix(line, "#") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return found
	}
	p.t.Fatalf("there is no %s worker", role)
	return nil
}

// waiting is nil if so many messages are in a stream.
func (p *pair) waiting(stream string, want uint64) error {
	p.t.Helper()
	o, err := p.client.Inspect(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range o.Streams {
		if s.Name == stream && s.Messages != want {
			return fmt.Errorf("%d messages in %s", s.Messages, stream)
		}
	}
	return nil
}

// submitted runs a job beside the test.
func (p *pair) submitted(j *jobs.Job) (result func() *jobs.Result) {
	p.t.Helper()
	var r *jobs.Result
	var wait sync.WaitGroup
	wait.Go(func() { r = p.run(j) })
	return func() *jobs.Result {
		p.t.Helper()
		if wait.Wait(); r == nil {
			p.t.FailNow() // it has said why
		}
		return r
	}
}
