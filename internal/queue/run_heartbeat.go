package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// heartbeat tells the server again and again that the delivery is being worked on, until stop is called;
// cancels its task if the engine is silent for too long or somebody cancels the job; and answers a
// cancel when nothing is being done for the job any more.
func (d *delivery) heartbeat(ctx context.Context, cancel context.CancelCauseFunc) (stop func(), err error) {
	nc := d.w.c.nc
	cancels := make(chan *nats.Msg, 16)
	sub, err := nc.ChanSubscribe(protocol.CancelSubject(d.job.User, d.job.ID), cancels)
	if err != nil {
		return nil, fmt.Errorf("listen for cancel: %w", err)
	}
	done := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() {
		beat := time.NewTicker(d.w.c.timing.InProgressEvery)
		defer beat.Stop()
		k := heartbeater{delivery: d, cancel: cancel, last: d.at}
		answers := make(chan *nats.Msg, 16)
		var heard *nats.Subscription // from the first sign of life on, before which most jobs end
		var asked []*nats.Msg
		for {
			select {
			case now := <-beat.C:
				if heard == nil {
					var closed error
					if heard, closed = nc.ChanSubscribe(nc.NewInbox(), answers); closed != nil { // the connection
						continue
					}
					k.inbox = heard.Subject
				}
				k.beat(now)
			case m := <-answers:
				if m.Header.Get("Status") == "" { // else it is the server's word that nobody heard
					k.answered(ctx, time.Now())
				}
			case m := <-cancels:
				asked = append(asked, m)
				cancel(jobs.ErrCancelled)
			case <-done:
				_ = sub.Unsubscribe() // fails only on a closed connection, as the next one
				if heard != nil {
					_ = heard.Unsubscribe()
				}
				for len(cancels) > 0 {
					asked = append(asked, <-cancels)
				}
				for _, m := range asked {
					_ = m.Respond([]byte(d.w.cfg.ID)) // who asked does not wait for ever
				}
				return
			}
		}
	})
	return func() {
		close(done)
		keeping.Wait()
	}, nil
}

// heartbeater gives the signs of life of one delivery.
type heartbeater struct {
	*delivery
	cancel context.CancelCauseFunc
	inbox  string    // where the server confirms signs of life
	last   time.Time // when it did; or when we were silent on purpose
}

// beat gives one sign of life if there is reason to.
func (k *heartbeater) beat(now time.Time) {
	if p := k.watchdog.Load(); p != nil && p.left(now) <= 0 {
		k.cancel(jobs.ErrStalled) // and no sign of life: if even that does not end the task, the job goes elsewhere
		k.last = now
		return
	}
	if !k.w.c.nc.IsConnected() {
		return
	}
	if err := k.w.c.nc.PublishRequest(k.msg.Reply, k.inbox, []byte("+WPI")); err != nil {
		k.log.Warn("keep delivery", "error", err)
	}
}

// answered takes the server's word that it has heard of the delivery. If it had not for so long that it gave the
// job to another, because the connection was away or frozen, the delivery is no attempt.
func (k *heartbeater) answered(ctx context.Context, now time.Time) {
	if now.Sub(k.last) > k.w.c.timing.AckWait {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		if err := k.recordUncountedRedelivery(ctx); err != nil {
			k.log.Warn("record lost connection", "error", err)
			return // to be tried again with the next answer
		}
	}
	k.last = now
	k.confirmed.Store(now.UnixNano())
}

// owned reports whether nobody else can have got the job meanwhile, nor a cancel have gone unheard: the server has heard of the delivery, and we of the server.
func (d *delivery) owned(now time.Time) bool {
	last := max(d.at.UnixNano(), d.confirmed.Load())
	return now.Sub(time.Unix(0, last)) < d.w.c.timing.AckWait && d.w.c.nc.Stats().Reconnects == d.reconnects
}
