package queue

import (
	"strings"
	"testing"
	"time"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
)

// A server whose disk is too small will have no more room a moment later: who starts a worker is told at once, and of the remedy.
func TestEnsureWithoutRoom(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, server: natstest.Start(t, natsembed.Options{MaxStore: 1 << 30}), timing: lively()}
	c, start := r.connect(), time.Now()
	err := c.EnsureStreams(t.Context())
	if took := time.Since(start); took > absentLimit/2 {
		t.Errorf("EnsureStreams took %v", took)
	}
	for _, want := range []string{"create stream INTAKE", "reserves 2.1 GB", "max_file_store"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("EnsureStreams: %v; want %q in it", err, want)
		}
	}
}
