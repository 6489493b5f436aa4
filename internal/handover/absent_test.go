package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// linked is a client in a synctest bubble whose link to a prefill worker can be cut. The worker knows no state.
type linked struct {
	*Client
	t   *testing.T
	cut atomic.Bool
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	w := &wire{conns: make(chan net.Conn), ended: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.ended) })
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			notFound(w)
		}),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(w) })
	l := &linked{Client: newClient(t, ClientConfig{}), t: t}
	t.Cleanup(func() {
		_ = server.Close() // of a wire, it cannot fail
		serving.Wait()
	})
	l.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectLimit)
		defer cancel()
		near, far := net.Pipe()
		conns := w.conns
		if l.cut.Load() {
			conns = nil
		}
		select {
		case conns <- far:
			return near, nil
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		}
	}
	return l
}

// fetch checks how a fetch from a host fails, after how long, and what it says.
func (l *linked) fetch(host string, want jobs.Failure, after time.Duration, says string) {
	l.t.Helper()
	start := time.Now()
	_, err := l.Fetch(l.t.Context(), &jobs.State{URL: "http://" + host + "/state/0123456789abcdef0123456789abcdef", Token: "t", Bytes: 5}, l.t.TempDir(), "x-", nil)
	if h, ok := errors.AsType[*protocol.HandoverError](err); !ok || h.Failure != want || !strings.Contains(err.Error(), says) {
		l.t.Errorf("error = %v; want %s that says %q", err, want, says)
	}
	if took := time.Since(start); took != after {
		l.t.Errorf("it took %s, want %s", took, after)
	}
}

const (
	near = "127.0.0.1:1"
	far  = "127.0.0.1:2"
)

// A link that is dead costs one job the time to find that out, and the next ones next to nothing, until it is found out again:
// after pauses that grow, by one job each.
func TestDeadLinkIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		l.cut.Store(true)
		l.fetch(near, jobs.FailUnreachable, connectLimit, "cannot be reached")
		for pause := firstAbsence; pause < 3*longAbsence; pause *= 2 {
			pause := min(pause, longAbsence)
			l.fetch(near, jobs.FailUnreachable, briefLimit, fmt.Sprintf("was unreachable 0s ago; it is given more time again in %s", pause))
			<-time.After(pause - 2*briefLimit)
			l.fetch(near, jobs.FailUnreachable, briefLimit, fmt.Sprintf("was unreachable %s ago", pause))
			var second sync.WaitGroup
			second.Go(func() {
				<-time.After(time.Second)
				l.fetch(near, jobs.FailUnreachable, briefLimit, "another job gives it more time now")
			})
			l.fetch(near, jobs.FailUnreachable, connectLimit, "cannot be reached")
			second.Wait()
		}
		l.fetch(far, jobs.FailUnreachable, connectLimit, "cannot be reached") // of which nothing is known
	})
}

// Several that find out at the same time find out one thing.
func TestDeadLinkIsNotedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		l.cut.Store(true)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { l.fetch(near, jobs.FailUnreachable, connectLimit, "cannot be reached") })
		}
		all.Wait()
		l.fetch(near, jobs.FailUnreachable, briefLimit, fmt.Sprintf("more time again in %s", firstAbsence))
	})
}

// The first job after the link is fixed gets its answer, whatever that is, and then the address is as any other.
func TestRecoveredLinkIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		l.fetch(near, jobs.FailNotFound, 0, "does not know")
		for range 2 {
			l.cut.Store(true)
			l.fetch(near, jobs.FailUnreachable, connectLimit, "cannot be reached")
			l.fetch(near, jobs.FailUnreachable, briefLimit, fmt.Sprintf("more time again in %s", firstAbsence))
			l.cut.Store(false)
			l.fetch(near, jobs.FailNotFound, 0, "does not know")
		}
	})
}

// A job that is cancelled while it tries an address says nothing of it, and the next one tries it in its place.
func TestCancelledAttemptIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinked(t)
		l.cut.Store(true)
		cancelled := func() {
			t.Helper()
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, jobs.ErrCancelled)
			defer cancel()
			_, err := l.Fetch(ctx, &jobs.State{URL: "http://" + near + "/state/0123456789abcdef0123456789abcdef", Token: "t", Bytes: 5}, t.TempDir(), "x-", nil)
			if !errors.Is(err, jobs.ErrCancelled) {
				t.Errorf("error = %v, want the context's cause", err)
			}
		}
		cancelled()
		l.fetch(near, jobs.FailUnreachable, connectLimit, "cannot be reached")
		<-time.After(firstAbsence)
		cancelled()
		l.fetch(near, jobs.FailUnreachable, connectLimit, "cannot be reached")
		l.fetch(near, jobs.FailUnreachable, briefLimit, fmt.Sprintf("more time again in %s", 2*firstAbsence))
	})
}

// What is remembered does not grow without end, whatever addresses the records name.
func TestAbsencesAreFew(t *testing.T) {
	var a absences
	for i := range 3 * maxAbsent {
		a.begin(fmt.Sprint(i), false).failed()
		if len(a.hosts) > maxAbsent {
			t.Fatalf("%d addresses are remembered, want %d at most", len(a.hosts), maxAbsent)
		}
	}
}
