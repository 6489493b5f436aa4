package rig

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// TestHandOverIsSpoiltWhileItPasses: at any other time there is nothing to spoil on that wire, and the fault would strike nobody.
func TestHandOverIsSpoiltWhileItPasses(t *testing.T) {
	const size = 8 << 20
	sender := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size)) // it fails when the wire is cut
	}))
	defer sender.Close()
	s := &System{Options: Options{Models: []string{"m"}, Each: 1}, Log: history.New(nil)}
	for _, name := range []string{"prefill-a1", "decode-a1"} {
		u := &unit{name: name, log: s.Log}
		s.workers, s.machine = append(s.workers, u), append(s.machine, &machine{worker: u})
	}
	states, err := tap.ListenHTTP(tap.HTTPOptions{Target: sender.Listener.Addr().String(), On: func(*tap.Exchange) tap.Answer {
		return tap.Answer{Answered: func() { s.workers[0].reached(InSend) }}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer states.Close()
	s.machine[0].states = states
	fetch := func() int {
		resp, err := http.Get("http://" + states.Addr())
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		n, _ := io.Copy(io.Discard, resp.Body) // what came until it was cut
		return int(n)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	s.act(ctx, &wg, Action{What: Wire, Where: StateWire, Step: InSend, How: "cut", Target: 1, For: time.Second})
	if n := len(s.Log.Events()); n != 0 {
		t.Errorf("%d faults before anything passes", n)
	}
	if n := fetch(); n == size {
		t.Error("all of the state came, whose transfer was to be cut")
	}
	cancel()
	wg.Wait()
	if all := s.Log.Events(); len(all) != 1 || !strings.HasPrefix(all[0].Note, "wire: hand-over: cut") || all[0].Process != "prefill-a1" {
		t.Errorf("the history is %+v", all)
	}
	if n := fetch(); n != size {
		t.Errorf("%d bytes of the next state came, want %d", n, size)
	}
}

// TestStrikeIsWaitedFor: whoever waits for the faults to end waits for one that strikes just then.
func TestStrikeIsWaitedFor(t *testing.T) {
	u := &unit{name: "decode-a1", log: history.New(nil)}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	struck, goOn, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ended := false
	u.arm(ctx, &wg, AfterAck, time.Hour, func(Step) tap.Verdict {
		close(struck)
		<-goOn
		ended = true
		return tap.Pass
	})
	go func() { // over says when it ends
		defer close(over)
		u.reached(AfterAck)
	}()
	<-struck
	cancel()
	go close(goOn) // ends at once
	wg.Wait()
	if !ended {
		t.Error("the strike goes on when all are said to have ended")
	}
	<-over
}
