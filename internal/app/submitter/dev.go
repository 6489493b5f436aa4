package submitter

import (
	"context"
	"fmt"
	"log/slog"

	"tandem/internal/app"
	"tandem/internal/telemetry"
)

// devCmd runs the whole system, or a part of it, until it is stopped.
type devCmd struct {
	Port        int      `default:"4222" placeholder:"PORT" help:"Port of the NATS server on 127.0.0.1; 0 takes a free one (default ${default})."`
	Store       string   `type:"path" placeholder:"DIR" help:"Folder of the NATS store, kept (default: a private one, removed at the end)."`
	NATSOnly    bool     `name:"nats-only" xor:"part" help:"Only the NATS server, no workers."`
	EnginesOnly bool     `name:"engines-only" xor:"part" help:"Only the two stand-in engines, for workers that you start yourself."`
	Model       []string `short:"m" sep:"none" placeholder:"NAME" help:"Model to serve; may be repeated (default: the two of the example)."`
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
	s.local, err = s.startLocal(ctx, app.LocalOptions{
		Dir: c.Store, Port: c.Port, NATSOnly: c.NATSOnly, Standins: c.EnginesOnly, Models: c.Model, Log: log,
	})
	if err != nil {
		return err
	}
	if err := c.tell(s); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// tell says where what was started is reached.
func (c *devCmd) tell(s *session) error {
	if !c.EnginesOnly {
		if s.JSON {
			return s.print(map[string]string{"nats": s.local.URL()})
		}
		s.say("NATS is at %s; Ctrl-C stops everything", s.local.URL())
		return nil
	}
	prefill, decode := s.local.Engines()
	if s.JSON {
		return s.print(map[string]string{
			"prefill": prefill.EngineURL, "prefill_run_dir": prefill.ShimRunDir, "decode": decode.EngineURL, "decode_run_dir": decode.ShimRunDir,
		})
	}
	s.say("the engines to prefill (P) and to decode (D) with, and where their shims leave records (PR, DR); Ctrl-C stops both")
	_, err := fmt.Fprintf(s.out, "export P=%s PR=%s D=%s DR=%s\n", prefill.EngineURL, prefill.ShimRunDir, decode.EngineURL, decode.ShimRunDir)
	return err
}
