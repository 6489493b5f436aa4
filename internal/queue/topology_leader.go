package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// On a cluster each stream has a leader, and followers that may lag behind it. A direct get is answered by any of them, so it can
// miss what was acknowledged a moment ago: a job that is "nowhere" would be submitted twice, one without "result" run after its cancel. What decides
// anything is therefore asked of the leader, which has applied what it acknowledged. Only who is present is read by direct gets: beats tell
// the rest.

// msgGet asks for one message of a stream.
type msgGet struct {
	LastFor string `json:"last_by_subj,omitempty"` // the last one of a subject, which may hold wildcards; or
	Seq     uint64 `json:"seq,omitempty"`          // the first one from here on
	NextFor string `json:"next_by_subj,omitempty"` // that matches this
}

// message is one of a stream.
type message struct {
	jetstream.RawStreamMsg
	bytes int64 // that it takes of the stream
}

// ofLeader reads a message from the leader of a stream; nil if there is none.
func (c *Conn) ofLeader(ctx context.Context, stream string, get msgGet) (*jetstream.RawStreamMsg, error) {
	m, err := c.messageOfLeader(ctx, stream, get)
	if m == nil || err != nil {
		return nil, err
	}
	return &m.RawStreamMsg, nil
}

// perMessage is what nats-server stores of a message beside subject, headers and data, in bytes.
const perMessage = 34

// messageOfLeader is ofLeader with the size of the message. Headers that cannot be read are left out, as they are for who fetches it: one
// user's must not hide the jobs of others behind it.
func (c *Conn) messageOfLeader(ctx context.Context, stream string, get msgGet) (*message, error) {
	request, err := json.Marshal(get)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	msg, err := c.nc.RequestWithContext(asking, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return nil, c.failed(ctx, err, "read stream %s", stream)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(msg.Data, &answer); {
	case err != nil:
		return nil, c.failed(ctx, err, "read stream %s", stream)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case answer.Error != nil:
		return nil, c.failed(ctx, answer.Error, "read stream %s", stream)
	case answer.Message == nil:
		return nil, c.failed(ctx, jetstream.ErrInvalidJetStreamResponse, "read stream %s", stream)
	}
	m := answer.Message
	raw := &message{jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Sequence, Data: m.Data, Time: m.Time, Header: nats.Header{}}, perMessage}
	raw.bytes += int64(len(m.Subject) + len(m.Header) + len(m.Data))
	if h, err := nats.DecodeHeadersMsg(m.Header); err == nil {
		raw.Header = h
	}
	return raw, nil
}

// lastMsg returns the last message of a subject, which may hold wildcards, and nil if there is none.
func (c *Conn) lastMsg(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	return c.ofLeader(ctx, stream, msgGet{LastFor: subject})
}

// storeFailed is the server's code for a message that it could not store: because of a limit of the stream, or for a reason of its own.
const storeFailed jetstream.ErrorCode = 10077

// refused reports whether the server has answered, and said no to the message. Without an answer nobody knows what became of it,
// and other errors are of the server: no leader (10008, 10009), no resources (10023), a store that is being closed
// (10077, which is also that of a limit), the same message still under way (10158, 10163).
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return false
	}
	return api.Code == 400 || api.ErrorCode == storeFailed && !strings.Contains(api.Description, "closed")
}

// absent reports whether a call failed because NATS could not do it at this moment, which says nothing about the call: the server shuts
// down or has just started, a stream has no leader, an answer did not come.
func absent(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		if slices.Contains([]jetstream.ErrorCode{notClustered, noRoom, jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount}, api.ErrorCode) {
			return false
		}
		return api.ErrorCode == noPeers || !refused(err) && api.Code != 404
	}
	for _, e := range []error{errCutOff, jetstream.ErrNoStreamResponse, nats.ErrNoResponders, nats.ErrTimeout, nats.ErrDisconnected, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Why a stream cannot be created: the server is not one of a cluster, too few others of it are there, which a cluster that has just
// started says as well, or the stream reserves more of its disk than is left.
const (
	notClustered jetstream.ErrorCode = 10074
	noPeers      jetstream.ErrorCode = 10005
	noRoom       jetstream.ErrorCode = 10047
)
