package queue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// kept lists what a stream holds of jobs, after a sequence.
func (r *rig) kept(stream string, after uint64) (list []*Kept) {
	r.t.Helper()
	for k, err := range r.Kept(r.t.Context(), stream, after) {
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, k)
	}
	return list
}

// All that the streams hold of jobs can be listed, whatever others have put there, and nothing is taken off: the jobs are done afterwards.
func TestKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if got := r.kept(StreamIntake, 0); len(got) != 0 {
		t.Errorf("an empty stream holds %+v", got)
	}
	var fixed atomic.Bool
	broken := testJob(jobs.Batch, func(j *jobs.Job) { j.User = "ada l.; é" })
	s := r.prepare(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		if task.Job.ID == broken.ID {
			return brokenFor(&fixed)(ctx, task)
		}
		return answer(ctx, task)
	})
	many := several(keptMessages+20, jobs.Batch)
	for _, j := range many {
		j.Prompt = strings.Repeat("long ", 4000) // more than a part has room for
	}
	r.submit(many...)
	r.publish(protocol.JobSubject(jobs.StagePrefill, testModel, jobs.Batch, "eve", jobs.NewID()), jobs.NewID(), "no job")
	r.rawHeaders(protocol.JobSubject(jobs.StagePrefill, testModel, jobs.Batch, "eve", jobs.NewID()), "no header")
	last := testJob(jobs.Interactive)
	r.submit(last)
	list := r.kept(StreamIntake, 0)
	if n := len(list); n < len(many)+2 || list[n-1].JobID != last.ID || !slices.IsSortedFunc(list, func(a, b *Kept) int { return int(a.Sequence) - int(b.Sequence) }) {
		t.Fatalf("%d jobs are listed of %d", n, len(many)+2)
	}
	if k := list[0]; k.JobID != many[0].ID || k.User != "user" || k.Batch != many[0].Batch || k.Model != testModel || k.Stage != jobs.StagePrefill || k.Accepted.IsZero() {
		t.Errorf("the first is %+v", k)
	}
	if after := r.kept(StreamIntake, list[3].Sequence); len(after) != len(list)-4 || after[0].JobID != list[4].JobID {
		t.Errorf("after the fourth %d are listed of %d", len(after), len(list))
	}
	names, err := r.KeptNames(t.Context(), StreamIntake)
	if err != nil || len(names) != r.waiting(StreamIntake) || !slices.Contains(names, KeptName{"user", many[0].ID}) {
		t.Errorf("%d names are listed (%v), want %d", len(names), err, r.waiting(StreamIntake))
	}

	r.relay(broken)
	if k := r.kept(StreamRelay, 0); len(k) != 1 || k[0].JobID != broken.ID || k[0].User != broken.User || k[0].Batch != broken.Batch || k[0].Stage != jobs.StageDecode {
		t.Errorf("the relay holds %+v", k)
	}
	s.begin()
	r.results(append(many, last, broken)...)
	r.result(broken)
	r.letter(jobs.StageDecode, broken.ID)
	results := r.kept(StreamResults, 0)
	at := slices.IndexFunc(results, func(k *Kept) bool { return k.JobID == broken.ID })
	if at < 0 || results[at].Status != jobs.Failed || results[at].Error.Code != jobs.CodeEngineRefused || results[at].Error.Message == "" || results[at].User != broken.User {
		t.Errorf("the results are %d, that of the broken job is number %d", len(results), at)
	}
	letters := r.kept(StreamDLQ, 0)
	at = slices.IndexFunc(letters, func(k *Kept) bool { return k.JobID == broken.ID })
	if at < 0 || letters[at].Stage != jobs.StageDecode || letters[at].Error.Code != jobs.CodeEngineRefused || letters[at].Attempts != 1 || letters[at].Batch != broken.Batch {
		t.Errorf("the letters are %+v", letters)
	}
	if names, err := r.KeptNames(t.Context(), StreamDLQ); err != nil || !slices.Contains(names, KeptName{broken.User, broken.ID}) {
		t.Errorf("the letters' names are %v, %v", names, err)
	}
}

// Ids are made by clients: of two users' jobs with the same id, each is replayed and dropped by itself.
func TestOwnLetters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var fixed atomic.Bool
	r.start(protocol.RoleDecode, 1, brokenFor(&fixed))
	ada := testJob(jobs.Batch, func(j *jobs.Job) { j.User = "ada" })
	eve := *ada
	eve.User, eve.Prompt = "eve", "eve's own"
	for _, j := range []*jobs.Job{ada, &eve} {
		r.relay(j)
		r.result(j)
	}
	r.eventually("both letters are there", func() bool { return r.waiting(StreamDLQ) == 2 })
	of := func(user string) *Client { return NewClient(r.Conn, user) }
	for user, want := range map[string]string{"ada": ada.Prompt, "eve": eve.Prompt} {
		if l, err := of(user).OwnLetter(t.Context(), ada.ID); err != nil || l.Job.Prompt != want {
			t.Errorf("the letter of %s is %+v, %v", user, l, err)
		}
	}
	if err := of("ada").DropOwn(t.Context(), ada.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := of("ada").OwnLetter(t.Context(), ada.ID); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("the letter that was dropped: %v", err)
	}
	if _, _, err := of("ada").ReplayOwn(t.Context(), ada.ID); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("replaying it: %v", err)
	}
	id, again, err := of("eve").ReplayOwn(t.Context(), ada.ID)
	if err != nil || again {
		t.Fatalf("replaying the other: %t, %v", again, err)
	}
	fixed.Store(true)
	replay := eve
	replay.ID = id
	r.result(&replay)
	if own, err := of("eve").OwnResult(t.Context(), ada.ID); err != nil || own == nil || own.JobID != ada.ID || own.Status != jobs.Failed {
		t.Errorf("the own result is %+v, %v", own, err)
	}
}

// A key that was made before it needed the right to read streams is told so, with what to do about it.
func TestKeptWithoutTheRight(t *testing.T) {
	t.Parallel()
	r, said := boundRig(t)
	if _, err := r.Init(t.Context(), []string{testModel}, 1, false); err != nil {
		t.Fatal(err)
	}
	worker := r.connectAs(protocol.RoleDecode, slog.New(slog.NewTextHandler(said, nil)))
	n := 0
	for k, err := range worker.Kept(t.Context(), StreamResults, 0) {
		if n++; k != nil || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "submitter admin secure") {
			t.Errorf("it gets %+v, %v", k, err)
		}
	}
	if n != 1 {
		t.Errorf("the list has %d entries, want an error", n)
	}
}
