package queue

import (
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// One user's dead letters are bounded in number and in bytes: the oldest go, and those of others and the newest stay.
func TestLettersOfOneUser(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bound   letterBound
		prompts int // bytes of each
		left    int
	}{
		"number": {letterBound{letters: 3, bytes: 1 << 30}, 10, 3},
		"bytes":  {letterBound{letters: 100, bytes: 100_000}, 40_000, 2},
		"huge":   {letterBound{letters: 100, bytes: 100_000}, 120_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.letters = tt.bound
			publish := func(user string, n int) (ids []string) {
				for range n {
					j := testJob(jobs.Batch, func(j *jobs.Job) { j.User, j.Prompt = user, strings.Repeat("x", tt.prompts) })
					if err := r.PublishDeadLetter(t.Context(), jobs.StageDecode, testModel, j.ID, DeadLetter{Code: jobs.CodeInvalid, Job: *j}); err != nil {
						t.Fatal(err)
					}
					ids = append(ids, j.ID)
				}
				return ids
			}
			letters := func(user string) (ids []string) {
				for l, err := range r.DeadLetters(t.Context(), LetterFilter{User: user}) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, l.JobID)
				}
				return ids
			}
			quiet := publish("quiet.user", 1)
			loud := publish("loud user/é", 8)
			if got, want := letters("loud user/é"), loud[len(loud)-tt.left:]; strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("of eight letters %d are left, %q; want the last %d, %q", len(got), got, tt.left, want)
			}
			if got := letters("quiet.user"); len(got) != 1 || got[0] != quiet[0] {
				t.Errorf("of another user's letter %q is left", got)
			}
			if s, err := r.js.Stream(t.Context(), StreamDLQ); err != nil || s.CachedInfo().State.Consumers != 0 {
				t.Errorf("consumers are left: %v", err)
			}
		})
	}
}

// Records that cannot be read are nobody's, who has no more room than one user.
func TestLettersOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.letters = letterBound{letters: 2, bytes: 1 << 30}
	for range 5 {
		if err := r.PublishDeadLetter(t.Context(), jobs.StagePrefill, testModel, jobs.NewID(), DeadLetter{Code: jobs.CodeInvalid, Raw: []byte("{")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.waiting(StreamDLQ); n != 2 {
		t.Errorf("%d letters of nobody are left, want 2", n)
	}
}

// A relay without room holds hops up until decode has made some, and no job is lost.
func TestFullRelay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, err := r.js.Stream(t.Context(), StreamRelay)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxBytes != relayBytes {
		t.Errorf("the relay may have %d bytes, want %d", cfg.MaxBytes, relayBytes)
	}
	cfg.MaxBytes = 150_000
	if _, err := r.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	var list []*jobs.Job
	var hops sync.WaitGroup
	for range 6 {
		j := testJob(jobs.Batch, func(j *jobs.Job) { j.Prompt = strings.Repeat("x", 60_000) })
		list = append(list, j)
		hops.Go(func() {
			if err := r.publishHop(t.Context(), &jobs.Handover{V: jobs.Version, Stage: jobs.StageDecode, Job: *j, Kind: jobs.KindNone}, ""); err != nil {
				t.Errorf("hop: %v", err)
			}
		})
	}
	r.eventually("as many hops as there is room for", func() bool { return r.waiting(StreamRelay) == 2 })
	_, err = r.js.Publish(t.Context(), protocol.JobSubject(jobs.StageDecode, testModel, jobs.Batch, "user", jobs.NewID()), make([]byte, 60_000))
	if err == nil || !strings.Contains(err.Error(), tooLarge) {
		t.Errorf("a hop beyond the limit: %v, want %q", err, tooLarge)
	}
	r.start(protocol.RoleDecode, 1, answer)
	r.results(list...)
	hops.Wait()
	r.eventually("an empty relay", func() bool { return r.waiting(StreamRelay) == 0 })
}

// Every stream has a limit, and one user's letters leave room for those of others.
func TestAllStreamsAreBounded(t *testing.T) {
	sum := int64(0)
	for _, cfg := range streams(DefaultTiming()) {
		if cfg.MaxBytes <= 0 {
			t.Errorf("stream %s may have %d bytes", cfg.Name, cfg.MaxBytes)
		}
		if want := cfg.Name == StreamDLQ; (cfg.Discard == jetstream.DiscardOld) != want {
			t.Errorf("stream %s discards %v", cfg.Name, cfg.Discard)
		}
		sum += cfg.MaxBytes
	}
	if sum > 6_700_000_000 {
		t.Errorf("the streams reserve %d bytes; docs/OPERATIONS.md says 6.6 GB", sum)
	}
	if b := defaultLetters(); b.bytes*2 > lettersBytes {
		t.Errorf("one user's letters may have %d of %d bytes", b.bytes, lettersBytes)
	}
}
