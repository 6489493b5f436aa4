package queue

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"tandem/internal/natsembed"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// With no worker alive a cancel is kept, and the first one that comes does it; what was submitted later is left alone.
func TestKeptCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stopControl()
	c := r.client()
	single, waits, later := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	waits.Batch, later.Batch = "kept", "kept"
	r.submit(single, waits)
	for range 2 { // twice is once
		if got, err := c.Cancel(t.Context(), single.ID); err != nil || got != (jobs.Cancellation{JobID: single.ID, Was: jobs.PriorKept}) {
			t.Errorf("Cancel without workers = %+v, %v", got, err)
		}
		if list, kept, err := c.CancelBatch(t.Context(), "kept"); err != nil || !kept || len(list) != 0 {
			t.Errorf("CancelBatch without workers = %+v, %t, %v", list, kept, err)
		}
	}
	if n := r.waiting(StreamControl); n != 2 {
		t.Errorf("%d cancels are kept, want 2", n)
	}
	_, err := c.PurgeBatch(t.Context(), "none")
	wantError(t, err, jobs.CodeDecodeMissing, "no worker is alive")
	r.submit(later)

	r.start(protocol.RoleDecode, 1, answer)
	for i, res := range r.results(single, waits, later) {
		if want := []jobs.Status{jobs.Cancelled, jobs.Cancelled, jobs.Succeeded}[i]; res.Status != want {
			t.Errorf("job %d %s, want %s; the last was submitted after its batch was cancelled", i, res.Status, want)
		}
	}
	r.eventually("no cancel is kept", func() bool { return r.waiting(StreamControl) == 0 })
}

// A request is about the jobs of the user in its subject only; an operator's is about everybody's.
func TestControlByUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := testJob(jobs.Batch)
	r.submit(j)
	letter := DeadLetter{Code: jobs.CodeInvalid, Message: "for a test", User: j.User, Batch: j.Batch, Job: *testJob(jobs.Batch)}
	if err := r.PublishDeadLetter(t.Context(), jobs.StagePrefill, testModel, letter.Job.ID, letter); err != nil {
		t.Fatal(err)
	}
	call := func(subject, data string) (answer, failed string) {
		msg, err := r.nc.Request(subject, []byte(data), enough)
		if err != nil {
			t.Fatal(err)
		}
		return string(msg.Data), msg.Header.Get(micro.ErrorCodeHeader)
	}
	job := func(id string) string { return `{"jobs":["` + id + `"]}` }
	for _, verb := range []string{verbCancel, verbLetter, verbDrop} {
		id := j.ID
		if verb != verbCancel {
			id = letter.Job.ID
		}
		if answer, failed := call("control."+verb+".mallory", job(id)); failed != string(jobs.CodeInvalid) {
			t.Errorf("%s of another's: %s", verb, answer)
		}
	}
	for subject, data := range map[string]string{
		"control.purge.mallory": `{"batch":"` + j.Batch + `"}`, "control.expire.mallory": job(j.ID), "control.cancel.mallory": `{"batch":"` + j.Batch + `"}`,
	} {
		if answer, failed := call(subject, data); failed != "" {
			t.Errorf("%s of another's: %s", subject, answer)
		}
	}
	var list letterPart
	answer, _ := call("control.letters.mallory", `{"letters":{"user":"user"}}`)
	if err := json.Unmarshal([]byte(answer), &list); err != nil || len(list.Letters) != 0 {
		t.Errorf("another's letters: %s", answer)
	}
	for subject, data := range map[string]string{
		"control.find.u=0": job(j.ID), "control.cancel.user": "no JSON", "operator.cancel": `{}`, "control.find.user": `{"jobs":[">"]}`,
	} {
		if answer, failed := call(subject, data); failed != string(jobs.CodeInvalid) {
			t.Errorf("%s %s = %s", subject, data, answer)
		}
	}
	if found, err := r.client().find(t.Context(), true, j.ID, letter.Job.ID); err != nil || found[0].Place != PlaceIntake || found[1].Place != PlaceDead {
		t.Errorf("after another's attempts: %+v, %v", found, err)
	}
	if answer, failed := call("operator.drop", job(letter.Job.ID)); failed != "" {
		t.Errorf("drop by the operator: %s", answer)
	}
	if answer, failed := call("operator.cancel", job(j.ID)); failed != "" {
		t.Errorf("cancel by the operator: %s", answer)
	}
	if res := r.result(j); res.Status != jobs.Cancelled {
		t.Errorf("the job %s", res.Status)
	}
}

// The service is one that the tools of NATS know.
func TestControlIsAService(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	msg, err := r.nc.Request("$SRV.INFO."+controlName, nil, enough)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		t.Fatal(err)
	}
	for _, verb := range verbs {
		for _, subject := range []string{"control." + verb + ".*", "operator." + verb} {
			if !slices.ContainsFunc(info.Endpoints, func(e micro.EndpointInfo) bool { return e.Subject == subject }) {
				t.Errorf("no endpoint %s", subject)
			}
		}
	}
}

// A worker that got a request and cannot answer is not the end of it.
func TestControlAfterADrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stopControl()
	s := r.start(protocol.RoleDecode, 1, answer)
	r.present("the worker", func(l []Presence) bool { return len(l) == 1 })
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	j := testJob(jobs.Batch)
	j.Deadline = time.Now().Add(time.Hour)
	r.submit(j)
	if got, err := r.client().Cancel(t.Context(), j.ID); err != nil || got.Was != jobs.PriorKept {
		t.Errorf("Cancel after the only worker was stopped = %+v, %v", got, err)
	}
}

// A brief find and a full one agree on where a job is, on its way from the intake to its end.
func TestFindBrief(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.client()
	waits, relayed, unknown := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	done := testJob(jobs.Batch, func(j *jobs.Job) { j.Deadline = time.Now().Add(time.Hour) })
	r.submit(waits)
	r.relay(relayed)
	if _, err := r.PublishResult(t.Context(), jobs.NewResult(done, jobs.Succeeded), ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Found{
		{JobID: waits.ID, Place: PlaceIntake, Model: testModel}, {JobID: relayed.ID, Place: PlaceRelay, Model: testModel},
		{JobID: done.ID, Place: PlaceFinished}, {JobID: unknown.ID, Place: PlaceUnknown},
	} {
		whole, err := c.find(t.Context(), false, want.JobID)
		if err != nil || whole[0].Place != want.Place || whole[0].Model != want.Model {
			t.Errorf("find = %+v, %v; want %+v", whole, err, want)
		}
		if brief, err := c.find(t.Context(), true, want.JobID); err != nil || brief[0] != want {
			t.Errorf("brief find = %+v, %v; want %+v", brief, err, want)
		}
	}
}

// A server that was started again has its workers back a moment later than its clients: who asks in between is not told that there is no worker.
func TestWorkersComeBack(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, natsembed.Options{Dir: t.TempDir()})
	c := NewClient(r.connect(), "user")
	j := testJob(jobs.Batch)
	r.submit(j)
	r.stopControl()
	if err := r.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually("the connection back", func() bool { return c.back.Load() != 0 && c.Connected() })
	before := c.nc.Stats().OutMsgs
	var got jobs.Cancellation
	done := make(chan error, 1)
	go func() {
		var err error
		got, err = c.Cancel(t.Context(), j.ID)
		done <- err
	}()
	r.eventually("a request", func() bool { return c.nc.Stats().OutMsgs > before })
	r.serveControl(r.connect())
	if err := <-done; err != nil || got.Was != jobs.PriorQueued {
		t.Errorf("Cancel = %+v, %v; want queued", got, err)
	}
}
