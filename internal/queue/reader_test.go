package queue

import (
	"testing"

	"tandem/internal/jobs"
)

// The last message may be lost without another that would show the gap.
func TestReaderMissesTheLastMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := input(3)
	r.finish(list...)
	read := &reader{c: r.Conn, stream: StreamResults, filter: jobs.SubjectResults}
	defer read.close()
	for i := range list {
		if i == 1 { // whatever the server delivers from now on, this reader has not seen
			read.close()
			if err := read.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := read.messages.Next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		msg, err := read.next(t.Context(), enough)
		if err != nil || msg == nil {
			t.Fatalf("message %d: %v, %v", i, msg, err)
		}
		if want := jobs.ResultSubject(list[i].User, list[i].Batch, list[i].ID); msg.Subject() != want {
			t.Errorf("message %d is %s, want %s", i, msg.Subject(), want)
		}
	}
}
