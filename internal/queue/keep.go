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
	var keeping sync.WaitGroup
	keeping.Go(func() {
		beat := time.NewTicker(d.w.c.timing.InProgressEvery)
		defer beat.Stop()
		k := keeper{delivery: d, cancel: cancel, last: d.at}
		var asked []*nats.Msg
		for {
			select {
			case now := <-beat.C:
				k.beat(ctx, now)
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
		keeping.Wait()
	}, nil
}

// keeper gives the signs of life of one delivery.
type keeper struct {
	*delivery
	cancel context.CancelCauseFunc
	last   time.Time // when the server may have heard of the delivery
	cutOff bool      // the connection is away since
}

// beat gives one sign of life if there is reason to.
func (k *keeper) beat(ctx context.Context, now time.Time) {
	if p := k.patience.Load(); p != nil && p.left(now) <= 0 {
		k.cancel(jobs.ErrStalled) // and no sign of life: if even that does not end the task, the job goes elsewhere
		return
	}
	if !k.w.c.nc.IsConnected() {
		k.cutOff = true
		return
	}
	if err := k.w.c.nc.Publish(k.msg.Reply, []byte("+WPI")); err != nil {
		k.log.Warn("keep delivery", "error", err)
		return
	}
	if k.cutOff && now.Sub(k.last) > k.w.c.timing.AckWait {
		// The connection was away for so long that the server gave the job to another. It was not to blame.
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		if err := k.excuse(ctx); err != nil {
			k.log.Warn("record lost connection", "error", err)
		}
	}
	k.last, k.cutOff = now, false
}
