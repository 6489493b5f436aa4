package rig

import (
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// TestWireIsRead: what a worker and the server say to each other about one job becomes its history, and each operation is known as the step that it is.
func TestWireIsRead(t *testing.T) {
	const job = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"
	ack := func(stream string) string {
		return "$JS.ACK." + stream + ".prefill_m_batch.2.7.9.1700000000000000000.0"
	}
	client := func(verb, subject, reply, payload string) *tap.Op {
		return &tap.Op{Conn: 1, FromClient: true, Verb: verb, Subject: subject, Reply: reply, Payload: []byte(payload)}
	}
	server := func(verb, subject, reply, payload string) *tap.Op {
		return &tap.Op{Conn: 1, Verb: verb, Subject: subject, Reply: reply, Payload: []byte(payload)}
	}
	log := history.New(nil)
	r := newRecorder(log)
	w := r.wire("worker")
	for i, tt := range []struct {
		op   *tap.Op
		step Step
		want []history.Event
	}{
		{client("HPUB", "jobs.prefill.m:1.batch."+job, "_INBOX.1", `{"prompt":"[rig-1-0] x"}`), BeforePublish, []history.Event{
			{Kind: history.Submitted, Subject: "jobs.prefill.m:1.batch." + job, Record: []byte(`{"prompt":"[rig-1-0] x"}`)},
		}},
		{client("HPUB", "jobs.prefill.m:1.batch."+job, "_INBOX.2", `{"prompt":"[rig-1-0] x"}`), BeforePublish, nil}, // once more
		{server("MSG", "_INBOX.2", "", `{"stream":"INTAKE","seq":7,"duplicate":true}`), AfterPublish, []history.Event{
			{Kind: history.Accepted, Subject: "jobs.prefill.m:1.batch." + job, Stream: "INTAKE", Seq: 7, Again: true},
		}},
		{server("HMSG", "jobs.prefill.m:1.batch."+job, ack("INTAKE"), `{}`), OnDelivery, []history.Event{
			{Kind: history.Delivered, Subject: "jobs.prefill.m:1.batch." + job, Stream: "INTAKE", Seq: 7, Count: 2},
		}},
		{client("HPUB", "jobs.decode.m:1.batch."+job, "_INBOX.3", `{}`), BeforePublish, []history.Event{
			{Kind: history.Published, Subject: "jobs.decode.m:1.batch." + job},
		}},
		{server("MSG", "_INBOX.3", "", `{"stream":"RELAY","seq":3}`), AfterPublish, []history.Event{
			{Kind: history.Stored, Subject: "jobs.decode.m:1.batch." + job, Stream: "RELAY", Seq: 3},
		}},
		{client("PUB", ack("INTAKE"), "_INBOX.4", "+WPI"), "", nil},
		{client("PUB", ack("INTAKE"), "_INBOX.5", "+ACK"), BeforeAck, []history.Event{{Kind: history.Acked, Stream: "INTAKE", Seq: 7}}},
		{server("MSG", "_INBOX.5", "", ""), AfterAck, nil},
		{client("HPUB", "results.u.b."+job, "_INBOX.6", `{"status":"expired"}`), BeforePublish, []history.Event{
			{Kind: history.Published, Subject: "results.u.b." + job, Record: []byte(`{"status":"expired"}`)},
		}},
		{server("MSG", "_INBOX.6", "", `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 4"},"stream":"RESULTS","seq":0}`), "", nil},
		{client("HPUB", "results.u.b."+job, "_INBOX.7", `{"status":"expired","error":{"stage":"decode"}}`), BeforePublish, []history.Event{
			{Kind: history.Published, Subject: "results.u.b." + job, Record: []byte(`{"status":"expired","error":{"stage":"decode"}}`)},
		}},
		{server("MSG", "_INBOX.7", "", `{"stream":"RESULTS","seq":5}`), AfterPublish, []history.Event{
			{Kind: history.Stored, Subject: "results.u.b." + job, Stream: "RESULTS", Seq: 5},
			{Kind: history.Cancelled, Note: "expired"},
		}},
		{client("SUB", "_INBOX.>", "", ""), "", nil},
		{client("PUB", "$JS.API.CONSUMER.MSG.NEXT.INTAKE.c", "_INBOX.8", "{}"), "", nil},
	} {
		before := len(log.Events())
		if step := w.read(tt.op, 0).step; step != tt.step {
			t.Errorf("operation %d is the step %q, want %q", i, step, tt.step)
		}
		for j := range tt.want {
			tt.want[j].Process, tt.want[j].Job = "worker", job
		}
		have := log.Events()[before:]
		if diff := cmp.Diff(tt.want, have, cmpopts.IgnoreFields(history.Event{}, "N", "At"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("operation %d (-want +have):\n%s", i, diff)
		}
	}
	if r.job("rig-1-0") != job || r.status(job) != "expired" {
		t.Errorf("the marker is of job %q, which is %q", r.job("rig-1-0"), r.status(job))
	}
	if ended, _ := r.now(); ended != 1 {
		t.Errorf("%d jobs have ended", ended)
	}
}

// TestCallsAreRead: a call that computes is known as one, of either engine, and is in the history if it names its job.
func TestCallsAreRead(t *testing.T) {
	const job = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"
	for _, tt := range []struct {
		path, body string
		late       bool
		computes   bool
		noted      bool
	}{
		{path: "/api/generate", body: `{"prompt":"[rig-1-0] x"}`, computes: true, noted: true},
		{path: "/api/chat", body: `{"messages":[{"content":"[rig-1-0] x"}]}`, computes: true, noted: true},
		{path: "/v1/chat/completions", body: `{"messages":[{"content":"[rig-1-0] x"}]}`, computes: true, noted: true},
		{path: "/completion", body: `{"prompt":[1,2]}`, computes: true},
		{path: "/tokenize", body: `{"content":"[rig-1-0] x"}`, noted: true},
		{path: "/apply-template", body: `{"messages":[{"content":"[rig-1-0] x"}]}`},
		{path: "/api/generate", body: `{"prompt":"[rig-1-0] x"}`, late: true, computes: true},
	} {
		log := history.New(nil)
		r := newRecorder(log)
		r.jobs["rig-1-0"] = job
		computes := r.call("engine", &tap.Exchange{Request: httptest.NewRequest("POST", tt.path, nil), Body: []byte(tt.body), Late: tt.late})
		if computes != tt.computes {
			t.Errorf("%s computes: %v, want %v", tt.path, computes, tt.computes)
		}
		var want []history.Event
		if tt.noted {
			want = []history.Event{{Kind: history.Called, Process: "engine", Job: job, Note: tt.path}}
		}
		if diff := cmp.Diff(want, log.Events(), cmpopts.IgnoreFields(history.Event{}, "N", "At"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +have):\n%s", tt.path, diff)
		}
	}
}
