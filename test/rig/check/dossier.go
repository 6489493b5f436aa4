package check

import (
	"slices"
	"strings"

	"tandem/test/rig/history"
)

// seen is an event of a job with its record, if it is one that matters.
type seen struct {
	at int // position in the history
	*history.Event
	record *record
}

// dossier is what a history says of one job.
type dossier struct {
	id     string
	events []int // positions of its events, ascending

	submitted []seen
	stored    []seen
	delivered []seen // to workers
	entered   []seen // that INTAKE or RELAY took, and did not know already
	told      []seen
	waiting   []seen // found in INTAKE or RELAY
	results   []seen // found in RESULTS
	letters   []seen // found in DLQ
	elsewhere []seen // found in any other stream
	purged    []int
	restarts  []int // positions of the faults of NATS and of their ends, the same for every job
	trouble   int   // position of the first fault of any kind, or beyond the last event; the same for every job
	cancelled int   // position of the first acknowledgement of a cancel or expiry; -1 if there is none
	after     []int // engine calls and stored records after that
	expected  []string

	accepted, refused bool
	attended          bool // at least one submitter waits for the end
	owned             bool // the job says whose it is, so that its owner can be told
	greedy            bool
}

// gather sorts a history by jobs, in the order in which they appear. Records that name no job are those of the job "".
func gather(events []history.Event) []*dossier {
	var all []*dossier
	byID := map[string]*dossier{}
	var restarts []int
	trouble := len(events)
	for at := range events {
		e := &events[at]
		if e.Kind == history.Fault {
			trouble = min(trouble, at)
		}
		if (e.Kind == history.Fault || e.Kind == history.Healed) && strings.HasPrefix(e.Process, server) {
			restarts = append(restarts, at)
		}
		if e.Job == "" && e.Kind != history.Found && e.Kind != history.Told && e.Kind != history.Stored {
			continue
		}
		d := byID[e.Job]
		if d == nil {
			d = &dossier{id: e.Job, cancelled: -1}
			byID[e.Job] = d
			all = append(all, d)
		}
		d.events = append(d.events, at)
		d.add(seen{at: at, Event: e})
	}
	for _, d := range all {
		d.restarts, d.trouble = restarts, trouble
	}
	return all
}

func (d *dossier) add(s seen) {
	switch s.Kind {
	case history.Submitted:
		s.record = read(s.Record)
		d.submitted = append(d.submitted, s)
		d.attended = d.attended || s.Note != "unattended"
		d.owned = d.owned || s.record.User != "" && s.record.Batch != ""
		d.greedy = d.greedy || s.record.greedy()
	case history.Accepted:
		d.accepted = true
		if !s.Again {
			d.entered = append(d.entered, s)
		}
	case history.Refused:
		d.refused = true
	case history.Delivered:
		if s.Stream == intake || s.Stream == relay {
			d.delivered = append(d.delivered, s)
		}
	case history.Stored:
		d.stored = append(d.stored, s)
		if s.Stream == relay && !s.Again {
			d.entered = append(d.entered, s)
		}
		if d.cancelled >= 0 && !s.Again && (s.Stream == results || s.Stream == relay || s.Stream == letters) {
			d.after = append(d.after, s.at)
		}
	case history.Called:
		if d.cancelled >= 0 {
			d.after = append(d.after, s.at)
		}
	case history.Told:
		s.record = read(s.Record)
		d.told = append(d.told, s)
	case history.Cancelled:
		if d.cancelled < 0 {
			d.cancelled = s.at
		}
	case history.Purged:
		d.purged = append(d.purged, s.at)
	case history.Found:
		s.record = read(s.Record)
		switch s.Stream {
		case intake, relay:
			d.waiting = append(d.waiting, s)
		case results:
			d.results = append(d.results, s)
		case letters:
			d.letters = append(d.letters, s)
		default:
			d.elsewhere = append(d.elsewhere, s)
		}
	case history.Expected:
		d.expected = append(d.expected, s.Text)
	}
}

// found is all that streams hold of the job.
func (d *dossier) found() []seen { return slices.Concat(d.waiting, d.results, d.letters, d.elsewhere) }

// bound reports whether the server had taken the job, so that it must not be lost. If no acknowledgement of the submission was
// seen, whatever came of it later shows that.
func (d *dossier) bound() bool {
	known := len(d.stored) + len(d.told) + len(d.waiting) + len(d.results) + len(d.letters) + len(d.elsewhere)
	return len(d.submitted) > 0 && (d.accepted || known > 0)
}

// end is the first terminal record that was found in RESULTS.
func (d *dossier) end() (seen, bool) {
	if i := slices.IndexFunc(d.results, func(s seen) bool { return s.record.final() }); i >= 0 {
		return d.results[i], true
	}
	return seen{}, false
}

// undisturbed is the job's result if it was stored before anything at all went wrong.
func (d *dossier) undisturbed() (seen, bool) {
	end, ended := d.end()
	before := slices.ContainsFunc(d.stored, func(s seen) bool { return s.Stream == results && s.at < d.trouble })
	return end, ended && before
}

// count adds the job to the counts.
func (d *dossier) count(c *Counts) {
	if d.refused {
		c.Refused++
	}
	if len(d.submitted) == 0 {
		return
	}
	c.Submitted++
	if d.accepted {
		c.Accepted++
	}
	end, ended := d.end()
	if !ended {
		c.Left += min(1, len(d.waiting))
		return
	}
	c.Kept += min(1, len(d.waiting))
	switch end.record.Status {
	case succeeded:
		c.Succeeded++
	case failed:
		c.Failed++
	case cancelled:
		c.Cancelled++
	case expired:
		c.Expired++
	}
	if end.record.Usage.HandedOver > 0 {
		c.HandedOver++
	}
	if len(d.expected) > 0 {
		c.Compared += len(d.texts())
	}
}

// texts are the found results whose text must be the engine's own.
func (d *dossier) texts() []seen {
	if !d.greedy {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.results), func(s seen) bool { return s.record.Status != succeeded })
}
