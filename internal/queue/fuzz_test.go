package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

const fuzzID = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"

// printable checks that an error can be told: in a result, in a dead letter, on a terminal.
func printable(t *testing.T, err error, most int) {
	t.Helper()
	if said := err.Error(); len(said) > most || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the error has %d bytes: %.300q", len(said), said)
	}
}

// encoded is a record as JSON.
func encoded(t testing.TB, v interface{ MarshalJSON() ([]byte, error) }) []byte {
	t.Helper()
	data, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A delivered message, whatever its subject and body: what a worker takes for a job is the one that the subject names,
// and can be passed on; anything else is given up with a reason that can be told.
func FuzzDelivered(f *testing.F) {
	j := testJob(jobs.Batch, func(j *jobs.Job) { j.ID = fuzzID })
	local := testJob(jobs.Batch, func(j *jobs.Job) { j.ID, j.Plan = fuzzID, jobs.PlanLocal })
	h := &jobs.Handover{V: jobs.Version, Stage: jobs.StageDecode, Job: *j, Kind: jobs.KindNone}
	subject := func(s jobs.Stage) string { return protocol.SubjectOf(j, s) }
	for _, decode := range []bool{false, true} {
		f.Add(decode, subject(jobs.StagePrefill), encoded(f, j))
		f.Add(decode, subject(jobs.StagePrefill), encoded(f, local))
		f.Add(decode, subject(jobs.StageDecode), encoded(f, h))
		f.Add(decode, subject(jobs.StageFallback), encoded(f, h))
		f.Add(decode, subject(jobs.StagePrefill), encoded(f, h))
		f.Add(decode, "jobs.prefill.other:1.batch.u."+fuzzID, encoded(f, j))
		f.Add(decode, "jobs.prefill.*.batch.>", []byte(`{"user":"u","batch":"b"}`))
		f.Add(decode, "", []byte(nil))
	}
	f.Fuzz(func(t *testing.T, decode bool, subject string, body []byte) {
		w := &Worker{cfg: WorkerConfig{Role: protocol.RolePrefill, Model: testModel}, members: newMembership(testModel, Timing{}, time.Now())}
		if decode {
			w.cfg.Role = protocol.RoleDecode
		}
		msg := &nats.Msg{Subject: subject, Data: body, Sub: &nats.Subscription{}, Reply: "$JS.ACK.INTAKE.c.1.2.3.1700000000000000000.0"}
		d := &delivery{arrival: arrival{msg: msg}, w: w}
		if err := d.read(); err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Errorf("%v is of code %s, want %s", err, jobs.CodeOf(err), jobs.CodeInvalid)
			}
			printable(t, err, 2000)
			return
		}
		if err := d.job.Validate(); err != nil {
			t.Errorf("a job was taken that is none: %v", err)
		}
		want := protocol.JobSubject(d.address.Stage, d.job.Model, d.address.Token(), d.job.User, d.job.ID)
		if want != subject || d.job.Class != d.address.Class {
			t.Errorf("the job of %q was delivered on %q", want, subject)
		}
		if d.delivered != 1 || d.stored.IsZero() || d.accepted.IsZero() {
			t.Errorf("delivered %d times, stored %v, accepted %v", d.delivered, d.stored, d.accepted)
		}
		next := d.handover
		if next == nil {
			next = &jobs.Handover{V: jobs.Version, Stage: jobs.StageFallback, Job: *d.job}
		}
		if _, err := jobs.Encode(next); err != nil {
			t.Errorf("a job was taken that cannot be passed on: %v", err)
		}
		if _, err := jobs.Encode(jobs.NewResult(d.job, jobs.Succeeded)); err != nil {
			t.Errorf("a job was taken that can have no result: %v", err)
		}
	})
}

// A copy of a result goes to an inbox or nowhere, whatever stands in the header.
func FuzzReplyTo(f *testing.F) {
	server := natstest.Start(f, natsembed.Options{})
	conn, err := Connect(f.Context(), Config{URL: server.URL(), Name: "test"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conn.Close)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(nc.Close)
	all := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe(">", all); err != nil {
		f.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{
		"_INBOX.abc.1", "_INBOX.", "_INBOX", "", "results.u.b.x", "jobs.prefill.m.batch.x", "$JS.API.STREAM.DELETE.INTAKE", "_INBOX.>", "_INBOX.*",
		"_INBOX.a\r\nPUB results.x 0\r\n\r\n", "_INBOX.a b", "_inbox.a", " _INBOX.a", "_INBOX.a.", "_INBOX..a", "_INBOX.\x00", "ctl.cancel." + fuzzID,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, inbox string) {
		if len(inbox) > 1000 {
			return // longer than a line of the protocol: another matter
		}
		const copied = "{}"
		conn.copyToInbox(inbox, []byte(copied))
		if err := conn.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		for len(all) > 0 {
			if m := <-all; string(m.Data) == copied && (!strings.HasPrefix(m.Subject, "_INBOX.") || m.Subject != inbox) { // the server itself tells of what connections do
				t.Errorf("for the inbox %q something was sent to %q", inbox, m.Subject)
			}
		}
	})
}

// A manifest on the disk: what is taken for one is written back as it was.
func FuzzReadManifest(f *testing.F) {
	m := &Manifest{V: jobs.Version, User: "u", Batch: "b", Jobs: []ManifestEntry{{ID: fuzzID, CustomID: "c", SHA256: "00"}}}
	good, err := json.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, s := range []string{`{"v":2}`, `{"v":1,"v":1}`, `{"v":1,"jobs":null}`, `{"v":1,"jobs":[{"id":"../x"}]}`, `{"v":1e400}`, `{"v":1,"created_at":"99999-01-01T00:00:00Z"}`, ``, `[]`, "\xff"} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "manifest.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := ReadManifest(path)
		if err != nil {
			if e, ok := errors.AsType[*jobs.Error](err); !ok || e.Code != jobs.CodeInvalid || !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name the file, or is of code %s", err, jobs.CodeOf(err))
			}
			return
		}
		if len(first.IDs()) > len(data) {
			t.Errorf("%d bytes are read as %d jobs", len(data), len(first.Jobs))
		}
		if err := first.write(path); err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		second, err := ReadManifest(path)
		if diff := cmp.Diff(first, second); err != nil || len(first.Jobs) > 0 && diff != "" {
			t.Errorf("read again: %v\n%s", err, diff)
		}
	})
}

// A dead letter, which may hold anything: what is read of it can be shown, and is written again as it was.
func FuzzReadLetter(f *testing.F) {
	good, err := json.Marshal(DeadLetter{V: 1, Stage: jobs.StageDecode, Code: jobs.CodeInvalid, Message: "m", User: "u", Job: *testJob(jobs.Batch), Attempts: 1, Raw: []byte("\xff")})
	if err != nil {
		f.Fatal(err)
	}
	subject := protocol.DLQSubject(jobs.StageDecode, testModel, "u", fuzzID)
	f.Add(subject, good)
	for _, s := range []string{`{"raw":"not base64"}`, `{"job":{"v":2}}`, `{"job":{"v":1,"x":[]},"handover":{"state":{}}}`, `{"failed_at":"x"}`, `null`, `[]`, `{"attempts":1e400}`} {
		f.Add(subject, []byte(s))
	}
	f.Add("dlq.a.b", good)
	f.Add("dlq.decode.=0.u.x", good)
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		l, err := readLetter(&jetstream.RawStreamMsg{Subject: subject, Data: data})
		if err != nil {
			return
		}
		if strings.Count(subject, ".") != 4 || !strings.HasSuffix(subject, "."+l.JobID) {
			t.Errorf("%q is read as the letter of %q", subject, l.JobID)
		}
		again, err := json.Marshal(l.DeadLetter)
		if err != nil {
			t.Fatalf("a letter was read that cannot be shown: %v", err)
		}
		second, err := readLetter(&jetstream.RawStreamMsg{Subject: subject, Data: again})
		if err != nil {
			t.Fatalf("read what was written: %v\n%s", err, again)
		}
		if third, err := json.Marshal(second.DeadLetter); err != nil || !bytes.Equal(third, again) {
			t.Errorf("reading changed the letter (%v):\n%s\n%s", err, again, third)
		}
	})
}

// What a worker says of itself is read as far as it can be, and read alike again.
func FuzzPresence(f *testing.F) {
	good, err := json.Marshal(Presence{Worker: "w", Role: protocol.RoleDecode, Model: testModel, State: StateReady, Slots: 2, Rates: protocol.Rates{PrefillTokensPerSecond: 5}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, s := range []string{`{"slots":-1,"busy":1e18}`, `{"rates":{"prefill_by_length":{"x":1e308}}}`, `{"skew_seconds":1e400}`, `{"state":1}`, `null`, `{"fingerprint":{"model":"x","later":[1]}}`, `{"prefixes":{"a":9223372036854775807}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second Presence
		if json.Unmarshal(data, &first) != nil {
			return
		}
		again, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("a presence was read that cannot be shown: %v", err)
		}
		if err := json.Unmarshal(again, &second); err != nil {
			t.Fatalf("read what was written: %v\n%s", err, again)
		}
		if third, err := json.Marshal(second); err != nil || !bytes.Equal(third, again) {
			t.Errorf("reading changed the presence (%v):\n%s\n%s", err, again, third)
		}
		if first.Live() != second.Live() || inOrder(first, second) != 0 {
			t.Errorf("two readings of one presence differ: %s", again)
		}
	})
}
