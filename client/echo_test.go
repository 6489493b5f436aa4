package client_test

import (
	"context"
	"os"
	"strings"
	"sync"

	"tandem/internal/engine"
	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// echoModel is served by a worker that says each prompt word by word, as slowly as it is told.
const echoModel = "echo:1b"

// echo is a NATS server with a decode worker, as a whole system for clients.
type echo struct {
	url    string
	server *natsembed.Server
	pause  chan struct{} // closed, or a value for each word; nil says all at once
	stop   func()
}

// startEcho starts one. It panics if it cannot, since examples have nobody to tell.
func startEcho(pause chan struct{}) *echo {
	dir, err := os.MkdirTemp("", "tandem-client-")
	must(err)
	server, err := natsembed.Start(context.Background(), natsembed.Options{Dir: dir, LazySync: true})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := queue.Connect(ctx, queue.Config{URL: server.URL(), Name: "tandem-decode echo", Model: echoModel})
	must(err)
	must(conn.EnsureStreams(ctx))
	e := &echo{url: server.URL(), server: server, pause: pause}
	slots := engine.NewSlots(4)
	w, err := queue.NewWorker(conn, queue.WorkerConfig{
		Role: protocol.RoleDecode, Model: echoModel, ID: jobs.NewID(), Machine: "example", Slots: slots, Ahead: 1, Run: e.say,
		Describe: func() queue.Presence {
			return queue.Presence{State: queue.StateReady, Slots: 4, Busy: slots.Busy()}
		},
	})
	must(err)
	events, err := conn.AllEvents(ctx)
	must(err)
	var working sync.WaitGroup
	working.Go(func() { must(w.Run(ctx)) })
	e.stop = func() {
		w.Abort()
		cancel()
		working.Wait()
		conn.Close()
		server.Stop()
		must(os.RemoveAll(dir))
	}
	for event := range events {
		if event.Type == jobs.EventWorkerBegan {
			break
		}
	}
	return e
}

// say is the model.
func (e *echo) say(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	r := jobs.NewResult(t.Job, jobs.Succeeded)
	words := strings.SplitAfter(t.Job.Prompt, " ")
	for _, word := range words {
		if e.pause != nil {
			select {
			case <-e.pause:
			case <-ctx.Done():
				return protocol.Outcome{}, context.Cause(ctx)
			}
		}
		t.Emit(jobs.Chunk{Text: word})
	}
	r.Text, r.FinishReason, r.Method, r.Usage.GeneratedTokens = t.Job.Prompt, "stop", jobs.MethodLocal, len(words)
	return protocol.Outcome{Result: r}, nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
