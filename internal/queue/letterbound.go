package queue

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/jobs"
)

// letterBound is what the dead letters of one user may take of their stream, so that those of the others stay: NATS itself drops
// the oldest of all when the stream is full. Letters of no known user, such as of records that cannot be read, count as one user's.
type letterBound struct {
	letters int
	bytes   int64
}

// defaultLetters has room for four users in the stream, and for more that do not use all of theirs.
func defaultLetters() letterBound { return letterBound{letters: 1000, bytes: lettersBytes / 4} }

// boundLetters removes the oldest dead letters of a user that are more than one may have. The newest stays.
func (c *Conn) boundLetters(ctx context.Context, user string) error {
	s, err := c.stream(ctx, StreamDLQ)
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return c.failed(ctx, err, "look at stream %s", StreamDLQ)
	}
	if info.State.Msgs <= uint64(c.letters.letters) && info.State.Bytes <= uint64(c.letters.bytes) {
		return nil
	}
	list, err := c.lettersOf(ctx, user, info.State.LastSeq)
	if err != nil {
		return err
	}
	count, bytes := 0, int64(0)
	for _, l := range slices.Backward(list) {
		count, bytes = count+1, bytes+l.bytes
		if count == 1 || count <= c.letters.letters && bytes <= c.letters.bytes {
			continue
		}
		if err := c.purge(ctx, StreamDLQ, l.subject, jetstream.WithPurgeSequence(l.seq+1)); err != nil {
			return err
		}
		c.log.Warn("dropped a dead letter: its user has as many that are newer as one user may have", "subject", l.subject)
	}
	return nil
}

// sized is a dead letter without its text.
type sized struct {
	subject string
	seq     uint64
	bytes   int64
}

// lettersOf lists the dead letters of a user up to the last one, oldest first. Only their headers are read.
func (c *Conn) lettersOf(ctx context.Context, user string, last uint64) (list []sized, err error) {
	r := reader{c: c, stream: StreamDLQ, filter: jobs.SubjectDLQ, headersOnly: true}
	defer r.close()
	for r.seq < last {
		msg, err := r.next(ctx, time.Second)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			break // the last ones were removed meanwhile
		}
		if msg.Headers().Get(jobs.HeaderUser) != jobs.EncodeToken(user) {
			continue
		}
		bytes, err := strconv.ParseInt(msg.Headers().Get(nats.MsgSize), 10, 64)
		if err != nil {
			continue // not a header of the server's
		}
		list = append(list, sized{msg.Subject(), r.seq, bytes})
	}
	return list, nil
}
