package submitter

import (
	"context"

	"tandem/internal/app"
	"tandem/jobs"
)

// resultCmd prints a result that is there.
type resultCmd struct {
	Job string `arg:"" help:"Id of the job."`
}

// Run prints the result without waiting for it. A job that has none yet ends with exit code 5.
func (c *resultCmd) Run(ctx context.Context, s *session) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	r, err := s.client.Result(ctx, c.Job)
	if err != nil {
		return err
	}
	return s.printResult(r)
}

// cancelCmd ends jobs.
type cancelCmd struct {
	Job   []string `arg:"" optional:"" help:"Ids of the jobs."`
	Batch string   `short:"b" placeholder:"NAME" help:"Cancel all jobs of a batch that have not ended."`
}

// Run cancels and says for each job what it was doing.
func (c *cancelCmd) Run(ctx context.Context, s *session) error {
	if (len(c.Job) == 0) == (c.Batch == "") {
		return jobs.Errorf(jobs.CodeInvalid, "give either ids of jobs or --batch NAME")
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if c.Batch != "" {
		list, kept, err := s.client.CancelBatch(ctx, c.Batch)
		switch {
		case err != nil:
			return err
		case s.JSON && kept:
			return s.print([]jobs.Cancellation{{Was: jobs.PriorKept}})
		case s.JSON:
			return s.print(list)
		case kept:
			s.say("no worker is alive; the first one that comes cancels the jobs of batch %s that wait now", c.Batch)
		default:
			s.say("%d jobs cancelled", len(list))
		}
		return nil
	}
	return s.eachJob(c.Job, func(id string) error {
		was, err := s.client.Cancel(ctx, id)
		if err != nil {
			return err
		}
		if s.JSON {
			return s.print(was)
		}
		if was.Was == jobs.PriorKept {
			s.say("no worker is alive; the first one that comes cancels %s", was.JobID)
		} else {
			s.say("%s was %s, is %s", was.JobID, was.Was, was.Status)
		}
		return nil
	})
}

// eachJob does something to each job and goes on when it fails for one; then the exit code says so.
func (s *session) eachJob(ids []string, do func(id string) error) error {
	var failed error
	for _, id := range ids {
		if err := do(id); err != nil {
			if len(ids) == 1 {
				return err
			}
			s.report(err)
			failed = &app.ExitError{Code: app.ExitDegraded}
		}
	}
	return failed
}
