package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// clockScenarios have a server of NATS whose clock is set while it works: AckWait, the age of messages and the deadlines of jobs are reckoned by it.
func clockScenarios() []Scenario {
	return []Scenario{{
		Name: "clock of NATS that jumps", arrange: jumpingServer,
		What: "in the middle of batches with and without deadlines NATS' clock jumps two hours ahead, NATS is killed and started, and its clock jumps back; workers are killed before, as and after it does",
	}}
}

const (
	replacedIn = 13 * time.Second // AckWait and a second: within it a dead worker's job is sent again
	readClock  = 3 * time.Second  // so often a worker reads NATS' clock and says that it is there
	forgotten  = 15 * time.Second // within it a dead worker is not counted any more
)

func jumpingServer(ctx context.Context, a *act) error {
	const (
		jump  = 2 * time.Hour
		short = 15 * time.Second // a jump of which the whole effect can be awaited
	)
	plan := scenePlan(24+24+8+8+3).split(24, 24, 8, 8, 1, 1, 1)
	a.plan = plan
	plan.Batches[1].Deadline, plan.Batches[2].Deadline, plan.Batches[3].Deadline = 10*time.Minute, jump+10*time.Minute, 10*time.Minute
	free, caught, long, later := plan.Batches[0], plan.Batches[1], plan.Batches[2], plan.Batches[3]
	busy, beating, silent := plan.Batches[4], plan.Batches[5], plan.Batches[6]
	moving, err := host.Build(ctx, filepath.Join(a.Dir, "bin"), host.BuildOptions{Clock: true, Only: []string{"nats-server"}})
	if err != nil {
		return err
	}
	a.Each = 2
	a.PerToken = 10 * time.Millisecond // so that a batch is under way for longer than workers take to read the clock
	a.hooks.nats = moving

	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	var mu sync.Mutex
	held := map[string]bool{busy.Jobs[0].Marker: true, beating.Jobs[0].Marker: true, silent.Jobs[0].Marker: true} // whose next call of decode waits
	a.hooks.call = func(_ *System, m *machine, e *tap.Exchange, marker string) (tap.Answer, bool) {
		mu.Lock()
		wait := held[marker] && role(m.Name()) == "decode"
		if wait {
			held[marker] = false
		}
		mu.Unlock()
		if wait {
			select {
			case <-open:
			case <-e.Done:
			}
		}
		return tap.Answer{}, false
	}
	signs := map[string]int{} // of life, by worker
	a.hooks.wire = func(_ *System, process string, op *tap.Op) tap.Verdict {
		if op.FromClient && strings.HasPrefix(op.Subject, "$JS.ACK.") && string(op.Payload) == "+WPI" {
			mu.Lock()
			defer mu.Unlock()
			signs[process]++
		}
		return tap.Pass
	}

	var ahead time.Duration // how far NATS' clock was after its restart
	a.strike = func(ctx context.Context, s *scene) error {
		defer release()
		toldBusy := s.begin(ctx, busy)
		if _, err := s.inDecode(ctx, busy); err != nil {
			return err
		}
		told := s.begin(ctx, free, caught)
		if err := s.await(ctx, "the first jobs", func() bool { return s.ended() >= 8 && s.endedOf(caught) >= 2 }); err != nil {
			return err
		}
		if err := s.moveNATS(jump); err != nil {
			return err
		}
		err := s.await(ctx, "a job that expires", func() bool {
			return slices.ContainsFunc(caught.Jobs, func(j Job) bool { return s.r.status(s.r.job(j.Marker)) == "expired" })
		})
		if err != nil {
			return err
		}
		if err := s.restartNATS(ctx); err != nil {
			return err
		}
		info, err := s.info(ctx, intake)
		if err != nil {
			return err
		}
		ahead = time.Until(info.TimeStamp)
		if err := errors.Join(told(), s.begin(ctx, long)()); err != nil {
			return err
		}

		toldBeating := s.begin(ctx, beating)
		worker, err := s.inDecode(ctx, beating)
		if err != nil {
			return err
		}
		s.workers[0].kill(Anywhere) // a prefill worker, with no job; what it said of itself last is of the future soon
		if err := s.moveNATS(0); err != nil {
			return err
		}
		mu.Lock()
		before := signs[worker.name]
		mu.Unlock()
		err = s.await(ctx, "a sign of life", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return signs[worker.name] > before
		})
		if err != nil {
			return err
		}
		worker.kill(InCall)
		if err := toldBeating(); err != nil {
			return err
		}
		release()
		if err := errors.Join(toldBusy(), s.begin(ctx, later)()); err != nil {
			return err
		}
		err = s.until(forgotten, "the dead workers to be forgotten", s.onlyLiving)
		s.want(err == nil, "", "an operator is told of workers that are dead, or not of all that live, for longer than %v: %v", forgotten, err)

		if err := s.moveNATS(short); err != nil {
			return err
		}
		toldSilent := s.begin(ctx, silent)
		if worker, err = s.inDecode(ctx, silent); err != nil {
			return err
		}
		worker.kill(InCall)
		return errors.Join(s.moveNATS(0), toldSilent())
	}
	a.expect = func(s *scene) {
		s.wantEach("succeeded", free, long, later, busy, beating, silent)
		s.want((ahead-jump).Abs() < time.Minute, "", "want the restarted server's clock ahead by %v, it is by %v", jump, ahead)
		moves := s.moves()
		s.want(len(moves) == 4, "", "want 4 moves of NATS' clock, got %d", len(moves))
		expired := 0
		for _, j := range caught.Jobs {
			e := s.end(j.Marker)
			s.want(e.Status == "succeeded" || e.Status == "expired", j.Marker, "want it succeeded, or expired while NATS' clock was ahead, got %q (%s)", e.Status, e.Error.Message)
			for _, published := range s.events(j.Marker, history.Published) {
				if status, _ := endOf(published.Record); status == "expired" && len(moves) == 4 {
					expired++
					s.want(published.At >= moves[0] && published.At < moves[1]+readClock+time.Second, j.Marker, "it expired while NATS' clock was right")
				}
			}
		}
		s.want(expired > 0, "", "want jobs that expired while NATS' clock was ahead, got none")
		s.wantReplaced(beating, replacedIn)
		s.wantReplaced(silent, short+replacedIn) // the server waits until its clock is where it was, and then as ever
	}
	return nil
}

// moveNATS sets the clock of NATS, so far from the machine's.
func (s *scene) moveNATS(by time.Duration) error {
	s.Log.Add(history.Event{Kind: history.Fault, Process: s.nodes[0].Name(), Note: "clock: moved by " + by.String()})
	return s.nodes[0].MoveClock(by)
}

// moves are when that was done.
func (s *scene) moves() (at []time.Duration) {
	for _, e := range s.Log.Events() {
		if e.Kind == history.Fault && strings.HasPrefix(e.Note, "clock: ") {
			at = append(at, e.At)
		}
	}
	return at
}

// restartNATS kills the server and starts it, with the clock that it had.
func (s *scene) restartNATS(ctx context.Context) error {
	s.Log.Add(history.Event{Kind: history.Fault, Process: s.nodes[0].Name(), Note: NATS + ": " + string(Anywhere)})
	s.nodes[0].Kill()
	if err := s.nodes[0].Start(ctx); err != nil {
		return err
	}
	s.Log.Add(history.Event{Kind: history.Healed, Process: s.nodes[0].Name(), Note: "started again"})
	return nil
}

// inDecode waits until the only job of a batch is in its call of decode, and returns the worker that called.
func (s *scene) inDecode(ctx context.Context, b Batch) (u *unit, err error) {
	err = s.await(ctx, "a job in the call of decode", func() bool {
		for _, e := range s.events(b.Jobs[0].Marker, history.Called) {
			i := slices.IndexFunc(s.machine, func(m *machine) bool { return m.Name() == e.Process })
			if role(e.Process) == "decode" && i >= 0 {
				u = s.machine[i].worker
			}
		}
		return u != nil
	})
	return u, err
}

// endedOf is how many jobs of a batch have.
func (s *scene) endedOf(b Batch) (n int) {
	for _, j := range b.Jobs {
		if s.r.status(s.r.job(j.Marker)) != "" {
			n++
		}
	}
	return n
}

// onlyLiving reports whether the workers of which an operator is told are those that live.
func (s *scene) onlyLiving(ctx context.Context) (bool, error) {
	dir := s.path("operator")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	c, err := s.caller("operator", dir)
	if err != nil {
		return false, err
	}
	c.key = s.keys.Operator()
	defer c.nats.close()
	_, out, err := c.run(ctx, "--json", "status")
	if err != nil {
		return false, err
	}
	var told struct {
		Workers []presence `json:"workers"`
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		return false, fmt.Errorf("read status: %w", err)
	}
	return len(told.Workers) == len(s.workers), nil
}

// wantReplaced asks that the only job of a batch, whose worker was killed, was sent to another within limit.
func (s *scene) wantReplaced(b Batch, limit time.Duration) {
	marker := b.Jobs[0].Marker
	var by string // who called for it first
	var killed, again time.Duration
	for _, e := range s.Log.Events() {
		switch {
		case e.Kind == history.Called && e.Job == s.r.job(marker) && role(e.Process) == "decode" && by == "":
			by = strings.TrimPrefix(e.Process, "engine-")
		case e.Kind == history.Fault && e.Process == by && killed == 0:
			killed = e.At
		case e.Kind == history.Delivered && e.Job == s.r.job(marker) && killed > 0 && again == 0:
			again = e.At
		}
	}
	s.want(killed > 0 && again > 0 && again-killed <= limit, marker, "want it sent again within %v of its worker's death, it was after %v", limit, again-killed)
}
