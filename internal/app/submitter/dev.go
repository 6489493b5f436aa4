package submitter

import (
	"context"
	"log/slog"

	"tandem/internal/app"
	"tandem/internal/telemetry"
)

// devCmd runs the whole system until it is stopped.
type devCmd struct {
	Port     int      `default:"4222" placeholder:"PORT" help:"Port of the NATS server on 127.0.0.1; 0 takes a free one (default ${default})."`
	Store    string   `type:"path" placeholder:"DIR" help:"Folder of the NATS store, kept (default: a private one, removed at the end)."`
	NATSOnly bool     `name:"nats-only" help:"Only the NATS server, no workers."`
	Model    []string `short:"m" sep:"none" placeholder:"NAME" help:"Model to serve; may be repeated (default: the two of the example)."`
}

// Help says what it is for.
func (devCmd) Help() string {
	return "Starts a NATS server and, for each model, a prefill and a decode worker, and runs until Ctrl-C. For trying out and developing; deploy/ is for work."
}

// Run starts the system and waits for a signal.
func (c *devCmd) Run(ctx context.Context, s *session) error {
	log, err := telemetry.NewLogger(s.err, s.LogFormat, slog.LevelInfo)
	if err != nil {
		return err
	}
	s.local, err = s.startLocal(ctx, app.LocalOptions{Dir: c.Store, Port: c.Port, NATSOnly: c.NATSOnly, Models: c.Model, Log: log})
	if err != nil {
		return err
	}
	if s.JSON {
		err = s.print(map[string]string{"nats": s.local.URL()})
	} else {
		s.say("NATS is at %s; Ctrl-C stops everything", s.local.URL())
	}
	<-ctx.Done()
	return err
}
