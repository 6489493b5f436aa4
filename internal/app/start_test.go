package app_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// slowLoader is an engine that says for some checks that it is loading.
type slowLoader struct {
	engine.Engine
	left atomic.Int32
}

func (e *slowLoader) Describe(context.Context) (engine.Description, error) {
	if e.left.Add(-1) >= 0 {
		return engine.Description{}, jobs.Errorf(jobs.CodeEngineBusy, "loading")
	}
	return engine.Description{Engine: "slow", Loaded: true}, nil
}

// A large model may load for longer than an engine that does not answer is waited for.
func TestStartTimeoutDoesNotCountLoading(t *testing.T) {
	s := newSystem(t)
	e := &slowLoader{}
	e.left.Store(2)
	flags := s.flags(protocol.RoleDecode)
	flags.StartTimeout, flags.DrainLimit = time.Millisecond, time.Second
	w, err := app.StartWorker(t.Context(), app.WorkerConfig{Role: protocol.RoleDecode, Engine: e, Timing: quick, Log: logTo(t), Flags: flags})
	if err != nil {
		t.Fatalf("a worker whose engine loads for two seconds: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Run(stopped); err != nil {
		t.Error(err)
	}
}
