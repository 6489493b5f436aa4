package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/internal/units"
	"tandem/jobs"
)

// The streams and buckets.
const (
	StreamIntake  = "INTAKE"  // accepted jobs that wait for prefill
	StreamRelay   = "RELAY"   // jobs that wait for decode or fallback
	StreamResults = "RESULTS" // how jobs ended
	StreamDLQ     = "DLQ"     // dead letters
	StreamControl = "CONTROL" // cancels that wait for a worker

	BucketWorkers   = "workers"   // who is present: <role>.<model>.<worker>
	BucketHandbacks = "handbacks" // by job id: deliveries handed back uncounted

	BucketTrials = "handover_trials" // what doctor measured: <model>.<prefill machine>.<decode machine>
)

// The limits of the streams, so that none takes the room of another. NATS reserves these bytes of its disk, 6 GiB in all. Each is a
// default that the operator may change. A stream that is full refuses more, but for the dead letters, of which the oldest go: without
// room in the relay prefill waits, and without room for results all workers do.
const (
	intakeMessages = 20_000
	intakeBytes    = 2 << 30
	relayBytes     = 1 << 30
	resultsBytes   = 2 << 30
	lettersBytes   = 1 << 30
	controlBytes   = 32 << 20
	workersBytes   = 32 << 20
	handbacksBytes = 128 << 20
	dedupeWindow   = 24 * time.Hour
	keepResults    = 7 * 24 * time.Hour
	keepLetters    = 30 * 24 * time.Hour
	keepControl    = 7 * 24 * time.Hour
	keepHandbacks  = 7 * 24 * time.Hour
	trialsBytes    = 8 << 20
	keepTrials     = 400 * 24 * time.Hour
)

// streams is the one table of what must exist on the server. A bucket is a stream, too.
func streams(t Timing) []jetstream.StreamConfig {
	work := func(name string, bytes int64, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Subjects: subjects, MaxBytes: bytes, Retention: jetstream.WorkQueuePolicy, Duplicates: dedupeWindow,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		}
	}
	bucket := func(name string, bytes int64, ttl time.Duration) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, MaxAge: ttl, Duplicates: min(ttl, 2*time.Minute),
			MaxMsgsPerSubject: 1, MaxBytes: bytes, Discard: jetstream.DiscardNew, DenyDelete: true,
		}
	}

	intake := work(StreamIntake, intakeBytes, protocol.SubjectIntake)
	intake.MaxMsgs = intakeMessages
	control := work(StreamControl, controlBytes, "kept.>")
	control.MaxAge, control.Duplicates, control.MaxMsgSize = keepControl, 2*time.Minute, 1024 // a message is empty, and its subject says all
	all := []jetstream.StreamConfig{
		intake,
		work(StreamRelay, relayBytes, protocol.SubjectDecode, protocol.SubjectFall),
		control,
		{
			Name: StreamResults, Subjects: []string{protocol.SubjectResults}, MaxBytes: resultsBytes, MaxAge: keepResults, Duplicates: 2 * time.Minute,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		},
		{
			Name: StreamDLQ, Subjects: []string{protocol.SubjectDLQ}, MaxBytes: lettersBytes, MaxAge: keepLetters, Duplicates: 2 * time.Minute,
			MaxMsgsPerSubject: 1,
		},
		bucket(BucketWorkers, workersBytes, t.PresenceTTL),
		bucket(BucketHandbacks, handbacksBytes, keepHandbacks),
	}
	for i := range all { // what they have in common, and the server's defaults spelt out so that they compare
		c := &all[i]
		c.Storage, c.AllowDirect, c.Replicas, c.MaxConsumers, c.MaxMsgSize = jetstream.FileStorage, true, 1, -1, cmp.Or(c.MaxMsgSize, -1)
		if c.MaxMsgs == 0 {
			c.MaxMsgs = -1
		}
	}
	return all
}

// trialsBucket is made by the first doctor that measures hand-overs: no job needs it.
func trialsBucket() jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{Bucket: BucketTrials, Description: "What submitter doctor --handover measured last", TTL: keepTrials, MaxBytes: trialsBytes, Storage: jetstream.FileStorage}
}

// consumer is the one description of the durable that all workers of a role, model and class token share.
func consumer(t Timing, role jobs.Stage, model string, class jobs.Class) (stream string, cfg jetstream.ConsumerConfig) {
	cfg = jetstream.ConsumerConfig{
		Durable:       protocol.ConsumerName(role, model, class),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       t.AckWait,
		MaxDeliver:    -1, // attempts are counted by us: a job at the server's limit would lie in the stream for ever
		MaxAckPending: -1, // jobs that wait for another try must not keep fresh ones back
	}
	if role == protocol.RolePrefill {
		cfg.FilterSubject = protocol.JobFilter(jobs.StagePrefill, model, class)
		return StreamIntake, cfg
	}
	cfg.FilterSubjects = []string{
		protocol.JobFilter(jobs.StageDecode, model, class),
		protocol.JobFilter(jobs.StageFallback, model, class),
	}
	return StreamRelay, cfg
}

// keptConsumer is the durable that all workers read kept cancels by.
func keptConsumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{Durable: "kept", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: -1}
}

// durables yields each durable consumer that these models need, and that of kept cancels, with its stream.
func durables(t Timing, models []string) iter.Seq2[string, jetstream.ConsumerConfig] {
	return func(yield func(string, jetstream.ConsumerConfig) bool) {
		if !yield(StreamControl, keptConsumer()) {
			return
		}
		for _, model := range models {
			for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
				for _, class := range protocol.Tokens(role) {
					if !yield(consumer(t, role, model, class)) {
						return
					}
				}
			}
		}
	}
}

// EnsureStreams creates the streams and buckets that are missing, with the replicas of [Config], if the server lets this user do that. One
// that exists with another configuration is left alone and reported as a [*DriftError]; several are joined. How many replicas it has, and
// how many messages and bytes it may hold, is the operator's choice, as long as there is a limit where this program sets one.
// It waits some seconds for a cluster that is electing a leader.
func (c *Conn) EnsureStreams(ctx context.Context) error {
	return retryUnavailable(ctx, absentLimit, func() error { return c.ensureStreams(ctx) })
}

func (c *Conn) ensureStreams(ctx context.Context) error {
	var errs []error
	for _, want := range streams(c.timing) {
		want.Replicas = c.replicas
		// Creating the same again would be no error, but the server first looks whether it has room for another as large.
		err := c.compareStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if err = c.createStream(ctx, want); err != nil { // somebody else may have, meanwhile
				if again := c.compareStream(ctx, want); !errors.Is(again, jetstream.ErrStreamNotFound) {
					err = again
				}
			}
		}
		if drift, ok := errors.AsType[*DriftError](err); ok {
			errs = append(errs, drift)
		} else if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (c *Conn) createStream(ctx context.Context, want jetstream.StreamConfig) error {
	err := c.ask(ctx, "$JS.API.STREAM.CREATE."+want.Name, func(ctx context.Context) error {
		_, err := c.js.CreateStream(ctx, want)
		return err
	})
	if errors.Is(err, errRefused) {
		return c.missing("stream "+want.Name, err)
	}
	if err != nil {
		return c.failed(ctx, err, "create stream %s%s", want.Name, needs(want, err))
	}
	return nil
}

// needs says what a stream that the server cannot create would take, if that can be told.
func needs(want jetstream.StreamConfig, err error) string {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return ""
	}
	switch {
	case want.Replicas > 1 && (api.ErrorCode == notClustered || api.ErrorCode == noPeers):
		return fmt.Sprintf(": %d replicas need a cluster of as many NATS servers with JetStream; start those, or give fewer --replicas", want.Replicas)
	case api.ErrorCode == noRoom:
		return fmt.Sprintf(": it reserves %s of the NATS server's disk, which has less left for streams; free some, or raise max_file_store in the server's configuration",
			units.Bytes(uint64(max(0, want.MaxBytes))))
	}
	return ""
}

func (c *Conn) compareStream(ctx context.Context, want jetstream.StreamConfig) error {
	have, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if err != nil {
		return c.failed(ctx, err, "look at stream %s", want.Name)
	}
	return streamDrift(have.CachedInfo().Config, want)
}

// EnsureConsumers creates the durable consumers of a role and model that are missing, one for each class and lane, if the server lets this
// user do that; which makes the model known. One that exists with another configuration is reported as a [*DriftError]. It waits as [Conn.EnsureStreams] does.
func (c *Conn) EnsureConsumers(ctx context.Context, role jobs.Stage, model string) error {
	return retryUnavailable(ctx, absentLimit, func() error { return c.ensureConsumers(ctx, role, model) })
}

func (c *Conn) ensureConsumers(ctx context.Context, role jobs.Stage, model string) error {
	var errs []error
	for stream, want := range durables(c.timing, []string{model}) {
		if worker, _, _, _ := protocol.ModelOfConsumer(want.Durable); worker != "" && worker != role {
			continue
		}
		err := c.compareConsumer(ctx, stream, want)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			if err = c.createConsumer(ctx, stream, want); errors.Is(err, jetstream.ErrConsumerExists) { // somebody else was faster
				err = c.compareConsumer(ctx, stream, want)
			}
		}
		if drift, ok := errors.AsType[*DriftError](err); ok {
			errs = append(errs, drift)
		} else if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (c *Conn) createConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) error {
	err := c.ask(ctx, "$JS.API.CONSUMER.CREATE."+stream+"."+want.Durable, func(ctx context.Context) error {
		_, err := c.js.CreateConsumer(ctx, stream, want)
		return err
	})
	if errors.Is(err, errRefused) {
		return c.missing("consumer "+want.Durable+" of stream "+stream, err)
	}
	if err != nil {
		return c.failed(ctx, err, "create consumer %s of stream %s", want.Durable, stream)
	}
	return nil
}

func (c *Conn) compareConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) error {
	have, err := c.js.Consumer(ctx, stream, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	if err != nil {
		return c.failed(ctx, err, "look at consumer %s of stream %s", want.Durable, stream)
	}
	return consumerDrift(stream, have.CachedInfo().Config, want)
}

// Models lists the known models in order: those that a worker was ever started for; of a grader's account, those that a worker can tell.
func (c *Client) Models(ctx context.Context) (models []string, err error) {
	if !c.grader {
		return c.models(ctx)
	}
	o, err := c.Inspect(ctx)
	if errors.Is(err, errNoWorker) {
		return nil, nil
	}
	if err == nil {
		for _, m := range o.Models {
			models = append(models, m.Model)
		}
	}
	return models, err
}

func (c *Conn) models(ctx context.Context) ([]string, error) {
	var models []string
	for _, name := range []string{StreamIntake, StreamRelay} {
		stream, err := c.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, c.failed(ctx, err, "list models")
		}
		names := stream.ConsumerNames(ctx)
		for consumer := range names.Name() {
			if _, model, _, ok := protocol.ModelOfConsumer(consumer); ok {
				models = append(models, model)
			}
		}
		if err := names.Err(); err != nil {
			return nil, c.failed(ctx, err, "list models")
		}
	}
	slices.Sort(models)
	return slices.Compact(models), nil
}
