package queue

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// An inbox longer than a line of the protocol would end the connection that it is sent on, and with it the signs of life of
// all jobs of the worker.
func TestLongInbox(t *testing.T) {
	r := newRig(t)
	r.copyToInbox("_INBOX."+strings.Repeat("x", 10_000), []byte("{}"))
	if err := r.nc.FlushTimeout(enough); err != nil {
		t.Error(err)
	}
	if n := r.nc.Stats().Reconnects; n != 0 || !r.nc.IsConnected() {
		t.Errorf("the connection was lost (%d reconnects): %v", n, r.nc.LastError())
	}
}

// A record that is none goes to the dead letters, whatever it says of its owner: else it would be delivered for ever.
func TestUnreadableRecordsAreDeadLettered(t *testing.T) {
	for name, body := range map[string]string{
		"rubbish":                    "\xff\x00",
		"a large user":               `{"user":"` + strings.Repeat("u", 5<<20) + `"}`,
		"a user that grows":          `{"user":"` + strings.Repeat("\u2028", 1800<<10) + `","batch":"b"}`,
		"a user and a batch":         `{"user":"` + strings.Repeat("u", 3<<20) + `","batch":"` + strings.Repeat("b", 3<<20) + `"}`,
		"a class that grows":         `{"v":1,"id":"x","user":"u","batch":"b","class":"` + strings.Repeat("\x7f", 5<<20) + `"}`,
		"a user with a header break": `{"user":"a\r\nNats-Msg-Id: x","batch":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			j := testJob(jobs.Batch)
			subject := protocol.SubjectOf(j, jobs.StageDecode)
			if _, err := r.js.Publish(t.Context(), subject, []byte(body), jetstream.WithMsgID(messageID(j, jobs.StageDecode))); err != nil {
				t.Fatal(err)
			}
			sub, err := r.nc.SubscribeSync(protocol.SubjectDLQ)
			if err != nil {
				t.Fatal(err)
			}
			r.start(protocol.RoleDecode, 1, answer)
			msg, err := sub.NextMsg(enough)
			if err != nil {
				t.Fatalf("no dead letter: %v", err)
			}
			l, err := readLetter(&jetstream.RawStreamMsg{Subject: msg.Subject, Data: msg.Data})
			if err != nil || l.JobID != j.ID || l.Code != jobs.CodeInvalid || len(l.Message) > 2000 || len(l.User)+len(l.Batch) > 4*jobs.MaxName {
				t.Errorf("the letter is of job %s, code %s, with a message of %d and an owner of %d bytes (%v)", l.JobID, l.Code, len(l.Message), len(l.User)+len(l.Batch), err)
			}
		})
	}
}

// A job that names another user than its subject does is not run, and of the other user nothing appears: rights are given by the subject. Nor is one in another
// user's lane.
func TestJobInAnothersName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine, lane, good := testJob(jobs.Batch), testJob(jobs.Batch), testJob(jobs.Batch)
	r.publish(protocol.JobSubject(jobs.StagePrefill, mine.Model, jobs.Batch, "mallory", mine.ID), "1", mine)
	r.publish(protocol.JobSubject(jobs.StagePrefill, lane.Model, protocol.Lane(1+protocol.LaneOf(lane.User)%(protocol.Lanes-1)), lane.User, lane.ID), "2", lane)
	r.submit(good)
	var done book
	r.start(protocol.RolePrefill, 1, done.note(passOn))
	r.start(protocol.RoleDecode, 1, answer)
	r.eventually("each has a result", func() bool { return r.waiting(StreamResults) == 3 })
	for id, user := range map[string]string{mine.ID: "mallory", lane.ID: lane.User} {
		msg := r.letter(jobs.StagePrefill, id)
		l, err := readLetter(&jetstream.RawStreamMsg{Subject: msg.Subject, Data: msg.Data})
		if err != nil || l.User != user || l.Code != jobs.CodeInvalid || !strings.Contains(l.Message, "its subject is of user "+strconv.Quote(user)) {
			t.Errorf("letter %+v, %v", l, err)
		}
	}
	done.once(t, jobs.StagePrefill, []*jobs.Job{good})
	if m, err := r.lastMsg(t.Context(), StreamResults, protocol.ResultSubject(mine.User, mine.Batch, mine.ID)); err != nil || m != nil {
		t.Errorf("a result of the user in whose name it came: %v, %v", m, err)
	}
}

// A reply subject that is no inbox is refused before anything is published; and a worker uses none either, when a client of
// another make sent it.
func TestReplySubjectsThatAreNone(t *testing.T) {
	r := newRig(t)
	client := NewClient(r.Conn, "user")
	seen, err := r.nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"results.user.batch.x", "_INBOX", "_inbox.x", "_INBOX.>", "_INBOX.*", "_INBOX.a b", "_INBOX.a\r\nX: y", "$JS.API.STREAM.DELETE.INTAKE"} {
		j := testJob(jobs.Batch)
		err := client.Submit(t.Context(), j, SubmitOptions{ReplyTo: to})
		if jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("reply_to is %q; want an inbox", to)) {
			t.Errorf("%q: %v", to, err)
		}
		r.copyToInbox(to, []byte(`"copy"`))
	}
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		msg, err := seen.NextMsg(time.Millisecond)
		if err != nil {
			if err != nats.ErrTimeout {
				t.Fatal(err)
			}
			return
		}
		if string(msg.Data) == `"copy"` || strings.HasPrefix(msg.Subject, "jobs.") {
			t.Errorf("something was published on %q", msg.Subject)
		}
	}
}
