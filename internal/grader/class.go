package grader

import (
	"fmt"
	"slices"

	"tandem/internal/grader/report"
)

// writeClassNow writes the class's page if something changed and the last time is a while ago.
func (r *run) writeClassNow() error {
	if !r.changed || r.o.Now().Sub(r.written) < classEvery {
		return nil
	}
	_, err := r.writeClass(false)
	return err
}

// writeClass writes the class's page and all exports. last says that nothing of this run follows; the class is finished then, unless submissions were left out.
func (r *run) writeClass(last bool) (*report.Class, error) {
	c := r.classRecord(last)
	if err := r.dir.WriteClass(c, r.a.Rubric, r.roster); err != nil {
		return nil, err
	}
	r.written, r.changed = r.o.Now(), false
	return c, nil
}

// classRecord is what the class has come to so far.
func (r *run) classRecord(last bool) *report.Class {
	var records []*report.Student
	var sequential, parallel float64
	for _, s := range r.submissions {
		if s.record == nil {
			continue
		}
		records = append(records, s.record)
		if a, b, ok := pair(s.record); ok {
			sequential, parallel = sequential+a, parallel+b
		}
	}
	c := report.Summarise(records, r.a.Rubric)
	now := r.o.Now().UTC()
	c.Batch, c.Notice, c.SelfCheck, c.Rare = r.batch, r.o.Notice, r.a.selfCheck, r.desk.Rare
	c.Warnings, c.Submissions, c.Reused = slices.Concat(r.warnings, r.remedies()), len(r.submissions), r.reused
	c.Metrics, c.Prefix, c.PairSpeedUp = r.metrics.report(r.batch), r.metrics.prefixes(), speedUp(sequential, parallel)
	c.WallSeconds = now.Sub(r.began).Seconds()
	if last && len(records) == len(r.submissions) {
		c.FinishedAt = now
	}
	return c
}

// remedies say what can be done about answers that are missing.
func (r *run) remedies() []string {
	var missing, refused int
	for _, s := range r.submissions {
		for _, q := range s.requests {
			switch {
			case !q.settled():
			case q.last().state == failed:
				missing++
			case q.last().state == rejected:
				refused++
			}
		}
	}
	var list []string
	if missing > 0 {
		list = append(list, fmt.Sprintf("requests that failed: %d; ask again with --resume --only %s", missing, OnlyFailed))
	}
	if refused > 0 {
		list = append(list, fmt.Sprintf("requests without an answer that passed, asked twice: %d; ask again with --resume --only %s", refused, OnlyReview))
	}
	return list
}
