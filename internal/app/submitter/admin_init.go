package submitter

import (
	"context"
	"fmt"
	"text/tabwriter"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/jobs"
)

// adminInitCmd makes the NATS server what workers and submitters need.
type adminInitCmd struct {
	Model    []string `short:"m" placeholder:"NAME" help:"Model that is to be served, beside those that are known; may be given several times."`
	Replicas int      `env:"TANDEM_REPLICAS" default:"1" placeholder:"N" help:"On how many servers of a NATS cluster each new stream is kept: 1, 3 (one may fail) or 5 (two may) (default ${default})."`
	DryRun   bool     `name:"dry-run" help:"Change nothing, only show the difference."`
}

// Help says what it leaves alone, and its exit code.
func (adminInitCmd) Help() string {
	return "What is as it should be stays as it is, and so do messages, the number of replicas, and how much a stream may hold. " +
		"Workers may then do without the right to create anything. " +
		"Exit code 3 when something is left that differs: with --dry-run anything, else what cannot be changed in place, whose remedy is shown."
}

// Run creates and changes what is to be, and prints that.
func (c *adminInitCmd) Run(ctx context.Context, s *session) error {
	for i, m := range c.Model {
		var err error
		if c.Model[i], err = jobs.CanonicalModel(m); err != nil {
			return err
		}
	}
	if err := s.connect(ctx, c.Model...); err != nil {
		return err
	}
	changes, err := s.client.Init(ctx, c.Model, c.Replicas, c.DryRun)
	if err != nil {
		return err
	}
	left := 0
	for _, change := range changes {
		if c.DryRun || change.Remedy != "" {
			left++
		}
	}
	if s.JSON {
		err = s.print(initialized{c.DryRun, append([]admin.Change{}, changes...)})
	} else {
		err = c.write(s, changes)
	}
	if err == nil && left > 0 {
		err = &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// write prints what was changed, or would be, for a person.
func (c *adminInitCmd) write(s *session, changes []admin.Change) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, change := range changes {
		done := map[bool]string{false: "changed", true: "would change"}[c.DryRun]
		switch {
		case change.Remedy != "":
			done = "left as it is"
		case change.Missing:
			done = map[bool]string{false: "created", true: "would create"}[c.DryRun]
		}
		fmt.Fprintf(w, "%s\t%s %s", done, change.Kind, cell(change.Name))
		for _, d := range change.Settings {
			fmt.Fprintf(w, "\n\t  %s: %s → %s", d.Field, cell(d.Have), cell(d.Want))
		}
		if change.Remedy != "" {
			fmt.Fprintf(w, "\n\t  → %s", cell(change.Remedy))
		}
		fmt.Fprintln(w)
	}
	if len(changes) == 0 {
		fmt.Fprintln(w, "everything is as it should be")
	}
	return w.Flush()
}
