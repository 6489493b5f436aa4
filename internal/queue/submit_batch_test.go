package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// input makes the jobs of the same input, with new ids each time, as a submitter that was started again does.
func input(n int) (list []*jobs.Job) {
	batch := jobs.NewID()
	for i := range n {
		list = append(list, testJob(jobs.Batch, func(j *jobs.Job) {
			j.Batch, j.CustomID, j.Prompt = batch, fmt.Sprint("notebook ", i), fmt.Sprint("private words of a student ", i)
		}))
	}
	return list
}

var errStopped = errors.New("the submitter was stopped")

func TestManifestComesFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "manifest.json")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if err := submitBatch(r.client(), ctx, path, input(100), nil); err == nil {
		t.Fatal("SubmitBatch succeeded without publishing")
	}
	if n := r.waiting(StreamIntake); n != 0 {
		t.Errorf("%d jobs were published", n)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the manifest = %v, want 0600", info.Mode())
	}
	m, err := ReadManifest(path)
	if err != nil || len(m.Jobs) != 100 || m.Jobs[7].CustomID != "notebook 7" || m.User != "user" {
		t.Errorf("manifest = %+v, %v", m, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "private") {
		t.Errorf("the manifest holds the prompts, or cannot be read: %v", err)
	}
	if names, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".manifest-*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %q, %v", names, err)
	}
}

// Jobs are published in another order than that of the input, which the manifest keeps; a batch that is gone on with has the same one.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "manifest.json")
	submit := func(ctx context.Context, progress func(done, total int)) ([]*jobs.Job, error) {
		c, list := r.client(), input(6)
		c.Order = func(list []*jobs.Job) []*jobs.Job {
			list = slices.Clone(list)
			slices.Reverse(list)
			return list
		}
		return list, submitBatch(c, ctx, path, list, progress)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := submit(ctx, func(done, _ int) {
		if done == 2 {
			cancel(errStopped)
		}
	}); err == nil {
		t.Fatal("SubmitBatch went on after its context ended")
	}
	list, err := submit(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(path)
	if err != nil || !slices.Equal(m.IDs(), ids(list)) || m.Jobs[0].CustomID != "notebook 0" {
		t.Errorf("the manifest has not the input's order: %+v, %v", m, err)
	}
	intake, err := r.js.Stream(t.Context(), StreamIntake)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		msg, err := intake.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if want := list[len(list)-1-i].ID; !strings.HasSuffix(msg.Subject, want) {
			t.Errorf("job %d in the intake is %s, want %s", i, msg.Subject, want)
		}
	}
}

// A submitter stopped in the middle, a server that forgot what it was told, and workers that were
// quick meanwhile: resuming stores the rest, and nothing twice.
func TestResume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "manifest.json")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := submitBatch(r.client(), ctx, path, input(100), func(done, total int) {
		if total != 100 {
			t.Errorf("total = %d", total)
		}
		if done == 37 {
			cancel(errStopped)
		}
	})
	if err == nil {
		t.Fatal("SubmitBatch went on after its context ended")
	}
	if n := r.waiting(StreamIntake); n != 37 {
		t.Fatalf("%d jobs were published, want 37", n)
	}
	var done book
	r.startPrefill(2, done.note(passOn))
	r.start(protocol.RoleDecode, 2, done.note(answer))
	r.eventually("37 results", func() bool { return r.waiting(StreamResults) == 37 && r.waiting(StreamRelay) == 0 })
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	again := input(100)
	last := 0
	if err := submitBatch(r.client(), t.Context(), path, again, func(done, _ int) { last = done }); err != nil {
		t.Fatal(err)
	}
	if last != 100 {
		t.Errorf("progress ended at %d", last)
	}
	m, err := ReadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(again); !slices.Equal(got, m.IDs()) {
		t.Errorf("ids after resuming differ from the manifest's")
	}
	for _, res := range r.results(again...) {
		if res.Batch != m.Batch {
			t.Errorf("batch of a result = %s, want %s", res.Batch, m.Batch)
		}
	}
	done.once(t, jobs.StagePrefill, again)
	done.once(t, jobs.StageDecode, again)
}

func ids(list []*jobs.Job) (ids []string) {
	for _, j := range list {
		ids = append(ids, j.ID)
	}
	return ids
}

// Jobs whose results the submitter keeps itself are left out, even when the server has forgotten them.
func TestResumeLeavesOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "manifest.json")
	m, err := newManifest(input(4))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.write(path); err != nil {
		t.Fatal(err)
	}
	have := m.IDs()[1:3]
	last := 0
	if err := submitBatch(r.client(), t.Context(), path, input(4), func(done, _ int) { last = done }, have...); err != nil {
		t.Fatal(err)
	}
	got, err := r.client().BatchJobs(t.Context(), m.Batch)
	if want := []string{m.IDs()[0], m.IDs()[3]}; err != nil || !slices.Equal(got, want) || last != 4 {
		t.Errorf("submitted %q, %v, progress %d; want %q and progress 4", got, err, last, want)
	}
}

func TestManifestOfOtherInput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	path := filepath.Join(t.TempDir(), "manifest.json")
	if err := submitBatch(c, t.Context(), path, input(3), nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func([]*jobs.Job) []*jobs.Job
		text   string
	}{
		{"fewer", func(l []*jobs.Job) []*jobs.Job { return l[:2] }, "3 jobs, and the input 2"},
		{"other prompt", func(l []*jobs.Job) []*jobs.Job { l[1].Prompt += "!"; return l }, `job 2 (custom_id "notebook 1")`},
		{"other options", func(l []*jobs.Job) []*jobs.Job { l[2].Options.Seed = new(int64); return l }, "job 3"},
		{"other custom id", func(l []*jobs.Job) []*jobs.Job { l[0].CustomID = "x"; return l }, `custom_id "notebook 0"`},
		{"other user", func(l []*jobs.Job) []*jobs.Job { l[0].User = "x"; return l }, "of user"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := submitBatch(c, t.Context(), path, tt.change(input(3)), nil)
			wantError(t, err, jobs.CodeInvalid, path, "other input", tt.text)
			if strings.Contains(err.Error(), "private") {
				t.Errorf("the error shows a prompt: %v", err)
			}
		})
	}
	if state := r.state(StreamIntake); state.LastSeq != 3 {
		t.Errorf("%d jobs were stored, want 3", state.LastSeq)
	}
}

func TestBatchRefusedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	path := filepath.Join(t.TempDir(), "manifest.json")
	refuse := func(list []*jobs.Job, text string) {
		t.Helper()
		wantError(t, submitBatch(c, t.Context(), path, list, nil), jobs.CodeInvalid, text)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a manifest was written: %v", err)
		}
	}
	refuse(nil, "empty")
	bad := input(3)
	bad[2].Prompt = ""
	refuse(bad, "prompt is empty")
	twins := input(2)
	twins[1].ID = twins[0].ID
	refuse(twins, "job 2 of the batch has the id of another")
	mixed := append(input(1), input(1)...)
	refuse(mixed, "job 2 of the batch")
	if n := r.waiting(StreamIntake); n != 0 {
		t.Errorf("%d jobs were published", n)
	}
}

func TestReadManifest(t *testing.T) {
	t.Parallel()
	_, err := ReadManifest(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing manifest: error = %v", err)
	}
	for content, text := range map[string]string{
		`{"v":1,"jobs":[`:        "damaged",
		`{"v":1,"v":1}`:          "damaged",
		`{"v":1,"jobs":"three"}`: "damaged",
		`{"v":2}`:                "version 2",
	} {
		path := writeFile(t, []byte(content))
		_, err := ReadManifest(path)
		wantError(t, err, jobs.CodeInvalid, path, text)
	}
}

// The hash that tells inputs apart leaves out what differs between two submissions of one.
func TestInputHash(t *testing.T) {
	t.Parallel()
	sum := func(change func(*jobs.Job)) string {
		j := testJob(jobs.Batch, change)
		s, err := inputSHA256(j)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := sum(func(*jobs.Job) {})
	if other := sum(func(j *jobs.Job) { j.Deadline, j.Batch = time.Now().Add(time.Hour), "b" }); other != plain {
		t.Error("deadline and batch change the hash")
	}
	if other := sum(func(j *jobs.Job) { j.Format = json.RawMessage(`"json"`) }); other == plain {
		t.Error("the format does not change the hash")
	}
}

func TestBatchWaitsWhileFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limitIntake(5)
	list := input(20)
	submitted, stuck := make(chan error, 1), make(chan struct{})
	go func() {
		submitted <- submitBatch(r.client(), t.Context(), filepath.Join(t.TempDir(), "m"), list, func(done, _ int) {
			if done == 5 {
				close(stuck)
			}
		})
	}()
	<-stuck
	r.start(protocol.RoleDecode, 2, answer)
	r.start(protocol.RolePrefill, 2, passOn)
	if err := <-submitted; err != nil {
		t.Fatal(err)
	}
	r.results(list...)
}

func TestBatchWaitsForNATS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := input(30)
	submitted := make(chan error, 1)
	half, goOn := make(chan struct{}), make(chan struct{})
	go func() {
		submitted <- submitBatch(r.client(), t.Context(), filepath.Join(t.TempDir(), "m"), list, func(done, _ int) {
			if done == 15 {
				close(half)
				<-goOn
			}
		})
	}()
	<-half
	r.server.Stop()
	close(goOn)
	r.eventually("lost connection", func() bool { return !r.nc.IsConnected() })
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-submitted; err != nil {
		t.Fatal(err)
	}
	if state := r.state(StreamIntake); state.Msgs != 30 || state.LastSeq != 30 {
		t.Errorf("the intake stored %d and holds %d, want 30", state.LastSeq, state.Msgs)
	}
}

// A server that is shut down keeps its connections for a while when it has let go of its streams.
func TestSubmitWhileStreamsAreAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	first, second, list := testJob(jobs.Batch), testJob(jobs.Batch), input(3)
	if err := c.Submit(t.Context(), first, SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.js.DeleteStream(t.Context(), StreamIntake); err != nil {
		t.Fatal(err)
	}
	submitted := make(chan error, 2)
	go func() { submitted <- c.Submit(t.Context(), second, SubmitOptions{}) }()
	go func() { submitted <- submitBatch(c, t.Context(), filepath.Join(t.TempDir(), "m"), list, nil) }()
	r.remains("the submits wait", 1500*time.Millisecond, func() bool { return len(submitted) == 0 })
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-submitted; err != nil {
			t.Error(err)
		}
	}
	if n := r.waiting(StreamIntake); n != 4 {
		t.Errorf("%d jobs in the intake, want 4", n)
	}
}

// Without JetStream the advice comes when waiting was in vain.
func TestSubmitWithoutStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	if err := c.Submit(t.Context(), testJob(jobs.Batch), SubmitOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.js.DeleteStream(t.Context(), StreamIntake); err != nil {
		t.Fatal(err)
	}
	err := retryUnavailable(t.Context(), time.Second, func() error {
		_, err := c.submit(t.Context(), testJob(jobs.Batch), "")
		return err
	})
	wantError(t, err, jobs.CodeNATS, "start a worker")
}

func TestBatchJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := input(4)
	r.submit(list[0], testJob(jobs.Batch)) // one of another batch
	r.relay(list[1])
	for _, j := range list[2:] {
		if _, err := r.PublishResult(t.Context(), jobs.NewResult(j, jobs.Succeeded), ""); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.client().BatchJobs(t.Context(), list[0].Batch)
	if err != nil || !slices.Equal(got, ids(list)) {
		t.Errorf("BatchJobs = %q, %v; want %q", got, err, ids(list))
	}
}
