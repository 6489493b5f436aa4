package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/jobs"
)

// keep tells the server again and again that the delivery is being worked on, until letGo is called;
// cancels its task if the engine is silent for too long or somebody cancels the job; and answers a
// cancel when nothing is being done for the job any more.
func (d *delivery) keep(ctx context.Context, cancel context.CancelCauseFunc) (letGo func(), err error) {
	nc := d.w.c.nc
	cancels := make(chan *nats.Msg, 16)
	sub, err := nc.ChanSubscribe(jobs.CancelSubject(d.job.ID), cancels)
	if err != nil {
		return nil, fmt.Errorf("listen for cancel: %w", err)
	}
	stop := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		beat := time.NewTicker(d.w.c.timing.InProgressEvery)
		defer beat.Stop()
		last := d.at
		var asked []*nats.Msg
		for {
			select {
			case now := <-beat.C:
				last = d.beat(ctx, cancel, last, now)
			case m := <-cancels:
				asked = append(asked, m)
				cancel(jobs.ErrCancelled)
			case <-stop:
				_ = sub.Unsubscribe() // fails only on a closed connection
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
		close(stop)
		keeper.Wait()
	}, nil
}

// beat gives one sign of life if there is reason to, and returns when the last one was given.
func (d *delivery) beat(ctx context.Context, cancel context.CancelCauseFunc, last, now time.Time) time.Time {
	if p := d.patience.Load(); p != nil && p.left(now) <= 0 {
		cancel(jobs.ErrStalled) // and no sign of life: if even that does not end the task, the job goes elsewhere
		return last
	}
	if !d.w.c.nc.IsConnected() {
		return last
	}
	if now.Sub(last) > d.w.c.timing.AckWait && d.patience.Load() != nil {
		// The connection was away for so long that the server gave the job to another. It was not to blame.
		if err := d.excuse(ctx); err != nil {
			d.log.Warn("record lost connection", "error", err)
		}
	}
	if err := d.w.c.nc.Publish(d.msg.Reply, []byte("+WPI")); err != nil {
		d.log.Warn("keep delivery", "error", err)
		return last
	}
	return now
}
