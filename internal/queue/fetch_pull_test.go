package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func (r *rig) puller() *puller {
	r.t.Helper()
	c := r.connect()
	p, err := newPuller(c.nc)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func testSources() []source {
	var list []source
	for _, class := range jobs.Classes {
		list = append(list, source{StreamRelay, protocol.ConsumerName(protocol.RoleDecode, testModel, class)})
	}
	return list
}

func TestPullMissingConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.puller()
	defer p.close()
	missing := source{StreamRelay, "nobody"}
	for _, sources := range [][]source{{missing}, {missing, testSources()[0]}} {
		_, err := p.next(t.Context(), sources, 0, nil, nil)
		if gone, ok := errors.AsType[*goneError](err); !ok || gone.source != missing {
			t.Errorf("next at %v: error = %v, want one that names %s", sources, err, missing)
		}
	}
}

func TestPullIsWithdrawn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.puller()
	defer p.close()
	sources := testSources()
	woken := make(chan struct{})
	go func() {
		r.asking(protocol.RoleDecode, 2)
		close(woken)
	}()
	if _, err := p.next(t.Context(), sources, 0, woken, nil); !errors.Is(err, errWoken) {
		t.Fatalf("next: error = %v, want %v", err, errWoken)
	}
	if late := p.withdraw(sources[:1]); len(late) != 0 {
		t.Errorf("%d jobs from nowhere", len(late))
	}
	list := []*jobs.Job{testJob(jobs.Interactive), testJob(jobs.Batch)}
	r.relay(list[1])
	r.asking(protocol.RoleDecode, 1)
	if n := r.unacknowledged(protocol.RoleDecode); n != 0 {
		t.Errorf("%d jobs were delivered to a pull that was withdrawn", n)
	}
	r.relay(list[0])
	r.eventually("delivery to the pull that was kept", func() bool { return len(p.msgs) == 1 })
	for _, j := range list {
		a, err := p.next(t.Context(), sources, 0, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := protocol.SubjectOf(j, jobs.StageDecode); a.msg.Subject != want || a.asked.After(a.at) {
			t.Errorf("arrival = %s, asked for at %v, there at %v; want %s", a.msg.Subject, a.asked, a.at, want)
		}
	}
}

func TestPullEndsWithContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.puller()
	defer p.close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.next(ctx, testSources(), 0, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
}

// A pull of which the server is not heard is given up and made again.
func TestSilentPull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.puller()
	defer p.close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.asking(protocol.RoleDecode, 2)
		cancel()
	}()
	_, _ = p.next(ctx, testSources(), 0, nil, nil)
	p.waiting[testSources()[0]].heard = time.Now().Add(-time.Minute)
	p.dropSilent(time.Now())
	r.asking(protocol.RoleDecode, 1)
	j := testJob(jobs.Interactive)
	r.relay(j)
	if a, err := p.next(t.Context(), testSources(), 0, nil, nil); err != nil || a.msg == nil {
		t.Errorf("next: %v", err)
	}
}

// A pull that is withdrawn without a connection leaves nothing behind that waits for one.
func TestPullIsWithdrawnWithoutConnection(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, natsembed.Options{Dir: t.TempDir()})
	p := r.puller()
	defer p.close()
	at := testSources()[0]
	if err := p.wait(at); err != nil {
		t.Fatal(err)
	}
	sub := p.waiting[at].sub
	r.server.Stop()
	r.eventually("connection lost", func() bool { return !p.nc.IsConnected() })
	if late := p.withdraw(nil); len(late) != 0 || sub.IsValid() {
		t.Errorf("%d jobs from nowhere, and the subscription is valid: %t", len(late), sub.IsValid())
	}
}

// What the server sent to a pull of which nobody heard any more comes to another worker at once, and is no attempt, though the server
// counts it. The pull asks here for all jobs and hears of one.
func TestUnseenDeliveryIsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stream, cfg := consumer(r.timing, protocol.RoleDecode, testModel, jobs.Batch)
	const n = 100
	for range n {
		r.relay(testJob(jobs.Batch))
	}
	heard := make(chan *nats.Msg, 1)
	sub, err := r.nc.ChanSubscribe(r.nc.NewInbox(), heard)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.AutoUnsubscribe(1); err != nil {
		t.Fatal(err)
	}
	if err := r.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+cfg.Durable, sub.Subject, fmt.Appendf(nil, `{"batch":%d}`, n)); err != nil {
		t.Fatal(err)
	}
	<-heard
	attempts := make(chan int, n)
	r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		attempts <- task.Attempt
		return answer(ctx, task)
	})
	for range n - 1 {
		if a := <-attempts; a != 1 {
			t.Errorf("a job that no worker had before is at attempt %d", a)
		}
	}
	c, err := r.js.Consumer(t.Context(), stream, cfg.Durable)
	if err != nil {
		t.Fatal(err)
	}
	if sent := c.CachedInfo().Delivered.Consumer; sent <= n {
		t.Fatalf("%d deliveries of %d jobs: none was unseen", sent, n)
	}
}
