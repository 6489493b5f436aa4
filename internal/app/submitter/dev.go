package submitter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"tandem/client"
	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/grading"
	"tandem/internal/telemetry"
	"tandem/jobs"
)

// devCmd runs the whole system, or a part of it, until it is stopped.
type devCmd struct {
	Port        int      `default:"4222" placeholder:"PORT" help:"Port of the NATS server on 127.0.0.1; 0 takes a free one (default ${default})."`
	Store       string   `type:"path" placeholder:"DIR" help:"Folder of the NATS store, kept (default: a private one, removed at the end)."`
	NATSOnly    bool     `name:"nats-only" xor:"part" help:"Only the NATS server, no workers."`
	EnginesOnly bool     `name:"engines-only" xor:"part" help:"Only the two stand-in engines, for workers that you start yourself."`
	HTTP        string   `name:"http" placeholder:"ADDR" help:"Answer programs that speak Ollama's or OpenAI's API there, as 127.0.0.1:11500."`
	Grading     string   `type:"path" placeholder:"DIR" help:"With --http: folder in which the console keeps and grades classes (default: in --store, else a private one, removed at the end)."`
	Secure      bool     `help:"Ask for keys over TLS, and give each program its own rights only, as deploy/ does."`
	Grader      []string `sep:"none" placeholder:"NAME" help:"User who may submit, with --secure; may be repeated (default: --user, or the login name)."`
	Model       []string `short:"m" sep:"none" placeholder:"NAME" help:"Model to serve; may be repeated (default: the two of the example)."`
}

// Help says what it is for.
func (devCmd) Help() string {
	return "Starts a NATS server and, for each model, a prefill and a decode worker, and runs until Ctrl-C. For trying out and developing; deploy/ is for work."
}

// Run starts the system and waits for a signal.
func (c *devCmd) Run(ctx context.Context, s *session) (err error) {
	log, err := telemetry.NewLogger(s.err, s.LogFormat, slog.LevelInfo)
	if err != nil {
		return err
	}
	if c.Secure && c.EnginesOnly || len(c.Grader) > 0 && !c.Secure {
		return jobs.Errorf(jobs.CodeInvalid, "--secure is for the NATS server, which --engines-only leaves out, and --grader is for --secure")
	}
	if c.Secure && len(c.Grader) == 0 {
		who, err := s.userName()
		if err != nil {
			return err
		}
		c.Grader = []string{who}
	}
	s.stopTraces = telemetry.StartTraces(name, app.Version(), log)
	s.local, err = s.startLocal(ctx, app.LocalOptions{
		Dir: c.Store, Port: c.Port, NATSOnly: c.NATSOnly, Secure: c.Secure, Graders: c.Grader, Standins: c.EnginesOnly, Models: c.Model, Log: log,
	})
	if err != nil {
		return err
	}
	if c.HTTP != "" && c.Grading == "" {
		if c.Grading = filepath.Join(c.Store, "grading"); c.Store == "" {
			if c.Grading, err = os.MkdirTemp("", "tandem-grading-"); err != nil {
				return fmt.Errorf("make folder of classes: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(c.Grading)) }()
		}
	}
	gateway, err := c.startGateway(ctx, s, log)
	if err != nil {
		return err
	}
	if err := c.tell(s); err != nil {
		return err
	}
	<-ctx.Done()
	return gateway.Stop()
}

// startGateway has a gateway answer for the first grader, nil if none is wanted.
func (c *devCmd) startGateway(ctx context.Context, s *session, log *slog.Logger) (*app.Gateway, error) {
	if c.HTTP == "" {
		return nil, nil
	}
	if c.EnginesOnly {
		return nil, jobs.Errorf(jobs.CodeInvalid, "--http needs the NATS server, which --engines-only leaves out")
	}
	user := s.User
	o := client.Options{URL: s.local.URL(), User: user, Name: "tandem-gateway", Log: log}
	if c.Secure {
		folder := s.local.Access()
		o.User, o.CA, o.NKey, user = access.GatewayInbox, folder.CA(), folder.Gateway(), c.Grader[0]
	}
	at := app.GatewayAddress{HTTP: c.HTTP, Grading: c.Grading}
	if s.local.StandIns() {
		at.Notice = grading.StandIns
	}
	g, err := app.DialGateway(ctx, at, o, user, gateway.Options{Plan: s.local.Plan(), Version: app.Version(), Log: log})
	if err == nil {
		s.say("programs that speak Ollama's or OpenAI's API are answered at %s", g.URL())
	}
	return g, err
}

// tell says where what was started is reached.
func (c *devCmd) tell(s *session) error {
	if !c.EnginesOnly {
		return c.tellNATS(s)
	}
	prefill, decode := s.local.Engines()
	if s.JSON {
		return s.print(devEngines{prefill.EngineURL, prefill.ShimRunDir, decode.EngineURL, decode.ShimRunDir})
	}
	s.say("the engines to prefill (P) and to decode (D) with, and where their shims leave records (PR, DR); Ctrl-C stops both")
	_, err := fmt.Fprintf(s.out, "export P=%s PR=%s D=%s DR=%s\n", prefill.EngineURL, prefill.ShimRunDir, decode.EngineURL, decode.ShimRunDir)
	return err
}

// tellNATS says where the server is, and with --secure the keys to it.
func (c *devCmd) tellNATS(s *session) error {
	url := s.local.URL()
	if !c.Secure {
		if s.JSON {
			return s.print(devServer{NATS: url})
		}
		s.say("NATS is at %s; Ctrl-C stops everything", url)
		return nil
	}
	folder, graders := s.local.Access(), map[string]string{}
	for _, name := range c.Grader {
		graders[name] = app.GraderKey(folder, name)
		s.say("%s submits with --tls-ca %s --nkey %s", name, folder.CA(), graders[name])
	}
	if s.JSON {
		return s.print(devServer{url, folder.CA(), folder.Operator(), graders})
	}
	s.say("the operator has --nkey %s; more graders: submitter admin grader add NAME --dir %s --nats %s", folder.Operator(), folder, url)
	s.say("NATS is at %s; Ctrl-C stops everything", url)
	return nil
}
