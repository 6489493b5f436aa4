package submitter

import (
	"context"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"tandem/internal/access"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// adminSecureCmd makes what a NATS server needs so that nobody gets more than is due. The first time it needs no connection.
type adminSecureCmd struct {
	Out     string   `arg:"" type:"path" help:"Folder, where the files stay: the configuration names them by its path. It is made, or added to if this command made it."`
	Address []string `arg:"" help:"IP addresses and host names under which clients reach the server."`
	Model   []string `short:"m" required:"" sep:"none" placeholder:"NAME" help:"Model that workers serve; may be repeated. Each role of each has a key of its own."`
}

// Help says what to do with it.
func (adminSecureCmd) Help() string {
	return "Run it on the NATS machine. Include security.conf in the server's configuration, give each machine its keys, and add graders: submitter admin grader add.\n\n" +
		"Run again, it adds models and addresses, and renews the server's certificate in the last 90 days of its 825; for that, and for another address, ca-key.pem has to be there. " +
		"Keys that are there stay. To replace one that may have been stolen, or to take a model out, remove its files first."
}

// madeFile is a file that was made, as it is listed.
type madeFile struct {
	File    string `json:"file"`
	For     string `json:"for"`
	Machine string `json:"machine"`
}

// Run makes the folder and lists what is in it.
func (c *adminSecureCmd) Run(ctx context.Context, s *session) error {
	folder := access.Folder(c.Out)
	serves := folder.Exists()
	if err := folder.Create(c.Address, c.Model); err != nil {
		return err
	}
	const here, operator = "NATS: stays here, readable by its user", "where submitter admin and status are run"
	files := []madeFile{
		{"security.conf", "who may connect, and what each may do", here},
		{"graders.conf", "who may submit; submitter admin grader changes it", here},
		{"server.pem", "the server's certificate", here},
		{"server-key.pem", "its key", here},
		{"sys.nk", "has the server read graders.conf again", "NATS: stays here, readable by root only"},
		{"ca.pem", "by which all know the server", "all"},
		{"ca-key.pem", "signs another certificate", "none: keep it elsewhere"},
		{"operator.nk", "all rights to the queue", operator},
		{"gateway.nk", "jobs and results of all users", "where gateway --tokens is run"},
	}
	for _, m := range c.Model {
		model, err := jobs.CanonicalModel(m)
		if err != nil {
			return err
		}
		for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
			files = append(files, madeFile{filepath.Base(folder.Worker(role, model)), "key of " + string(role) + " workers of " + model, string(role) + " machines of " + model})
		}
	}
	if err := s.files(c.Out, files); err != nil {
		return err
	}
	if serves {
		return s.reload(ctx, folder)
	}
	s.say("wrote %s; next: include %s in the server's configuration, then submitter admin grader add NAME --dir %s", c.Out, folder.Config(), c.Out)
	return nil
}

// files lists what is in a folder.
func (s *session) files(folder string, files []madeFile) error {
	if s.JSON {
		return s.print(madeFolder{folder, files})
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tFOR\tMACHINE")
	for _, f := range files {
		fmt.Fprintf(table, "%s\t%s\t%s\n", cell(f.File), cell(f.For), cell(f.Machine))
	}
	return table.Flush()
}
