package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"tandem/client/admin"
	"tandem/internal/people"
	"tandem/internal/units"
	"tandem/jobs"
)

const lettersShown = 20

// queuesPage is the answer to: what waits, is anything stuck, and what could not be done?
type queuesPage struct {
	Tone    tone
	Words   string
	Problem string
	Queues  []queueRow
	Streams []streamRow
	Letters int
	Why     []letterGroup
	Last    []jobRow
}

// queueRow is what waits for a stage of a model, of a class of jobs.
type queueRow struct {
	Model, Stage, Class            string
	Waiting, InFlight, Redelivered int
	Oldest                         string // how long the job has waited or run that was accepted first; of all classes, at the first of them
}

// streamRow is a stream, and how full it is.
type streamRow struct {
	Name, What string
	Missing    bool
	Messages   string
	Bytes      string
	Full       int // percent, of whatever there is less left of
	Drift      string
}

// letterGroup is how many dead letters have the same cause.
type letterGroup struct {
	Count              int
	Model, Stage, Code string
	Path               string // of the jobs
}

// whatStreams are is what each stream holds, for people.
var whatStreams = map[string]string{
	admin.StreamIntake: "accepted, until prefill is done with them", admin.StreamRelay: "on their way to decode, until they end", admin.StreamResults: "results, for 7 days",
	admin.StreamDLQ: "dead letters, for 30 days", "CONTROL": "cancels that wait for a worker", "KV_workers": "who works", "KV_handbacks": "jobs that were given back uncounted",
}

func (c *Console) queues(r *http.Request) (any, error) {
	return c.watch.queues(people.From(r.Context()), time.Now()), nil
}

// queues draws what waits, at this moment.
func (w *watch) queues(who people.Person, now time.Time) queuesPage {
	w.mu.Lock()
	defer w.mu.Unlock()
	type place struct{ model, stage string }
	oldest := map[place]time.Time{}
	groups := map[letterGroup]int{}
	p := queuesPage{Problem: w.problem}
	for _, j := range w.index.order {
		if !j.ended() {
			at := place{j.model.Value(), string(jobs.StagePrefill)}
			if stage := jobs.Stage(j.stage.Value()); stage == jobs.StageDecode || stage == jobs.StageFallback {
				at.stage = string(jobs.StageDecode)
			}
			if first, there := oldest[at]; !there || j.accepted.Before(first) {
				oldest[at] = j.accepted
			}
		}
		if j.letter > 0 {
			groups[letterGroup{Model: j.model.Value(), Stage: j.stage.Value(), Code: j.code.Value()}]++
			p.Letters++
		}
	}
	waiting, again := 0, 0
	missing := ""
	for _, m := range w.models {
		for _, stage := range []jobs.Stage{jobs.StagePrefill, jobs.StageDecode} {
			for i, class := range m.Classes {
				depth := class.Prefill
				if stage == jobs.StageDecode {
					depth = class.Decode
				}
				row := queueRow{Model: m.Model, Stage: string(stage), Class: string(class.Class), Waiting: depth.Waiting, InFlight: depth.InFlight, Redelivered: depth.Redelivered, Oldest: none}
				if first, there := oldest[place{m.Model, string(stage)}]; there && i == 0 {
					row.Oldest = units.Roughly(now.Sub(first))
				}
				waiting, again = waiting+row.Waiting, again+row.Redelivered
				p.Queues = append(p.Queues, row)
			}
		}
	}
	for _, s := range w.streams {
		row := streamRow{Name: s.Name, What: whatStreams[s.Name], Missing: s.Missing, Messages: units.Count(s.Messages), Bytes: units.Bytes(s.Bytes), Drift: s.Drift}
		if s.MaxMessages > 0 {
			row.Messages += " of " + units.Count(s.MaxMessages)
			row.Full = int(100 * s.Messages / uint64(s.MaxMessages))
		}
		if s.MaxBytes > 0 {
			row.Bytes += " of " + units.Bytes(s.MaxBytes)
			row.Full = max(row.Full, int(100*s.Bytes/uint64(s.MaxBytes)))
		}
		p.Streams = append(p.Streams, row)
		if s.Missing {
			p.Tone, missing = bad, s.Name
		}
		if row.Full >= 90 && s.Name != admin.StreamDLQ {
			p.Tone = bad
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b letterGroup) int {
		return cmp.Or(groups[b]-groups[a], cmp.Compare(a.Model, b.Model), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Code, b.Code))
	}) {
		g.Path = home + "/jobs?" + url.Values{"state": {string(anyLetter)}, "model": {g.Model}, "code": {cmp.Or(g.Code, noCode)}, "stage": {g.Stage}}.Encode()
		g.Count = groups[letterGroup{Model: g.Model, Stage: g.Stage, Code: g.Code}]
		p.Why = append(p.Why, g)
	}
	w.index.sort()
	for _, j := range slices.Backward(w.index.order) {
		if j.letter > 0 && len(p.Last) < lettersShown {
			p.Last = append(p.Last, rowOfJob(j, who, now))
		}
	}
	if p.Tone == "" {
		if p.Tone = good; p.Letters > 0 || again > 0 {
			p.Tone = warn
		}
	}
	p.Words = "Nothing waits"
	if waiting > 0 {
		p.Words = count(waiting, "job waits", "jobs wait")
	}
	if p.Letters > 0 {
		p.Words += "; " + count(p.Letters, "could not be done", "could not be done")
	}
	switch {
	case missing != "":
		p.Words += "; the stream " + missing + " is missing"
	case p.Tone == bad:
		p.Words += "; a stream is nearly full"
	}
	return p
}
