package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	depthAge      = 250 * time.Millisecond // how long a count of the decode queue is believed
	firstRecheck  = 5 * time.Millisecond   // after the gate closed; then twice as long each time
	slotsOfQueue  = 2                      // jobs in decode, running or waiting, per decode slot
	countingLimit = 5 * time.Second        // for asking the server
)

// gate keeps a prefill worker from running ahead of decode: it is closed while the model's decode
// queue holds two jobs per live decode slot, and while no decode worker is live at all, so that jobs
// wait in the intake, where anybody can take them.
type gate struct {
	slots func() (int, <-chan struct{})          // live decode slots, and when that changes
	depth func(ctx context.Context) (int, error) // jobs waiting or running at decode

	mu      sync.Mutex
	known   int       // the last depth
	asked   time.Time // when that was answered; zero if it must be asked again
	handed  int       // jobs that this worker handed over since
	running int       // jobs that this worker will hand over
}

// begin counts a job that was fetched. Its end is called when it is done with here, with the time before it was handed over, zero
// if it was not.
func (g *gate) begin() (end func(handed time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
	return func(handed time.Time) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		switch {
		case handed.IsZero():
		case g.asked.Before(handed):
			g.handed++
		default: // the answer may have counted it
			g.asked = time.Time{}
		}
	}
}

// open reports whether a job may be fetched. It asks the server if what is known is old, or if this
// worker alone may have filled the queue since.
func (g *gate) open(ctx context.Context) bool {
	slots, _ := g.slots()
	if slots == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	room := slotsOfQueue*slots - g.running
	if time.Since(g.asked) >= depthAge || g.known+g.handed >= room {
		ctx, cancel := context.WithTimeout(ctx, countingLimit)
		defer cancel()
		depth, err := g.depth(ctx)
		if err != nil {
			return false
		}
		g.known, g.handed, g.asked = depth, 0, time.Now()
	}
	return g.known+g.handed < room
}

// last is the number of jobs at decode as last counted, and those handed over since.
func (g *gate) last() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known + g.handed
}

// decodeDepth counts the jobs of a model and of some classes that wait or run at decode.
func (c *Conn) decodeDepth(ctx context.Context, model string, classes ...jobs.Class) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit) // no leader, no answer
	defer cancel()
	depth := 0
	for _, class := range classes {
		consumer, err := c.js.Consumer(ctx, StreamRelay, protocol.ConsumerName(protocol.RoleDecode, model, class))
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue // it comes with the first decode worker
		}
		if err != nil {
			return 0, err
		}
		info := consumer.CachedInfo() // asked for this instant
		depth += int(info.NumPending) + info.NumAckPending
	}
	return depth, nil
}
