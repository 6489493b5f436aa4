package handover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// stream stands for the jobs whose decode messages exist.
type stream struct {
	mu       sync.Mutex
	messages map[string]bool
	away     error
	asked    int
}

// set says whether a job's message exists.
func (s *stream) set(job string, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[job] = exists
}

func (s *stream) comeBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = nil
}

func (s *stream) alive(_ context.Context, ids []string) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	alive := map[string]bool{}
	for _, id := range ids {
		if s.messages[id] {
			alive[id] = true
		}
	}
	return alive, s.away
}

// ledger returns leases in a bubble, and a function that offers 1,000 bytes for a job.
func ledger(t *testing.T, s *stream) (*leases, func(job string) *lease) {
	t.Helper()
	l := newLeases(2500, s.alive, 5*time.Second, slog.New(slog.DiscardHandler))
	t.Cleanup(l.close)
	return l, func(job string) *lease {
		t.Helper()
		path := filepath.Join(t.TempDir(), "state")
		writeNoise(t, path, 1000)
		held, _, err := l.offer(job, path)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
}

// after lets time go by, and lets what that causes happen.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func wantHeld(t *testing.T, want bool, leases ...*lease) {
	t.Helper()
	for _, l := range leases {
		_, err := os.Stat(l.path)
		if exists := err == nil; exists != want || (l.released.Err() == nil) != want {
			t.Errorf("the state of %s: file exists %t, released %v; want it held: %t", l.jobID(), exists, l.released.Err(), want)
		}
	}
}

func TestLeaseLastsAsLongAsItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{messages: map[string]bool{"a": true, "b": true}}
		l, offer := ledger(t, s)
		a, b := offer("a"), offer("b")
		l.published("a")
		l.published("b")
		l.published("unknown")
		after(time.Hour)
		wantHeld(t, true, a, b)

		s.set("a", false)
		after(5 * time.Second)
		wantHeld(t, true, a, b) // one answer may be wrong
		s.set("a", true)
		after(5 * time.Second)
		s.set("a", false)
		after(5 * time.Second)
		wantHeld(t, true, a, b) // two that do not follow one another, too
		after(5 * time.Second)
		wantHeld(t, false, a)
		wantHeld(t, true, b)
		if l.bytes != 1000 || len(l.held) != 1 {
			t.Errorf("%d bytes of %d states are held", l.bytes, len(l.held))
		}
	})
}

func TestLeaseIsKeptWhileNobodyCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{away: errors.New("NATS is away")}
		l, offer := ledger(t, s)
		a := offer("a")
		l.published("a")
		after(time.Hour)
		wantHeld(t, true, a)
		s.comeBack()
		after(10 * time.Second)
		wantHeld(t, false, a)
	})
}

func TestLeaseThatIsNotPublishedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{}
		l, offer := ledger(t, s)
		a := offer("a")
		after(9 * time.Minute)
		b := offer("b")
		wantHeld(t, true, a, b)
		after(time.Minute)
		wantHeld(t, false, a)
		wantHeld(t, true, b)
		if s.asked > 0 {
			t.Errorf("the stream was asked %d times after states that were not published", s.asked)
		}
		l.published("a") // too late, and no harm
		l.release("a")
	})
}

// A job that was prefilled twice has two states, and its message names one of them, nobody knows which.
func TestLeasesOfOneJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{messages: map[string]bool{"a": true}}
		l, offer := ledger(t, s)
		first := offer("a")
		l.published("a")
		second := offer("a")
		after(5 * time.Minute)
		wantHeld(t, true, first, second)
		l.release("a")
		wantHeld(t, false, first, second)
		if l.bytes != 0 || len(l.held) != 0 {
			t.Errorf("%d bytes of %d states are held", l.bytes, len(l.held))
		}
	})
}

func TestAliveThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := newLeases(1<<20, func(ctx context.Context, _ []string) (map[string]bool, error) {
			asked++
			<-ctx.Done()
			return nil, ctx.Err()
		}, 5*time.Second, slog.New(slog.DiscardHandler))
		path := filepath.Join(t.TempDir(), "state")
		writeNoise(t, path, 10)
		a, _, err := l.offer("a", path)
		if err != nil {
			t.Fatal(err)
		}
		l.published("a")
		after(time.Minute)
		wantHeld(t, true, a)
		if asked < 2 {
			t.Errorf("asked %d times in a minute", asked)
		}
		l.close() // while it hangs
		wantHeld(t, false, a)
	})
}

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, offer := ledger(t, &stream{})
		ended, end := context.WithCancelCause(t.Context())
		over := errors.New("over")
		end(over)

		if err := l.room(ended, 2500); err != nil { // the budget to the byte, and a room that is there
			t.Errorf("room = %v", err)
		}
		offer("a")
		offer("b")
		if err := l.room(ended, 500); err != nil {
			t.Errorf("room = %v", err)
		}
		if err := l.room(ended, 501); err != over {
			t.Errorf("room = %v, want the context's cause", err)
		}
		err := l.room(t.Context(), 2501)
		if h, ok := errors.AsType[*protocol.HandoverError](err); !ok || h.Failure != jobs.FailBudget {
			t.Errorf("room for more than the budget = %v", err)
		}

		given := make(chan error, 1)
		go func() { given <- l.room(t.Context(), 2000) }()
		synctest.Wait()
		l.release("a")
		synctest.Wait()
		select {
		case err := <-given:
			t.Fatalf("room = %v when half of it was there", err)
		default:
		}
		l.release("b")
		if err := <-given; err != nil {
			t.Errorf("room = %v", err)
		}

		offer("c")
		go func() { given <- l.room(t.Context(), 2000) }()
		synctest.Wait()
		l.close()
		if err := <-given; err != errClosed {
			t.Errorf("room = %v when the server is closed", err)
		}
	})
}

func TestOfferRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := ledger(t, &stream{})
		dir := t.TempDir()
		empty := filepath.Join(dir, "empty")
		writeNoise(t, empty, 0)
		for _, path := range []string{filepath.Join(dir, "missing"), empty, dir} {
			_, _, err := l.offer("a", path)
			if h, ok := errors.AsType[*protocol.HandoverError](err); !ok || h.Failure != jobs.FailSave {
				t.Errorf("offer of %s = %v", path, err)
			}
		}
		l.close()
		full := filepath.Join(dir, "full")
		writeNoise(t, full, 10)
		if _, _, err := l.offer("a", full); !errors.Is(err, errClosed) {
			t.Errorf("offer to a closed server = %v", err)
		}
		for _, path := range []string{empty, full} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("a file that was not taken over is gone: %v", err)
			}
		}
	})
}

// Digests are computed one at a time, and not at all for states that are released meanwhile.
func TestDigestsWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, offer := ledger(t, &stream{})
		l.hashing <- struct{}{} // as another that is being computed
		a, b := offer("a"), offer("b")
		synctest.Wait()
		select {
		case <-a.digest.ready:
			t.Error("two digests were computed at once")
		default:
		}
		l.release("a")
		synctest.Wait()
		<-l.hashing
		<-b.digest.ready
		select {
		case <-a.digest.ready:
			t.Error("a digest was computed that nobody needs")
		default:
		}
	})
}

func TestStateThatChangesIsDropped(t *testing.T) {
	for _, change := range []struct {
		name  string
		bytes int64
	}{{"shorter", 999}, {"longer", 1001}} {
		t.Run(change.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, offer := ledger(t, &stream{})
				l.hashing <- struct{}{}
				a := offer("a")
				if err := os.Truncate(a.path, change.bytes); err != nil {
					t.Fatal(err)
				}
				<-l.hashing
				synctest.Wait()
				wantHeld(t, false, a)
			})
		})
	}
}
