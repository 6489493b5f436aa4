package queue

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/jobs"
)

// One user must not fill the intake for all. NATS knows no bound for a part of a stream. So a client asks now and then how much its user may still
// submit, and takes having reached the bound for a full intake; and of a program that does not ask, or when nobody was there to ask, a worker ends the
// newest jobs as soon as another user was refused.

const (
	unanswered    = 100 // jobs that a client submits before it asks again, if nobody answered
	roomAtMost    = 500 // and if somebody did, and there is much room
	clientsAtOnce = 10  // of one user that may ask at the same moment
	shareOfUser   = 90  // percent of the intake's limits that the jobs of one user may take,
	clientsMay    = 95  // and with what more clients submit at once
)

// percent is that part of a limit, rounded up; no limit is none.
func percent(n, of int64) int64 {
	if of <= 0 {
		return of
	}
	return (of*n + 99) / 100
}

// exceeds reports whether jobs are more than so many percent of the intake's limits.
func exceeds(count int, bytes int64, limits jetstream.StreamConfig, n int64) bool {
	return limits.MaxMsgs > 0 && int64(count) > percent(n, limits.MaxMsgs) || limits.MaxBytes > 0 && bytes > percent(n, limits.MaxBytes)
}

// bounded is how many jobs were ended.
type bounded struct {
	Jobs int `json:"jobs"`
}

// boundIntake ends the newest jobs of a user other than this one who has more in the intake than one may, as failed.
func (c *Conn) boundIntake(ctx context.Context, refused string) (done bounded, err error) {
	s, err := c.js.Stream(ctx, StreamIntake)
	if err != nil {
		return done, c.failed(ctx, err, "look at stream %s", StreamIntake)
	}
	info := s.CachedInfo()
	if !exceeds(int(info.State.Msgs), int64(info.State.Bytes), info.Config, clientsMay) {
		return done, nil
	}
	users, err := c.jobSizes.list(ctx, c, StreamIntake)
	if err != nil {
		return done, err
	}
	delete(users, jobs.EncodeToken(refused))
	for _, list := range users {
		count, bytes := len(list), bytesOf(list)
		if !exceeds(count, bytes, info.Config, clientsMay) {
			continue
		}
		for exceeds(count, bytes, info.Config, shareOfUser) {
			var newest []*location
			for ; len(newest) < endAtOnce && exceeds(count, bytes, info.Config, shareOfUser); count-- {
				m := list[count-1]
				bytes -= m.bytes
				msg, err := c.lastMsg(ctx, StreamIntake, m.subject)
				if err != nil {
					return done, err
				}
				if msg == nil {
					continue // it has moved on
				}
				if l, err := pendingAt(StreamIntake, msg); err == nil { // else a worker finds out what it is
					newest = append(newest, l)
				}
			}
			if _, err := c.end(ctx, newest, jobs.Failed, jobs.Errorf(jobs.CodeQueueFull, "the jobs of one user filled the queue, and another's were refused; submit again when some are done")); err != nil {
				return done, err
			}
			done.Jobs += len(newest)
		}
	}
	if done.Jobs > 0 {
		c.log.Warn("ended the newest jobs of a user who filled the intake", "jobs", done.Jobs)
	}
	return done, nil
}

// allowance is how many jobs a client may submit before it asks again.
type allowance struct {
	mu   sync.Mutex
	jobs int
}

// userRoom is how many jobs of a size a user may submit before asking again.
type userRoom struct {
	Jobs int      `json:"jobs"`
	Full *failure `json:"full,omitempty"` // why none
}

// mayWait fails if the client's user has as much in the intake as one may.
func (c *Client) mayWait(ctx context.Context, bytes int) error {
	a := &c.allowed
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.jobs--; a.jobs >= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fullLimit)
	defer cancel()
	room, err := control[userRoom](ctx, c.Conn, verbRoom, c.user, request{Bytes: bytes})
	if err != nil {
		a.jobs = unanswered // if it were too much, who is refused for it will have it bounded
		return nil
	}
	a.jobs = room.Jobs - 1
	return room.Full.err()
}

// userRoom says how many jobs of so many bytes a user may submit.
func (c *Conn) userRoom(ctx context.Context, user string, bytes int) (room userRoom, err error) {
	s, err := c.js.Stream(ctx, StreamIntake)
	if err != nil {
		return room, c.failed(ctx, err, "look at stream %s", StreamIntake)
	}
	info := s.CachedInfo() // asked for this instant
	f := fullness{state: info.State, config: info.Config, at: info.TimeStamp, bytes: uint64(bytes), whose: " of user " + user}
	if f.jobs() <= 0 {
		return userRoom{Jobs: 1}, nil // the server will say so
	}
	f.config.MaxMsgs, f.config.MaxBytes = percent(shareOfUser, info.Config.MaxMsgs), percent(shareOfUser, info.Config.MaxBytes)
	if f.jobs() <= 0 { // whoever's they are
		users, err := c.jobSizes.list(ctx, c, StreamIntake)
		if err != nil {
			return room, err
		}
		list := users[jobs.EncodeToken(user)]
		f.state.Msgs, f.state.Bytes = uint64(len(list)), uint64(bytesOf(list))
	}
	free := f.jobs()
	if free <= 0 {
		f.byBytes = f.state.Msgs < uint64(f.config.MaxMsgs)
		leaving, err := c.leaving(ctx)
		return userRoom{Full: failureOf(f.err(leaving || err != nil))}, nil
	}
	return userRoom{Jobs: int(max(1, min(roomAtMost, free/clientsAtOnce)))}, nil
}
