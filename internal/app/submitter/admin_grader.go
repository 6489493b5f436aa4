package submitter

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"

	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/queue"
	"tandem/jobs"
)

// adminGraderCmd looks after who may submit jobs.
type adminGraderCmd struct {
	Dir string `type:"path" default:"/etc/tandem/access" placeholder:"DIR" help:"Folder that submitter admin secure made (default ${default})."`

	Add    graderAddCmd    `cmd:"" help:"Let a user submit jobs: make a key, and write it to a file."`
	List   graderListCmd   `cmd:"" help:"List who may submit jobs."`
	Revoke graderRevokeCmd `cmd:"" help:"Take a user's rights, and end the user's connections."`
}

type graderAddCmd struct {
	Name string `arg:"" help:"User, as in jobs and results."`
	Out  string `type:"path" placeholder:"FILE" help:"New file for the key (default NAME.nk in this folder). Move it to the grader's machine, with ca.pem."`
}

// Run adds a user.
func (c *graderAddCmd) Run(ctx context.Context, s *session, parent *adminGraderCmd) error {
	folder := access.Folder(parent.Dir)
	file := cmp.Or(c.Out, jobs.EncodeToken(c.Name)+".nk")
	if err := folder.AddGrader(c.Name, file); err != nil {
		return err
	}
	if s.JSON {
		if err := s.print(graderAdded{c.Name, file, folder.CA()}); err != nil {
			return err
		}
	}
	s.say("%s may submit with --nkey %s --tls-ca ca.pem; move the key to that machine, and copy %s", c.Name, file, folder.CA())
	return s.reload(ctx, folder)
}

type graderListCmd struct{}

// Run lists the users.
func (graderListCmd) Run(s *session, parent *adminGraderCmd) error {
	graders, err := access.Folder(parent.Dir).Graders()
	if err != nil {
		return err
	}
	if s.JSON {
		return s.print(graders)
	}
	if len(graders) == 0 {
		s.say("no graders")
		return nil
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKEY")
	for _, g := range graders {
		fmt.Fprintf(table, "%s\t%s\n", cell(g.Name), cell(g.NKey))
	}
	return table.Flush()
}

type graderRevokeCmd struct {
	Name string `arg:"" help:"User."`
}

// Run removes a user.
func (c *graderRevokeCmd) Run(ctx context.Context, s *session, parent *adminGraderCmd) error {
	folder := access.Folder(parent.Dir)
	if err := folder.RevokeGrader(c.Name); err != nil {
		return err
	}
	s.say("%s is removed", c.Name)
	return s.reload(ctx, folder)
}

// reload has the server take the change of its graders. A change that it does not know of yet is half of what was asked for.
func (s *session) reload(ctx context.Context, folder access.Folder) error {
	if err := folder.Reload(ctx, cmp.Or(s.NATS, queue.DefaultURL)); err != nil {
		return &app.ExitError{Code: app.ExitDegraded, Err: fmt.Errorf("the change is written, but the server does not know of it until it reloads its configuration or starts again "+
			"(reload it by signal: nats-server --signal reload=PID; or give its address with --nats): %w", err)}
	}
	s.say("the server has taken the change")
	return nil
}
