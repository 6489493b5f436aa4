package queue

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// bareRig is a rig without streams.
func bareRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, server: natstest.Start(t, natsembed.Options{}), timing: lively()}
	r.Client = NewClient(r.connect(), "user")
	return r
}

func TestEnsureTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	r := bareRig(t)
	var all sync.WaitGroup
	for range 6 {
		c := r.connect()
		all.Go(func() {
			if err := c.EnsureStreams(t.Context()); err != nil {
				t.Errorf("EnsureStreams: %v", err)
			}
			for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
				if err := c.EnsureConsumers(t.Context(), role, testModel); err != nil {
					t.Errorf("EnsureConsumers(%s): %v", role, err)
				}
			}
		})
	}
	all.Wait()
	r.submit(testJob(jobs.Batch))
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Errorf("EnsureStreams again: %v", err)
	}
	if err := r.EnsureConsumers(t.Context(), protocol.RoleDecode, testModel); err != nil {
		t.Errorf("EnsureConsumers again: %v", err)
	}
	if n := r.waiting(StreamIntake); n != 1 {
		t.Errorf("%d jobs in the intake after EnsureStreams, want the one that was there", n)
	}
	if models, err := r.Models(t.Context()); err != nil || len(models) != 1 || models[0] != testModel {
		t.Errorf("Models = %q, %v; want %q", models, err, testModel)
	}
}

// The streams reserve a good 6 GiB. A server with room for one set is not asked for a second, by whoever comes later or at the same time.
func TestEnsureOnSmallServer(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, server: natstest.Start(t, natsembed.Options{MaxStore: 7 << 30}), timing: lively()}
	var all sync.WaitGroup
	for range 6 {
		c := r.connect()
		all.Go(func() {
			if err := c.EnsureStreams(t.Context()); err != nil {
				t.Errorf("EnsureStreams: %v", err)
			}
		})
	}
	all.Wait()
	if err := r.connect().EnsureStreams(t.Context()); err != nil {
		t.Errorf("EnsureStreams again: %v", err)
	}
}

// Streams whose limits the operator has changed are taken as they are, and by a server whose disk has less room by then.
func TestLimitsAreTheOperators(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := &rig{t: t, server: natstest.Start(t, natsembed.Options{Dir: dir, MaxStore: 7 << 30}), timing: lively()}
	r.Client = NewClient(r.connect(), "user")
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range streams(r.timing) {
		want.MaxBytes, want.MaxMsgs = want.MaxBytes/2, 1000
		if _, err := r.js.UpdateStream(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	r.server.Stop()
	r.server = natstest.Start(t, natsembed.Options{Dir: dir, MaxStore: 1 << 30})
	r.Client = NewClient(r.connect(), "user")
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Errorf("EnsureStreams: %v", err)
	}
	if s, err := r.js.Stream(t.Context(), StreamResults); err != nil || s.CachedInfo().Config.MaxBytes != resultsBytes/2 {
		t.Errorf("results may have %d bytes, %v; want the operator's %d", s.CachedInfo().Config.MaxBytes, err, resultsBytes/2)
	}
}

// Each drift is reported with its field and a remedy, and the remedy is true: what it says can be
// edited the server does edit, and what it says must be removed the server refuses to edit.
func TestStreamDrift(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stream string
		field  string
		change func(*jetstream.StreamConfig)
		remedy string
	}{
		{StreamIntake, "max_msgs", func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 }, "nats stream edit INTAKE --max-msgs=20000"},
		{StreamIntake, "max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, "--max-bytes=2147483648"},
		{StreamRelay, "max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, "--max-bytes=1073741824"},
		{StreamResults, "max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, "--max-bytes=2147483648"},
		{StreamDLQ, "max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, "--max-bytes=1073741824"},
		{"KV_handbacks", "max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, "--max-bytes=134217728"},
		{StreamIntake, "retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy }, "nats stream rm INTAKE"},
		{StreamIntake, "discard_new_per_subject", func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = false }, "--discard-per-subject"},
		{StreamIntake, "duplicate_window", func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute }, "--dupe-window=24h0m0s"},
		{StreamRelay, "subjects", func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] }, "--subjects=jobs.decode.>,jobs.fallback.>"},
		{StreamRelay, "storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "nats stream rm RELAY"},
		{StreamRelay, "max_msgs_per_subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 3 }, "--max-msgs-per-subject=1"},
		{StreamResults, "max_age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "--max-age=168h0m0s"},
		{StreamResults, "allow_direct", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "--allow-direct"},
		{StreamResults, "max_msg_size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }, "--max-msg-size=-1"},
		{"KV_" + BucketWorkers, "allow_rollup_hdrs", func(c *jetstream.StreamConfig) { c.AllowRollup = true }, "--no-allow-rollup"},
		{StreamResults, "allow_rollup_hdrs", func(c *jetstream.StreamConfig) { c.AllowRollup = true }, "--no-allow-rollup"},
		{StreamDLQ, "discard", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }, "--discard=old"},
		{StreamDLQ, "deny_purge", func(c *jetstream.StreamConfig) { c.DenyPurge = true }, "nats stream rm DLQ"},
		{StreamDLQ, "deny_delete", func(c *jetstream.StreamConfig) { c.DenyDelete = true }, "nats stream rm DLQ"},
		{"KV_workers", "max_age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "nats stream edit KV_workers --max-age=10s"},
	} {
		t.Run(tt.stream+" "+tt.field, func(t *testing.T) {
			t.Parallel()
			r := bareRig(t)
			var want jetstream.StreamConfig
			for _, cfg := range streams(r.timing) {
				if cfg.Name == tt.stream {
					want = cfg
				}
			}
			have := want
			tt.change(&have)
			if _, err := r.js.CreateStream(t.Context(), have); err != nil {
				t.Fatal(err)
			}
			drift, ok := errors.AsType[*DriftError](r.EnsureStreams(t.Context()))
			if !ok || drift.Name != tt.stream || len(drift.Fields) != 1 || drift.Fields[0].Field != tt.field {
				t.Fatalf("EnsureStreams error = %+v, want drift of %s", drift, tt.field)
			}
			if !strings.Contains(drift.Remedy, tt.remedy) {
				t.Errorf("remedy = %q, want %q in it", drift.Remedy, tt.remedy)
			}
			if text := drift.Error(); !strings.Contains(text, drift.Fields[0].Have) || !strings.Contains(text, drift.Fields[0].Want) {
				t.Errorf("error %q does not say what is (%s) and what should be (%s)", text, drift.Fields[0].Have, drift.Fields[0].Want)
			}
			if s, err := r.js.Stream(t.Context(), tt.stream); err != nil || streamDrift(s.CachedInfo().Config, want) == nil {
				t.Errorf("the stream was changed: %v", err)
			}
			if _, err := r.js.Stream(t.Context(), "KV_handbacks"); err != nil {
				t.Errorf("the other streams were not created: %v", err)
			}
			_, err := r.js.UpdateStream(t.Context(), want)
			if edits := strings.HasPrefix(drift.Remedy, "nats stream edit"); edits != (err == nil) {
				t.Errorf("the remedy is %q, and editing gives error %v", drift.Remedy, err)
			}
		})
	}
}

func TestConsumerDrift(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		field  string
		change func(*jetstream.ConsumerConfig)
		remedy string
	}{
		{"filter_subjects", func(c *jetstream.ConsumerConfig) { c.FilterSubjects = c.FilterSubjects[:1] }, "--filter=jobs.decode.test+model~v1:7b.batch.*.*,jobs.fallback.test+model~v1:7b.batch.*.*"},
		{"ack_wait", func(c *jetstream.ConsumerConfig) { c.AckWait = time.Minute }, "--wait=12s"},
		{"max_deliver", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 7 }, "--max-deliver=-1"},
		{"max_ack_pending", func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 7 }, "--max-pending=-1"},
		{"headers_only", func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }, "--no-headers-only"},
		{"inactive_threshold", func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }, "--inactive-threshold=0s"},
		{"priority_policy", func(c *jetstream.ConsumerConfig) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"g"}
		}, "nats consumer rm RELAY"},
	} {
		t.Run(tt.field, func(t *testing.T) {
			t.Parallel()
			r := bareRig(t)
			if err := r.EnsureStreams(t.Context()); err != nil {
				t.Fatal(err)
			}
			stream, want := consumer(r.timing, protocol.RoleDecode, testModel, jobs.Batch)
			have := want
			tt.change(&have)
			if _, err := r.js.CreateConsumer(t.Context(), stream, have); err != nil {
				t.Fatal(err)
			}
			drift, ok := errors.AsType[*DriftError](r.EnsureConsumers(t.Context(), protocol.RoleDecode, testModel))
			if !ok || drift.Kind != "consumer" || len(drift.Fields) != 1 || drift.Fields[0].Field != tt.field {
				t.Fatalf("EnsureConsumers error = %+v, want drift of %s", drift, tt.field)
			}
			if !strings.Contains(drift.Remedy, tt.remedy) {
				t.Errorf("remedy = %q, want %q in it", drift.Remedy, tt.remedy)
			}
			_, err := r.js.UpdateConsumer(t.Context(), stream, want)
			if edits := strings.HasPrefix(drift.Remedy, "nats consumer edit"); edits && err != nil {
				t.Errorf("the remedy is %q, and editing gives error %v", drift.Remedy, err)
			}
		})
	}
}

func TestSubjectsOfAnotherStream(t *testing.T) {
	t.Parallel()
	r := bareRig(t)
	if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "MINE", Subjects: []string{"results.>"}}); err != nil {
		t.Fatal(err)
	}
	err := r.EnsureStreams(t.Context())
	if jobs.CodeOf(err) != jobs.CodeNATS || !strings.Contains(err.Error(), "RESULTS") || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("EnsureStreams error = %v, want one that names RESULTS and the overlap", err)
	}
}
