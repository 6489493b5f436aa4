package queue

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// names lists what was changed, "-" in front of what was left as it is.
func names(changes []Change) (list []string) {
	for _, c := range changes {
		if c.Remedy != "" {
			c.Name = "-" + c.Name
		}
		list = append(list, c.Name)
	}
	return list
}

// Init makes all that workers need, a dry run nothing, and a second run finds nothing to do.
func TestInit(t *testing.T) {
	t.Parallel()
	r := bareRig(t)
	dry := r.init(true, testModel)
	if _, err := r.js.Stream(t.Context(), StreamIntake); err == nil {
		t.Error("a dry run created a stream")
	}
	if got := names(r.init(false, testModel)); !slices.Equal(got, names(dry)) || len(got) == 0 {
		t.Errorf("Init changed %q; the dry run said %q", got, names(dry))
	}
	r.submit(testJob(jobs.Batch))
	for _, dryRun := range []bool{true, false} {
		if again := r.init(dryRun); len(again) > 0 {
			t.Errorf("Init again (dry run %v) = %+v", dryRun, again)
		}
	}
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Error(err)
	}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		if err := r.EnsureConsumers(t.Context(), role, testModel); err != nil {
			t.Error(err)
		}
	}
	if r.waiting(StreamIntake) != 1 {
		t.Error("the job is gone")
	}
}

// Init sets right what the server changes in place, keeps what is the operator's choice, and loses no message.
func TestInitOfWhatDiffers(t *testing.T) {
	t.Parallel()
	r := bareRig(t)
	table := map[string]jetstream.StreamConfig{}
	for _, cfg := range streams(r.timing) {
		table[cfg.Name] = cfg
	}
	create := func(name string, change func(*jetstream.StreamConfig)) {
		t.Helper()
		cfg := table[name]
		change(&cfg)
		if _, err := r.js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	create(StreamIntake, func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy })
	create(StreamRelay, func(c *jetstream.StreamConfig) {
		c.Subjects, c.MaxBytes, c.MaxMsgs, c.Description = c.Subjects[:1], 1<<20, -1, "mine"
	})
	create(StreamResults, func(c *jetstream.StreamConfig) { c.MaxAge, c.AllowDirect = time.Hour, false })
	create(StreamDLQ, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 })
	for range 2 {
		if _, err := r.js.Publish(t.Context(), "dlq.decode.m.j", nil); err != nil {
			t.Fatal(err)
		}
	}
	stream, cfg := consumer(r.timing, protocol.RoleDecode, testModel, jobs.Batch)
	cfg.AckWait, cfg.FilterSubjects = time.Minute, cfg.FilterSubjects[:1]
	if _, err := r.js.CreateConsumer(t.Context(), stream, cfg); err != nil {
		t.Fatal(err)
	}

	changes := r.init(false)
	want := []string{"-INTAKE", "RELAY", StreamControl, "RESULTS", "-DLQ"}
	if got := names(changes); len(got) < 5 || !slices.Equal(got[:5], want) || !slices.Contains(got, cfg.Durable) {
		t.Fatalf("Init changed %q, want it to begin with %q and to have %s", got, want, cfg.Durable)
	}
	for i, text := range map[int]string{0: "nats stream rm INTAKE", 4: "nats stream edit DLQ --max-msgs-per-subject=1"} {
		if !strings.Contains(changes[i].Remedy, text) {
			t.Errorf("the remedy for %s is %q; want %q in it", changes[i].Name, changes[i].Remedy, text)
		}
	}
	if s := changes[3].Settings; len(s) != 2 || s[0] != (Drift{"max_age", "1h0m0s", "168h0m0s"}) {
		t.Errorf("settings of RESULTS: %+v", s)
	}
	s, err := r.js.Stream(t.Context(), StreamRelay)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.MaxBytes != 1<<20 || c.Description != "mine" || len(c.Subjects) != 2 {
		t.Errorf("RELAY is now %+v", c)
	}
	if n := r.waiting(StreamDLQ); n != 2 {
		t.Errorf("%d letters are left of 2", n)
	}
	if got := names(r.init(false)); !slices.Equal(got, []string{"-INTAKE", "-DLQ"}) {
		t.Errorf("Init again changed %q", got)
	}
}
