package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

const (
	keptPairs    = 256 // of machines, and model
	keptFailures = 20  // kinds of them, of a pair
	trialsEvery  = 10 * time.Second
	longWhy      = 300 // characters of it that are shown
)

// machines has the page that says what each machine can do, and whether KV states move between them.
func (c *Console) machines(mux *http.ServeMux) {
	var trials asked[[]admin.Trial]
	c.view(mux, "/machines", view{title: "Machines", part: "machines.html", same: true, draw: func(r *http.Request) (any, error) {
		m := c.watch.machines(time.Now())
		list, err := trials.get(r.Context(), trialsEvery, c.watch.system.Trials)
		if err != nil {
			m.NoTrials = err.Error()
		}
		for _, t := range list {
			m.Trials = append(m.Trials, trialRow{t, "measured " + t.At.UTC().Format("2 January 2006, 15:04 UTC")})
		}
		return m, nil
	}})
}

// asked is the answer to a question of the queue that is not asked again for a while, however many look.
type asked[T any] struct {
	mu     sync.Mutex
	at     time.Time
	answer T
	err    error
}

func (a *asked[T]) get(ctx context.Context, every time.Duration, ask func(context.Context) (T, error)) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.at) >= every {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollLimit) // others wait for it, too
		defer cancel()
		a.answer, a.err = ask(ctx)
		a.at = time.Now()
	}
	return a.answer, a.err
}

// pair is two machines between which KV states of a model move. The second one is empty if the state was not even offered.
type pair struct{ prefill, decode, model string }

// handovers are what became of the KV states between two machines.
type handovers struct {
	used     int
	failures map[jobs.Failure]refused
}

// refused is why KV states were not used.
type refused struct {
	Times int
	Why   string // the last time
	At    time.Time
}

// pairs are the hand-overs since the console began.
type pairs map[pair]*handovers

// event counts a hand-over that a request's event tells of.
func (p *pairs) event(now time.Time, e *jobs.Event, j *atWork) {
	if j.from == "" || e.Type != jobs.EventRestored && e.Type != jobs.EventHandoverFailed {
		return
	}
	key := pair{prefill: machineOf(j.from), model: e.Model}
	if e.Worker != j.from {
		key.decode = machineOf(e.Worker)
	}
	h := (*p)[key]
	if h == nil {
		if len(*p) >= keptPairs {
			return
		}
		if *p == nil {
			*p = pairs{}
		}
		h = &handovers{failures: map[jobs.Failure]refused{}}
		(*p)[key] = h
	}
	if e.Type == jobs.EventRestored {
		h.used++
		return
	}
	failure := jobs.Failure(shortened(string(e.Failure), jobs.MaxName))
	if old, known := h.failures[failure]; known || len(h.failures) < keptFailures {
		h.failures[failure] = refused{old.Times + 1, shortened(e.Why, longWhy), now}
	}
}

func machineOf(server string) string { return server[:max(0, strings.LastIndexByte(server, '/'))] }

func shortened(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + " …"
	}
	return s
}

// machinesPart is the answer to: what can each machine do, and do KV states move between them?
type machinesPart struct {
	Tone     tone
	Words    string
	Problem  string
	Machines []machine
	Pairs    []pairRow
	Trials   []trialRow
	NoTrials string // why they are not known
}

type machine struct {
	Name    string
	Address string
	Version string
	Clock   string // how far it is from the server's
	Workers []machineWorker
}

type machineWorker struct {
	workerRow
	Facts    []fact
	Rates    []fact
	ByLength []lengthRow
	Prints   []fact // the fingerprint
	Refuses  string // why it moves no KV states
}

type lengthRow struct{ Length, Prefill, Decode string }

type pairRow struct {
	Prefill, Decode, Model string
	Used, Refused          int
	Reasons                []refusedRow
}

type refusedRow struct {
	Failure jobs.Failure
	refused
}

type trialRow struct {
	admin.Trial
	When string
}

// machines draws the picture of this moment.
func (w *watch) machines(now time.Time) *machinesPart {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &machinesPart{Tone: good, Problem: w.problem}
	byName := map[string]*machine{}
	workers, moving := 0, 0
	for _, one := range slices.SortedFunc(maps.Values(w.workers), func(a, b worker) int {
		return cmp.Or(cmp.Compare(b.Role, a.Role), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Worker, b.Worker)) // prefill comes first
	}) {
		at := byName[one.Machine]
		if at == nil {
			at = &machine{Name: one.Machine}
			byName[one.Machine] = at
		}
		at.Address, at.Version = cmp.Or(at.Address, machineAddress(one.HTTP)), cmp.Or(at.Version, one.Version)
		at.Clock = cmp.Or(at.Clock, skew(one.SkewSeconds))
		r := machineWorkerOf(one, now)
		at.Workers = append(at.Workers, r)
		if one.Fingerprint != nil && !one.gone {
			moving++
		}
		if workers++; r.Health.Tone != good {
			m.Tone = warn
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		m.Machines = append(m.Machines, *byName[name])
	}
	used, failed := 0, 0
	for _, key := range slices.SortedFunc(maps.Keys(w.pairs), func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.prefill, b.prefill), cmp.Compare(a.decode, b.decode))
	}) {
		if byName[key.prefill] == nil || key.decode != "" && byName[key.decode] == nil { // nobody's, or of one that is gone
			continue
		}
		h := w.pairs[key]
		row := pairRow{Prefill: key.prefill, Decode: cmp.Or(key.decode, none), Model: key.model, Used: h.used}
		for _, failure := range slices.Sorted(maps.Keys(h.failures)) {
			row.Reasons = append(row.Reasons, refusedRow{failure, h.failures[failure]})
			row.Refused += h.failures[failure].Times
		}
		m.Pairs = append(m.Pairs, row)
		used, failed = used+row.Used, failed+row.Refused
	}
	m.Words = fmt.Sprintf("%s on %s, %d of the workers can move KV states: %s used, %d refused.",
		count(workers, "worker", "workers"), count(len(m.Machines), "machine", "machines"), moving, count(used, "hand-over", "hand-overs"), failed)
	if failed > 0 {
		m.Tone = warn
	}
	if workers == 0 {
		m.Tone, m.Words = bad, "No worker has been seen."
	}
	return m
}

func machineAddress(http string) string {
	if i := strings.LastIndexByte(http, ':'); i > 0 {
		return http[:i]
	}
	return http
}

func skew(s float64) string {
	switch {
	case s > -0.05 && s < 0.05:
		return "agrees with the server's"
	case s > 0:
		return units.Seconds(s) + " ahead of the server's"
	}
	return units.Seconds(-s) + " behind the server's"
}

// facts gathers those that there are.
type facts []fact

func (f *facts) add(there bool, name, format string, args ...any) {
	if there {
		*f = append(*f, fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
}

// machineWorkerOf is a worker with all that it says of itself.
func machineWorkerOf(w worker, now time.Time) machineWorker {
	out := machineWorker{workerRow: rowOf(w)}
	if w.Problem != "" {
		out.Problem = w.Problem
	}
	perSecond := func(v float64) string { return units.Bytes(int64(v)) + "/s" }
	var f, rates, prints facts
	f.add(true, "Slots", "%d of %d busy", w.Busy, w.Slots)
	f.add(true, "Heard", "%s", ago(w.seen))
	f.add(!w.Started.IsZero(), "Runs for", "%s", long(now.Sub(w.Started)))
	f.add(w.ContextTokens > 0, "Context", "%s tokens", units.Count(w.ContextTokens))
	f.add(len(w.Capabilities) > 0, "Can", "%s", strings.Join(w.Capabilities, ", "))
	f.add(len(w.Handover) > 0, "Hands over", "%s", strings.ReplaceAll(strings.Trim(fmt.Sprint(w.Handover), "[]"), " ", ", "))
	f.add(len(w.Prefixes) > 0, "In its cache", "%s of %s", shared(w.Prefixes), tokens(w.Prefixes))
	f.add(len(w.Rows) > 0, "KV states kept", "rows of %s of %s", shared(w.Rows), tokens(w.Rows))
	f.add(len(w.StoppedPairs) > 0, "Takes none from", "%s, until an operator clears it", strings.Join(w.StoppedPairs, ", "))
	f.add(w.ModelDigest != "", "Model file", "%s", short(w.ModelDigest))
	p := w.Rates
	rates.add(p.PrefillTokensPerSecond > 0, "Prefill", "%s tok/s", rate(p.PrefillTokensPerSecond))
	rates.add(p.DecodeTokensPerSecond > 0, "Decode", "%s tok/s", rate(p.DecodeTokensPerSecond))
	rates.add(p.JobSeconds > 0, "Slot time a request", "%s", units.Seconds(p.JobSeconds))
	rates.add(p.StateBytesPerToken > 0, "KV state", "%s a token", units.Bytes(int64(p.StateBytesPerToken)))
	rates.add(p.SaveBytesPerSecond > 0, "Saves at", "%s", perSecond(p.SaveBytesPerSecond))
	rates.add(p.RestoreBytesPerSecond > 0, "Reads at", "%s", perSecond(p.RestoreBytesPerSecond))
	rates.add(p.CheckSeconds > 0, "Checks in", "%s", units.Seconds(p.CheckSeconds))
	for _, from := range slices.Sorted(maps.Keys(p.LinkBytesPerSecond)) {
		rates.add(true, "Fetches from "+from+" at", "%s", perSecond(p.LinkBytesPerSecond[from]))
	}
	for _, length := range protocol.RateLengths {
		if a, b := p.PrefillByLength[length], p.DecodeByLength[length]; a > 0 || b > 0 {
			out.ByLength = append(out.ByLength, lengthRow{length, rate(a), rate(b)})
		}
	}
	if fp := w.Fingerprint; fp != nil {
		for _, one := range [][2]string{
			{"Build", fp.Build}, {"Model file", short(fp.Model)}, {"State file", fp.Format}, {"Keys, values", fp.CacheK + ", " + fp.CacheV},
			{"Flash attention", map[bool]string{true: "on", false: "off"}[fp.FlashAttention]}, {"Parts", units.Count(fp.Streams)}, {"Layout", shortened(fp.Layout, 24)}, {"Positions", fp.Positions},
		} {
			prints.add(true, one[0], "%s", one[1])
		}
		prints.add(w.Strict, "Builds", "must have the same name")
	}
	out.Facts, out.Rates, out.Prints, out.Refuses = f, rates, prints, w.NoState
	return out
}

func shared(m map[string]int) string { return count(len(m), "shared prefix", "shared prefixes") }

func tokens(m map[string]int) string {
	sum := 0
	for _, n := range m {
		sum += n
	}
	return count(sum, "token", "tokens")
}

// short is the beginning of a hash.
func short(digest string) string {
	_, hash, named := strings.Cut(digest, ":")
	if !named {
		hash = digest
	}
	return shortened(hash, 12)
}

// long is a time of hours and days.
func long(d time.Duration) string {
	switch {
	case d < 2*time.Hour:
		return units.Roughly(d.Truncate(time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}
