package natsembed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
)

// withInclude returns the options with those of the file Include. They are written to a file of their own beside the store, since a
// server that reads its configuration again reads all of it.
func (s *Server) withInclude(o *server.Options) (*server.Options, error) {
	dir, err := filepath.Abs(s.opts.Dir)
	if err != nil {
		return nil, err
	}
	include, err := filepath.Abs(s.opts.Include)
	if err != nil {
		return nil, err
	}
	if include, err = filepath.Rel(dir, include); err != nil { // NATS takes no absolute path
		return nil, err
	}
	store := fmt.Sprintf("store_dir: %q", dir)
	if o.SyncAlways {
		store += ", sync_interval: always"
	}
	if o.JetStreamMaxStore != 0 {
		store += fmt.Sprintf(", max_file_store: %d", o.JetStreamMaxStore)
	}
	file := filepath.Join(dir, "nats-server.conf")
	text := fmt.Appendf(nil, "server_name: %q\nhost: %q\nport: %d\nmax_payload: %d\nmax_pending: %d\n"+
		"jetstream { %s }\ninclude %q\n",
		o.ServerName, o.Host, o.Port, o.MaxPayload, o.MaxPending, store, include)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	with, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, fmt.Errorf("configuration refused: %w", err)
	}
	with.NoSigs, with.NoLog, with.DisableShortFirstPing = o.NoSigs, o.NoLog, o.DisableShortFirstPing
	return with, nil
}
