package submitter

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tandem/internal/app"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// TestMainEnds makes sure that nothing that a command starts goes on when Main has returned, whether
// the user's wait or a signal ended it.
func TestMainEnds(t *testing.T) {
	server := natstest.Start(t, natsembed.Options{})
	c, err := queue.Connect(t.Context(), queue.Config{URL: server.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, role := range []jobs.Stage{protocol.RoleDecode, protocol.RolePrefill} {
		if err := c.EnsureConsumers(t.Context(), role, "m:latest"); err != nil {
			t.Fatal(err)
		}
	}
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(app.ErrInterrupted)
	for _, tt := range []struct {
		name string
		ctx  context.Context
		args string
		want int
	}{
		{"submit", t.Context(), "submit -m m --timeout 500ms hello", app.ExitTimedOut},
		{"stream", t.Context(), "submit -m m --timeout 500ms --stream hello", app.ExitTimedOut},
		{"interrupted", interrupted, "submit -m m hello", app.ExitInterrupted},
		{"status", t.Context(), "status", app.ExitDegraded},
		{"help", t.Context(), "--help", app.ExitDone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			var out, stderr bytes.Buffer
			args := append([]string{"--nats", server.URL(), "--user", "u"}, strings.Fields(tt.args)...)
			if got := Main(tt.ctx, args, strings.NewReader(""), &out, &stderr); got != tt.want {
				t.Errorf("exit code %d, want %d; stderr: %s", got, tt.want, stderr.String())
			}
			// The server ends its side of the connection when it notices.
			goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"))
		})
	}
}
