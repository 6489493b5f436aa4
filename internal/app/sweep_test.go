package app_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/protocol"
)

// lateMover is an engine that says only at its second description where its states lie, as one does that is busy or
// whose model's digest is still being computed.
type lateKVTransfer struct {
	engine.Engine
	dir    string
	prefix string
	asked  atomic.Int32
}

func (e *lateKVTransfer) Describe(context.Context) (engine.Description, error) {
	d := engine.Description{Engine: "late", Loaded: true, NoKVTransfer: "the digest is not known yet"}
	if e.asked.Add(1) > 1 {
		d.KVTransfer, d.NoKVTransfer = &engine.KVTransfer{Dir: e.dir, Prefix: e.prefix}, ""
	}
	return d, nil
}

// What a crash left behind goes as soon as it is known where it lies; what this run wrote meanwhile stays.
func TestStatesOfAnEarlierRunAreRemovedLate(t *testing.T) {
	s := newSystem(t)
	e := &lateKVTransfer{dir: t.TempDir(), prefix: "decode.m."}
	left, ours := filepath.Join(e.dir, "decode.m.left.kv"), filepath.Join(e.dir, "decode.m.ours.part")
	for file, age := range map[string]time.Duration{left: time.Hour, ours: -time.Hour} {
		if err := os.WriteFile(file, []byte("state"), 0o600); err != nil {
			t.Fatal(err)
		}
		if at := time.Now().Add(-age); os.Chtimes(file, at, at) != nil {
			t.Fatal("the file's time cannot be set")
		}
	}
	flags := s.flags(protocol.RoleDecode)
	flags.StartTimeout, flags.DrainLimit = time.Second, time.Second
	w, err := app.StartWorker(t.Context(), app.WorkerConfig{Role: protocol.RoleDecode, Engine: e, Timing: quick, Log: logTo(t), Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	limit := time.After(30 * time.Second)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for gone := false; !gone; {
		select {
		case <-look.C:
			_, err := os.Stat(left)
			gone = errors.Is(err, fs.ErrNotExist)
		case <-limit:
			t.Error("the state of an earlier run is still there")
			gone = true
		}
	}
	if _, err := os.Stat(ours); err != nil {
		t.Errorf("a file of this run: %v", err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
