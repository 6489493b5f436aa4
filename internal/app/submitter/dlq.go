package submitter

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"tandem/client/admin"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// dlqCmd looks after dead letters.
type dlqCmd struct {
	List   dlqListCmd   `cmd:"" default:"withargs" help:"List dead letters, oldest first."`
	Show   dlqShowCmd   `cmd:"" help:"Show one; --json has all of it, the prompt too."`
	Replay dlqReplayCmd `cmd:"" help:"Run jobs again; whoever awaits them gets the new result."`
	Drop   dlqDropCmd   `cmd:"" help:"Remove dead letters for good."`
}

type dlqListCmd struct {
	Batch string     `short:"b" placeholder:"NAME" help:"Of this batch only."`
	Model string     `short:"m" placeholder:"NAME" help:"Of this model only."`
	Stage jobs.Stage `enum:",prefill,decode,fallback" default:"" placeholder:"STAGE" help:"That this stage gave up: prefill, decode or fallback."`
	Mine  bool       `help:"Of this user only."`
}

// Run lists the dead letters without any text of theirs.
func (c *dlqListCmd) Run(ctx context.Context, s *session) error {
	filter := admin.LetterFilter{Batch: c.Batch, Stage: c.Stage}
	var err error
	if c.Model != "" {
		if filter.Model, err = jobs.CanonicalModel(c.Model); err != nil {
			return err
		}
	}
	if c.Mine {
		if filter.User, err = s.userName(); err != nil {
			return err
		}
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	count := 0
	for l, err := range s.client.DeadLetters(ctx, filter) {
		if err != nil {
			return err
		}
		count++
		if s.JSON {
			l.Job, l.Handover, l.Raw = jobs.Job{}, nil, nil
			if err := s.print(l); err != nil {
				return err
			}
			continue
		}
		if count == 1 {
			fmt.Fprintln(table, "JOB\tSTAGE\tMODEL\tATTEMPTS\tFAILED AT\tREASON")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s: %s\n", cell(l.JobID), cell(l.Stage), cell(l.Model), l.Attempts,
			l.FailedAt.Local().Format(time.DateTime), cell(l.Code), cell(l.Message))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if count == 0 && !s.JSON {
		s.say("no dead letters")
	}
	return nil
}

type dlqShowCmd struct {
	Job string `arg:"" help:"Id of the job."`
}

// Run shows a dead letter, with the text of its prompt only as JSON.
func (c *dlqShowCmd) Run(ctx context.Context, s *session) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	l, err := s.client.DeadLetter(ctx, c.Job)
	if err != nil {
		return err
	}
	if s.JSON {
		return s.print(l)
	}
	j := &l.Job
	text := len(j.System) + len(j.Prompt)
	for _, m := range j.Messages {
		text += len(m.Content)
	}
	out := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"job", l.JobID}, {"custom id", j.CustomID}, {"user", j.User}, {"batch", j.Batch}, {"class", string(j.Class)}, {"model", l.Model},
		{"prompt", fmt.Sprintf("%d bytes", text)}, {"stage", string(l.Stage)}, {"attempts", fmt.Sprint(l.Attempts)},
		{"reason", string(l.Code) + ": " + l.Message}, {"given up by", l.Worker}, {"failed at", l.FailedAt.Local().Format(time.DateTime)},
	} {
		if row[1] != "" {
			fmt.Fprintf(out, "%s\t%s\n", row[0], cell(row[1]))
		}
	}
	return out.Flush()
}

type dlqReplayCmd struct {
	Job []string `arg:"" help:"Ids of the jobs."`
}

// Run replays and prints the new ids.
func (c *dlqReplayCmd) Run(ctx context.Context, s *session) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	return s.eachJob(c.Job, func(id string) error {
		replay, again, err := s.client.Replay(ctx, id)
		if err != nil {
			return err
		}
		if s.JSON {
			return s.print(replayed{replay, id, again})
		}
		if again {
			s.say("%s was replayed before", id)
		}
		_, err = fmt.Fprintln(s.out, replay)
		return err
	})
}

type dlqDropCmd struct {
	Job []string `arg:"" help:"Ids of the jobs."`
}

// Run drops dead letters.
func (c *dlqDropCmd) Run(ctx context.Context, s *session) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	return s.eachJob(c.Job, func(id string) error {
		if err := s.client.DropDeadLetter(ctx, id); err != nil {
			return err
		}
		if s.JSON {
			return s.print(dropped{id})
		}
		s.say("dropped %s", id)
		return nil
	})
}

// cell makes what others wrote a cell of a table: sanitized, and in one line.
func cell[T ~string](s T) string { return sanitize.Text(oneLine(string(s))) }

// oneLine keeps a message from breaking a table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
