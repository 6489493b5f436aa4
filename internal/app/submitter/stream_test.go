package submitter

import (
	"bytes"
	"testing"

	"tandem/client"
	"tandem/jobs"
)

func TestStream(t *testing.T) {
	text := func(s string) client.Piece {
		return client.Piece{Text: s, Chunk: &jobs.Chunk{V: jobs.Version, Text: s}}
	}
	end := func(rest string) client.Piece {
		return client.Piece{Text: rest, Result: &jobs.Result{Status: jobs.Succeeded}}
	}
	for _, tt := range []struct {
		name        string
		pieces      []client.Piece
		out, stderr string
	}{
		{"whole", []client.Piece{text("a "), text("b"), end("")}, "a b\n", ""},
		{"ends with a line feed", []client.Piece{text("a\n"), end("")}, "a\n", ""},
		{"nothing came", []client.Piece{end("a b")}, "a b\n", ""},
		{"run again", []client.Piece{text("a "), {Restart: true, Text: "a "}, text("b"), end("")}, "a \na b\n", "the job is run again, its text begins anew:\n"},
		{"of another attempt", []client.Piece{text("c"), {Restart: true, Text: "a", Result: &jobs.Result{}}}, "c\na\n", "pieces were lost on the way; the whole text:\n"},
		{"failed", []client.Piece{text("a "), {Result: &jobs.Result{Status: jobs.Failed}}}, "a \n", ""},
		{"thinks", []client.Piece{{Thinking: "hm"}, {Thinking: "hm"}, text("a"), end("")}, "a\n", "thinking …\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			o := &stream{session: &session{out: &out, err: &stderr}}
			for _, p := range tt.pieces {
				o.piece(p)
			}
			if o.err != nil {
				t.Fatal(o.err)
			}
			if out.String() != tt.out || stderr.String() != tt.stderr {
				t.Errorf("stdout %q, stderr %q; want %q and %q", out.String(), stderr.String(), tt.out, tt.stderr)
			}
		})
	}
}
