package queue

import (
	"sync"
	"time"
)

const (
	// sampleAge is how long a reading of the server's clock is preferred to a less exact newer one:
	// good clocks part by less than a millisecond in that time.
	sampleAge = 30 * time.Second
	// jump is more than clocks part by in that time: then the server's was set, or this machine slept, during which its
	// monotonic clock stands still.
	jump = 100 * time.Millisecond
)

// serverClock tells the NATS server's time from this process's monotonic clock, so that no two
// machines' clocks are ever compared, and one that jumps while the process runs changes nothing. It learns from
// stored messages and answers that bear the server's time.
type serverClock struct {
	mu     sync.Mutex
	local  time.Time     // of the best reading, with its monotonic part
	server time.Time     // the server's time at local
	within time.Duration // how wrong that reading may be
}

// observe takes one reading: the server stamped something with stamp between two local instants.
func (c *serverClock) observe(before, after, stamp time.Time) {
	within := after.Sub(before) / 2
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.server.Add(before.Add(within).Sub(c.local))
	if c.local.IsZero() || within <= c.within || after.Sub(c.local) > sampleAge || stamp.Sub(known).Abs() > within+c.within+jump {
		c.local, c.server, c.within = before.Add(within), stamp, within
	}
}

// at is the server's time at a local instant, and the local time until the first reading.
func (c *serverClock) at(local time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local.IsZero() {
		return local
	}
	return c.server.Add(local.Sub(c.local))
}

// since is the time that passed on the server's clock from stamp to the local instant, never negative.
func (c *serverClock) since(stamp, local time.Time) time.Duration {
	return max(0, c.at(local).Sub(stamp))
}

// skew is how far this machine's wall clock is ahead of the server's.
func (c *serverClock) skew(local time.Time) time.Duration {
	return local.Round(0).Sub(c.at(local))
}
