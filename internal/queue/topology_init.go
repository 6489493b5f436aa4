package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Change is a stream, the one of a bucket included, or a durable consumer that is not as it should be, and that [Conn.Init] creates or changes.
type Change struct {
	Kind     string  `json:"kind"` // stream or consumer
	Name     string  `json:"name"`
	Missing  bool    `json:"missing,omitempty"`
	Settings []Drift `json:"settings,omitempty"` // of one that exists
	Remedy   string  `json:"remedy,omitempty"`   // Init leaves it as it is; what to do instead
}

// Init creates the streams, the buckets and the durable consumers of the models given and of those known that are missing, with so many replicas
// each, and gives those that exist the settings that they should have, but for what is the operator's choice as [Conn.EnsureStreams]
// has it. It never removes a message: what the server does not change in place, or would lose messages by, it leaves as it is. It returns
// what it did and what it left, in that order of streams and consumers; with dryRun it does nothing, and returns the same.
func (c *Conn) Init(ctx context.Context, models []string, replicas int, dryRun bool) (changes []Change, err error) {
	if err := checkReplicas(replicas); err != nil {
		return nil, err
	}
	known, err := c.models(ctx)
	if err != nil {
		return nil, err
	}
	models = append(slices.Clone(models), known...)
	slices.Sort(models)
	note := func(init func() (*Change, error)) error {
		return retryUnavailable(ctx, absentLimit, func() error {
			change, err := init()
			if change != nil && err == nil {
				changes = append(changes, *change)
			}
			return err
		})
	}
	for _, want := range streams(c.timing) {
		want.Replicas = replicas
		if err := note(func() (*Change, error) { return c.initStream(ctx, want, dryRun) }); err != nil {
			return changes, err
		}
	}
	for stream, want := range durables(c.timing, slices.Compact(models)) {
		if err := note(func() (*Change, error) { return c.initConsumer(ctx, stream, want, dryRun) }); err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// initStream creates a stream or sets it right; nil if it is as it should be.
func (c *Conn) initStream(ctx context.Context, want jetstream.StreamConfig, dryRun bool) (*Change, error) {
	have, err := c.js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if err = nil; !dryRun {
			err = c.createStream(ctx, want)
		}
		return &Change{Kind: "stream", Name: want.Name, Missing: true}, err
	case err != nil:
		return nil, c.failed(ctx, err, "look at stream %s", want.Name)
	}
	info := have.CachedInfo()
	drift, differs := errors.AsType[*DriftError](streamDrift(info.Config, want))
	if !differs {
		return nil, nil
	}
	change, updated := drift.change(), updatedStream(info.Config, want)
	switch {
	case drift.Fixed:
		change.Remedy = drift.Remedy
	case loses(info, updated):
		change.Remedy = "messages would be lost by it, and the command that changes it all the same is: " + drift.Remedy
	case !dryRun:
		if _, err := c.js.UpdateStream(ctx, updated); err != nil {
			return nil, c.failed(ctx, err, "update stream %s%s", want.Name, needs(updated, err))
		}
	}
	return change, nil
}

// loses reports whether a stream would drop some of its messages with this configuration.
func loses(info *jetstream.StreamInfo, to jetstream.StreamConfig) bool {
	state := info.State
	beyond := func(have uint64, limit int64) bool { return limit > 0 && have > uint64(limit) }
	return beyond(state.Msgs, to.MaxMsgs) || beyond(state.Bytes, to.MaxBytes) ||
		beyond(state.Msgs, to.MaxMsgsPerSubject*int64(max(1, state.NumSubjects))) && to.MaxMsgsPerSubject != info.Config.MaxMsgsPerSubject ||
		to.MaxAge > 0 && to.MaxAge != info.Config.MaxAge && state.Msgs > 0 && info.TimeStamp.Sub(state.FirstTime) > to.MaxAge-time.Second
}

// initConsumer creates a durable consumer or sets it right; nil if it is as it should be.
func (c *Conn) initConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig, dryRun bool) (*Change, error) {
	have, err := c.js.Consumer(ctx, stream, want.Durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		if err = nil; !dryRun {
			err = c.createConsumer(ctx, stream, want)
		}
		return &Change{Kind: "consumer", Name: want.Durable, Missing: true}, err
	case err != nil:
		return nil, c.failed(ctx, err, "look at consumer %s of stream %s", want.Durable, stream)
	}
	config := have.CachedInfo().Config
	drift, differs := errors.AsType[*DriftError](consumerDrift(stream, config, want))
	if !differs {
		return nil, nil
	}
	change := drift.change()
	switch {
	case drift.Fixed:
		change.Remedy = drift.Remedy
	case !dryRun:
		if _, err := c.js.UpdateConsumer(ctx, stream, updatedConsumer(config, want)); err != nil {
			return nil, c.failed(ctx, err, "update consumer %s of stream %s", want.Durable, stream)
		}
	}
	return change, nil
}

func (e *DriftError) change() *Change { return &Change{Kind: e.Kind, Name: e.Name, Settings: e.Fields} }
