// Package natstest starts NATS servers for tests.
package natstest

import (
	"log/slog"
	"testing"

	"tandem/internal/natsembed"
)

// Start starts a server that ends with the test. An empty Dir is a temporary one, whose server syncs lazily
// since nobody will miss its messages; no Port is one that the server finds free over a restart, too; warnings go to the test's log unless Log is set.
func Start(t testing.TB, opts natsembed.Options) *natsembed.Server {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir, opts.LazySync = t.TempDir(), true
	}
	if opts.Port == 0 {
		opts.Port = freePorts(t, 1)[0]
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	}
	s, err := natsembed.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
