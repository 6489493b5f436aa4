package queue

import (
	"maps"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestRelayed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	waiting, hurried, other := testJob(jobs.Batch), testJob(jobs.Interactive), testJob(jobs.Batch)
	other.Model = "other:1b"
	fallen, queued, done := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	r.relay(waiting, hurried, other, done)
	r.submit(queued)
	r.publish(protocol.SubjectOf(fallen, jobs.StageFallback), messageID(fallen, jobs.StageFallback),
		&jobs.Handover{V: jobs.Version, Stage: jobs.StageFallback, Job: *fallen})
	if err := r.purge(t.Context(), StreamRelay, protocol.SubjectOf(done, jobs.StageDecode)); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range []*jobs.Job{waiting, hurried, other, fallen, queued, done} {
		ids = append(ids, j.ID)
	}
	got, err := r.Relayed(t.Context(), testModel, ids)
	if want := map[string]bool{waiting.ID: true, hurried.ID: true}; err != nil || !maps.Equal(got, want) {
		t.Errorf("Relayed = %v, %v; want %v", got, err, want)
	}
	if got, err := r.Relayed(t.Context(), testModel, ids[2:]); err != nil || len(got) != 0 {
		t.Errorf("Relayed of jobs without a message = %v, %v", got, err)
	}
	if err := r.js.DeleteStream(t.Context(), StreamRelay); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Relayed(t.Context(), testModel, ids); err == nil {
		t.Errorf("Relayed without a stream = %v and no error; nobody knows", got)
	}
}
