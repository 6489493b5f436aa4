// Package paperworker gives tests a worker without an engine: what a job comes to is the test's to say.
package paperworker

import (
	"context"
	"sync"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// Run does a job.
type Run func(context.Context, *protocol.Task) (protocol.Outcome, error)

// Start starts one on a machine, which does so many jobs of the model at once, and returns once it takes them. Its key need not allow it to hear events, which operator's does.
func Start(t testing.TB, to, operator queue.Config, model, machine string, places int, run Run) {
	t.Helper()
	StartAs(t, to, operator, queue.Presence{Role: protocol.RoleDecode, Model: model, Machine: machine, Slots: places, State: queue.StateReady, Engine: "paper"}, run)
}

// StartAs starts one that says this of itself, whatever its role.
func StartAs(t testing.TB, to, operator queue.Config, as queue.Presence, run Run) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	to.Name, to.Model = "tandem-"+string(as.Role)+" "+as.Model, as.Model
	conn, err := queue.Connect(ctx, to)
	if err == nil {
		err = conn.EnsureStreams(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	slots := engine.NewSlots(as.Slots)
	w, err := queue.NewWorker(conn, queue.WorkerConfig{
		Role: as.Role, Model: as.Model, ID: jobs.NewID(), Machine: as.Machine, Slots: slots, Run: run,
		Describe: func() queue.Presence {
			p := as
			p.Busy = slots.Busy()
			return p
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := queue.Connect(ctx, operator)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	events, err := listener.AllEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var working sync.WaitGroup
	working.Go(func() { _ = w.Run(ctx) })
	for event := range events {
		if event.Type == jobs.EventWorkerBegan {
			break
		}
	}
	t.Cleanup(func() {
		w.Abort()
		cancel()
		working.Wait()
		conn.Close()
	})
}
