package queue

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

// What the server says when a limit of the intake keeps a job out.
const (
	tooMany  = "maximum messages exceeded"
	tooLarge = "maximum bytes exceeded"
)

const (
	fullLimit = 2 * time.Second // for finding out when there will be room
	roomShare = 100             // it is worth trying again when one in so many of the jobs has left
	soonest   = time.Second     // to try again, and the latest, whatever the estimate says
	latest    = 5 * time.Minute
)

// full is the error for a job of so many bytes that the intake refuses for the reason that the server gives: of code
// queue_full, or nil if the reason is no limit of the intake. That the time to try again cannot be told is no failure.
func (c *Conn) full(ctx context.Context, bytes int, why string) error {
	if why != tooMany && why != tooLarge {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fullLimit)
	defer cancel()
	s, err := c.js.Stream(ctx, StreamIntake)
	if err != nil {
		return jobs.ErrQueueFull
	}
	info := s.CachedInfo() // asked for this instant
	f := fullness{state: info.State, config: info.Config, at: info.TimeStamp, bytes: uint64(bytes), byBytes: why == tooLarge}
	if f.hasRoom() { // again
		return f.err(true)
	}
	leaving, err := c.leaving(ctx)
	return f.err(leaving || err != nil)
}

// leaving reports whether jobs leave the intake: whether some wait there that a live decode worker serves, without which
// neither prefill goes on nor anything else.
func (c *Conn) leaving(ctx context.Context) (bool, error) {
	workers, err := c.Workers(ctx)
	if err != nil {
		return false, err
	}
	asked := map[string]bool{}
	for _, w := range workers {
		if w.Role != protocol.RoleDecode || !w.Live() || asked[w.Model] {
			continue
		}
		asked[w.Model] = true
		for _, class := range jobs.Classes {
			d, err := c.depth(ctx, protocol.RolePrefill, w.Model, class)
			if err != nil || d.Waiting+d.InFlight > 0 {
				return true, err
			}
		}
	}
	return false, nil
}

// fullness is what is known of an intake that refuses a job.
type fullness struct {
	state   jetstream.StreamState
	config  jetstream.StreamConfig
	at      time.Time // of the state, on the server's clock
	bytes   uint64    // of the job
	byBytes bool      // it is the limit on bytes that keeps the job out
	whose   string    // they are, if they are one user's and the limits, too
}

// jobs is how many jobs there is room for.
func (f fullness) jobs() int64 {
	free := int64(math.MaxInt64)
	if f.config.MaxMsgs > 0 {
		free = f.config.MaxMsgs - int64(f.state.Msgs)
	}
	if f.config.MaxBytes > 0 {
		free = min(free, (f.config.MaxBytes-int64(f.state.Bytes))/int64(max(1, f.bytes)))
	}
	return free
}

// hasRoom reports whether jobs have left since the refusal.
func (f fullness) hasRoom() bool {
	if f.byBytes {
		return f.state.Bytes+f.bytes <= uint64(f.config.MaxBytes)
	}
	return f.state.Msgs < uint64(f.config.MaxMsgs)
}

// err says how full the intake is, and when to try again if jobs leave it.
func (f fullness) err(leaving bool) *jobs.Error {
	e := &jobs.Error{Code: jobs.CodeQueueFull}
	how := fmt.Sprintf("%s jobs%s wait, the limit is %s", units.Count(f.state.Msgs), f.whose, units.Count(uint64(f.config.MaxMsgs)))
	if f.byBytes {
		how = fmt.Sprintf("%s jobs%s of %s wait, the limit is %s", units.Count(f.state.Msgs), f.whose, units.Bytes(f.state.Bytes), units.Bytes(uint64(f.config.MaxBytes)))
	}
	if !leaving {
		e.Message = "the queue is full: " + how + "; none of them leaves, since no decode worker lives that could take one; start one"
		return e
	}
	e.RetryAfter = f.retryAfter()
	e.Message = fmt.Sprintf("the queue is full: %s; try again in about %s", how, units.Roughly(e.RetryAfter))
	return e
}

// retryAfter is when some jobs, and as many bytes as this one has, will have left. The oldest job has waited while all that
// were before it left and those after it came; an intake that stays full loses as many as it gets, so its age by the number
// of jobs is what one takes to leave. Of an intake that was filled at once this is too short at first, and grows.
func (f fullness) retryAfter() time.Duration {
	jobs := max(f.state.Msgs, 1)
	wanted := max(1, jobs/roomShare)
	if f.byBytes {
		average := max(1, f.state.Bytes/jobs)
		wanted = max(wanted, f.bytes/average+1)
	}
	each := f.at.Sub(f.state.FirstTime).Seconds() / float64(jobs)
	after := time.Duration(min(each*float64(wanted), latest.Seconds()) * float64(time.Second))
	return max(after, soonest)
}
