package engines

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// StartPaced starts the look-alike of a llama-server that takes as long as a table says, and whose states can be handed over. Its slots are those
// of the table. It is not to be asked for texts.
func StartPaced(ctx context.Context, o Options) (Engine, error) {
	if o.Programs == nil || o.Fleet == "" {
		return nil, fmt.Errorf("start engine %s: Options.Programs and Options.Fleet must be given", o.Name)
	}
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	e := &llamaServer{s, filepath.Join(s.options.Dir, "slots")}
	if err := os.MkdirAll(e.slotDir, 0o700); err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	args := []string{
		"--fleet", o.Fleet, "--machine", o.Machine, "--listen", s.Addr(), "--slot-save-path", e.slotDir, "--ctx-size", strconv.Itoa(s.options.NumCtx),
	}
	program := o.Programs.Path("pacedserver")
	s.run = func(ctx context.Context) (process, error) { return s.launch(ctx, program, args, "/health") }
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return e, nil
}
