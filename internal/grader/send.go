package grader

import (
	"context"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/notebook"
	"tandem/jobs"
)

// sending is an attempt that is to be sent.
type sending struct {
	q       *request
	a       *attempt
	earlier bool  // an earlier run may have sent it
	problem error // of the answer before, if this asks again
}

// enqueue adds an attempt, and counts it if it is new. One that asks again goes to the front: its prompt is in a cache still.
func (r *run) enqueue(s sending) {
	r.mu.Lock()
	if !s.earlier {
		r.event.share(s.q.judge).Jobs++
	}
	if s.a.Again {
		r.queue = append([]sending{s}, r.queue...)
	} else {
		r.queue = append(r.queue, s)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is awake already
	}
}

// next takes the first of the queue, waiting for one; ok is false when ctx has ended. What was answered meanwhile need not be sent.
func (r *run) next(ctx context.Context) (s sending, ok bool) {
	for {
		r.mu.Lock()
		for len(r.queue) > 0 && !ok {
			s, r.queue = r.queue[0], r.queue[1:]
			ok = s.a.answer == nil
		}
		r.mu.Unlock()
		if ok {
			return s, ctx.Err() == nil
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return s, false
		}
	}
}

// sendAll sends what is in the queue and what is added to it, until ctx ends.
func (r *run) sendAll(ctx context.Context) error {
	var of *submission // whose notebook is in memory: both requests about it are made of one reading
	var nb *notebook.Notebook
	for {
		s, ok := r.next(ctx)
		if !ok {
			return nil
		}
		if of != s.q.of {
			var err error
			if nb, err = r.read(s.q.of); err != nil {
				return err
			}
			of = s.q.of
		}
		p, err := r.prompt(s.q.of, nb, s.q.judge)
		if err != nil {
			return err
		}
		if err := r.send(ctx, s, p); err != nil {
			return err
		}
	}
}

// send promises an attempt in the ledger, then submits its job.
func (r *run) send(ctx context.Context, s sending, p *ask.Prompt) error {
	if s.problem != nil {
		p = p.Again(s.problem)
	}
	if !s.earlier {
		r.mu.Lock()
		s.a.At = r.o.Now().UTC()
		said := s.a.asked
		r.mu.Unlock()
		if err := r.ledger.append(line{Asked: &said}); err != nil {
			return err
		}
	}
	j := r.job(s.a, p)
	j.Following = r.behind(s.q.model)
	return r.models.Submit(ctx, j, s.earlier)
}

// behind are the jobs for a model that are still to be sent, and follow at once.
func (r *run) behind(model string) (all jobs.Following) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.queue {
		if s.q.model == model && s.a.answer == nil {
			all = all.And(s.q.follower)
		}
	}
	return all
}

// job is the attempt's. Nothing in it names the student.
func (g *Grading) job(a *attempt, p *ask.Prompt) *jobs.Job {
	j := p.Job()
	j.V, j.ID, j.User, j.Batch, j.CustomID = jobs.Version, a.Job, g.o.User, g.batch, a.customID()
	j.Class, j.Plan, j.Deadline, j.SubmittedAt = g.o.Class, g.o.Plan, g.o.Deadline, g.o.Now().UTC()
	j.Labels = map[string]string{jobs.LabelKind: string(a.Judge)}
	return j
}
