package submitter

import (
	"context"
	"fmt"
	"io"
	"strings"

	"tandem/internal/sanitize"
	"tandem/jobs"
)

// purgeCmd removes a batch.
type purgeCmd struct {
	Batch string `short:"b" required:"" placeholder:"NAME" help:"The batch to remove."`
	Yes   bool   `short:"y" help:"Do not ask."`
}

// Help says what is removed.
func (purgeCmd) Help() string {
	return "Removes the batch's results, dead letters and queued jobs from the server. Result files that were written stay."
}

// Run asks, unless told not to, and purges.
func (c *purgeCmd) Run(ctx context.Context, s *session) error {
	if !c.Yes {
		if !isTerminal(s.in) {
			return jobs.Errorf(jobs.CodeInvalid, "purge removes results for good and cannot ask here; say --yes")
		}
		fmt.Fprintf(s.err, "Remove all jobs, results and dead letters of batch %q? [y/N] ", sanitize.Text(c.Batch))
		var answer string
		if _, err := fmt.Fscanln(s.in, &answer); err != nil && err != io.EOF {
			answer = ""
		}
		if answer := strings.ToLower(answer); answer != "y" && answer != "yes" {
			s.say("nothing was removed")
			return nil
		}
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	purged, err := s.client.PurgeBatch(ctx, c.Batch)
	if err != nil {
		return err
	}
	if s.JSON {
		return s.print(purged)
	}
	s.say("removed: %d results, %d dead letters, %d jobs that had not ended", purged.Results, purged.DeadLetters, purged.Queued)
	return nil
}
