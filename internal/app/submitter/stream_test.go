package submitter

import (
	"bytes"
	"testing"

	"tandem/jobs"
)

func TestStream(t *testing.T) {
	piece := func(attempt, seq int, text string) *jobs.Chunk {
		return &jobs.Chunk{V: jobs.Version, Attempt: attempt, Seq: seq, Text: text}
	}
	for _, tt := range []struct {
		name        string
		chunks      []*jobs.Chunk
		text        string
		status      jobs.Status
		out, stderr string
	}{
		{"whole", []*jobs.Chunk{piece(1, 0, "a "), piece(1, 1, "b")}, "a b", jobs.Succeeded, "a b\n", ""},
		{"ends with a line feed", []*jobs.Chunk{piece(1, 0, "a\n")}, "a\n", jobs.Succeeded, "a\n", ""},
		{"nothing came", nil, "a b", jobs.Succeeded, "a b\n", ""},
		{"the end is lost", []*jobs.Chunk{piece(1, 0, "a ")}, "a b", jobs.Succeeded, "a b\n", ""},
		{"the middle is lost", []*jobs.Chunk{piece(1, 0, "a "), piece(1, 2, "c")}, "a b c", jobs.Succeeded,
			"a c\na b c\n", "pieces were lost on the way; the whole text:\n"},
		{"run again", []*jobs.Chunk{piece(1, 0, "a "), piece(2, 0, "a "), piece(2, 1, "b")}, "a b", jobs.Succeeded,
			"a \na b\n", "the job is run again, its text begins anew:\n"},
		{"failed", []*jobs.Chunk{piece(1, 0, "a ")}, "", jobs.Failed, "a \n", ""},
		{"thinks", []*jobs.Chunk{{V: 1, Attempt: 1, Thinking: "hm"}, {V: 1, Attempt: 1, Thinking: "hm"}, piece(1, 2, "a")}, "a", jobs.Succeeded,
			"a\n", "thinking …\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			o := &stream{session: &session{out: &out, err: &stderr}}
			for _, c := range tt.chunks {
				o.chunk(c)
			}
			if err := o.finish(&jobs.Result{Status: tt.status, Text: tt.text}); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.out || stderr.String() != tt.stderr {
				t.Errorf("stdout %q, stderr %q; want %q and %q", out.String(), stderr.String(), tt.out, tt.stderr)
			}
		})
	}
}
