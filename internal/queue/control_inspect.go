package queue

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Overview is the state of the whole queue at one moment.
type Overview struct {
	Server  Server         `json:"server"`
	Streams []StreamStatus `json:"streams"` // all that must exist, in the order of the table
	Models  []ModelStatus  `json:"models"`  // the known ones
	Workers []Presence     `json:"workers"`
}

// Server is the NATS server that this connection is to.
type Server struct {
	URL        string  `json:"url"` // without secrets
	Name       string  `json:"name"`
	Version    string  `json:"version"`
	MaxPayload int64   `json:"max_payload"` // bytes
	Sync       Sync    `json:"sync"`
	RTTSeconds float64 `json:"rtt_seconds"` // a round trip to it
}

// Sync says when the server's store is on the disk.
type Sync string

// When a message is on the disk.
const (
	SyncAlways   Sync = "always"   // before it is acknowledged
	SyncInterval Sync = "interval" // some time later: a crash of the machine loses acknowledged messages
	SyncUnknown  Sync = "unknown"  // the server does not tell this user
)

// StreamStatus is what a stream holds.
type StreamStatus struct {
	Name         string `json:"name"`
	Missing      bool   `json:"missing,omitempty"`
	Messages     uint64 `json:"messages"`
	LastSequence uint64 `json:"last_sequence"` // of the message that came last; 0 before the first, and again if the stream is made anew
	Bytes        uint64 `json:"bytes"`
	MaxMessages  int64  `json:"max_messages"`    // -1: no limit
	MaxBytes     int64  `json:"max_bytes"`       // -1: no limit
	Drift        string `json:"drift,omitempty"` // how its configuration differs, with the remedy
}

// ModelStatus is the work there is for a model.
type ModelStatus struct {
	Model   string        `json:"model"`
	Classes []ClassStatus `json:"classes"` // interactive, then batch
}

// ClassStatus is the work there is for a model and class.
type ClassStatus struct {
	Class   jobs.Class `json:"class"`
	Prefill Depth      `json:"prefill"`
	Decode  Depth      `json:"decode"` // and fallback
}

// Depth counts the jobs at a stage.
type Depth struct {
	Waiting     int `json:"waiting"`
	InFlight    int `json:"in_flight"`   // at a worker, or waiting for another attempt
	Redelivered int `json:"redelivered"` // of those, delivered more than once
}

// Inspect reads the state of the queue. A stream that is missing is no error. A grader's account has a worker do it.
func (c *Client) Inspect(ctx context.Context) (*Overview, error) {
	return control[*Overview](ctx, c.Conn, verbInspect, c.whose(), request{})
}

func (c *Conn) inspect(ctx context.Context) (*Overview, error) {
	o := new(Overview)
	rtt, err := c.nc.RTT()
	if err != nil {
		return nil, c.failed(ctx, err, "reach NATS")
	}
	o.Server = Server{
		URL: c.url(), Name: c.nc.ConnectedServerName(), Version: c.nc.ConnectedServerVersion(),
		MaxPayload: c.nc.MaxPayload(), Sync: c.Sync(ctx), RTTSeconds: rtt.Seconds(),
	}
	bucketMissing := false
	for _, want := range streams(c.timing) {
		s, err := c.streamStatus(ctx, want)
		if err != nil {
			return nil, err
		}
		o.Streams = append(o.Streams, s)
		bucketMissing = bucketMissing || s.Missing && s.Name == "KV_"+BucketWorkers
	}
	models, err := c.models(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		status, err := c.Work(ctx, m)
		if err != nil {
			return nil, err
		}
		o.Models = append(o.Models, status)
	}
	if !bucketMissing {
		if o.Workers, err = c.Workers(ctx); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Work counts the work there is for a model.
func (c *Conn) Work(ctx context.Context, model string) (ModelStatus, error) {
	status := ModelStatus{Model: model}
	for _, class := range jobs.Classes {
		prefill, err := c.depth(ctx, protocol.RolePrefill, model, class)
		if err != nil {
			return status, err
		}
		decode, err := c.depth(ctx, protocol.RoleDecode, model, class)
		if err != nil {
			return status, err
		}
		status.Classes = append(status.Classes, ClassStatus{class, prefill, decode})
	}
	return status, nil
}

func (c *Conn) streamStatus(ctx context.Context, want jetstream.StreamConfig) (StreamStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit) // no leader, no answer
	defer cancel()
	status := StreamStatus{Name: want.Name}
	s, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		status.Missing = true
		return status, nil
	}
	if err != nil {
		return status, c.failed(ctx, err, "look at stream %s", want.Name)
	}
	info := s.CachedInfo() // asked for this instant
	status.Messages, status.LastSequence, status.Bytes = info.State.Msgs, info.State.LastSeq, info.State.Bytes
	status.MaxMessages, status.MaxBytes = info.Config.MaxMsgs, info.Config.MaxBytes
	if err := streamDrift(info.Config, want); err != nil {
		status.Drift = err.Error()
	}
	return status, nil
}

// depth counts the jobs at the consumers of a role, model and class, of all lanes; none if there is no such consumer.
func (c *Conn) depth(ctx context.Context, role jobs.Stage, model string, class jobs.Class) (d Depth, err error) {
	var list []source
	for _, token := range protocol.Tokens(role) {
		if s := sourceOf(role, model, token); s.class() == class {
			list = append(list, s)
		}
	}
	infos, err := c.infos(ctx, list...)
	for _, info := range infos {
		d.Waiting += int(info.NumPending)
		d.InFlight += info.NumAckPending
		d.Redelivered += info.NumRedelivered
	}
	return d, err
}

// infos asks consumers, all at once, what waits there and what they have delivered; nothing at one that is not there.
func (c *Conn) infos(ctx context.Context, list ...source) ([]jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit) // no leader, no answer
	defer cancel()
	infos, errs := make([]jetstream.ConsumerInfo, len(list)), make([]error, len(list))
	var asked sync.WaitGroup
	for i, s := range list {
		asked.Go(func() {
			found, err := c.js.Consumer(ctx, s.stream, s.consumer)
			if err == nil {
				infos[i] = *found.CachedInfo() // asked for this instant
			} else if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
				errs[i] = c.failed(ctx, err, "look at consumer %s", s.consumer)
			}
		})
	}
	asked.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return infos, nil
}

// Sync asks the server for its sync setting. It tells only users that may ask it about itself:
// the system account's, or those of an account that imports its services.
func (c *Conn) Sync(ctx context.Context) Sync {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	msg, err := c.nc.RequestWithContext(ctx, "$SYS.REQ.SERVER."+c.nc.ConnectedServerId()+".JSZ", nil)
	if err != nil {
		return SyncUnknown
	}
	var answer struct {
		Data struct {
			Config *struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"data"`
	}
	switch err := json.Unmarshal(msg.Data, &answer); {
	case err != nil || answer.Data.Config == nil:
		return SyncUnknown
	case answer.Data.Config.SyncAlways:
		return SyncAlways
	}
	return SyncInterval
}
