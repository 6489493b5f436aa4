package queue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// sized is a message without its text.
type sized struct {
	subject string
	seq     uint64
	bytes   int64
}

// sizes is what is known of the messages of a stream whose subjects end with a user and an id, each subject once. Each message is read once, since it may
// have megabytes and NATS does not tell its size without them.
type sizes struct {
	mu   sync.Mutex
	read uint64           // the last one
	left map[string]sized // by subject
}

// list lists the messages of each user, by token, that are in the stream, oldest first.
func (k *sizes) list(ctx context.Context, c *Conn, stream string) (map[string][]sized, error) {
	s, err := c.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, c.failed(ctx, err, "list stream %s", stream)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == nil || info.State.LastSeq < k.read { // or the stream was created anew
		k.left, k.read = map[string]sized{}, 0
	}
	maps.DeleteFunc(k.left, func(subject string, _ sized) bool { return info.State.Subjects[subject] == 0 })
	for k.read < info.State.LastSeq {
		msg, err := c.messageOfLeader(ctx, stream, msgGet{Seq: k.read + 1, NextFor: ">"})
		if err != nil {
			return nil, err
		}
		if msg == nil {
			break // the last ones were removed meanwhile
		}
		k.read = msg.Sequence
		k.left[msg.Subject] = sized{msg.Subject, msg.Sequence, msg.bytes}
	}
	users := map[string][]sized{}
	for _, m := range k.left {
		user := userToken(m.subject)
		users[user] = append(users[user], m)
	}
	for _, list := range users {
		slices.SortFunc(list, func(a, b sized) int { return cmp.Compare(a.seq, b.seq) })
	}
	return users, nil
}

// userToken is the user in the subject of a job or a dead letter, as a token: the one before the last.
func userToken(subject string) string {
	tokens := strings.Split(subject, ".")
	return tokens[max(0, len(tokens)-2)]
}

// bytesOf is what messages have together.
func bytesOf(list []sized) (bytes int64) {
	for _, m := range list {
		bytes += m.bytes
	}
	return bytes
}
