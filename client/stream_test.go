package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"tandem/jobs"
)

// Whatever is lost or repeated on the way, the texts since the last restart make up the result's.
func TestAssembly(t *testing.T) {
	piece := func(attempt, seq int, text string) *jobs.Chunk {
		return &jobs.Chunk{V: jobs.Version, Attempt: attempt, Seq: seq, Text: text, Logprobs: []jobs.TokenLogprob{{Token: text}}}
	}
	for _, tt := range []struct {
		name     string
		chunks   []*jobs.Chunk
		text     string
		restarts int
	}{
		{"whole", []*jobs.Chunk{piece(1, 0, "a "), piece(1, 1, "b")}, "a b", 0},
		{"nothing came", nil, "a b", 0},
		{"the beginning is lost", []*jobs.Chunk{piece(1, 1, "b")}, "a b", 0},
		{"the middle is lost", []*jobs.Chunk{piece(1, 0, "a "), piece(1, 2, "c")}, "a b c", 0},
		{"the end is lost", []*jobs.Chunk{piece(1, 0, "a ")}, "a b", 0},
		{"run again", []*jobs.Chunk{piece(1, 0, "x "), piece(2, 0, "a "), piece(2, 1, "b")}, "a b", 1},
		{"run again at once", []*jobs.Chunk{piece(2, 0, "a "), piece(2, 1, "b")}, "a b", 0},
		{"the earlier worker goes on", []*jobs.Chunk{piece(1, 0, "x "), piece(2, 0, "a "), piece(1, 1, "y"), piece(2, 1, "b")}, "a b", 1},
		{"run again, of which nothing came", []*jobs.Chunk{piece(1, 0, "x ")}, "a b", 1},
		{"thinks", []*jobs.Chunk{{V: 1, Attempt: 1, Thinking: "hm"}, piece(1, 1, "a")}, "a", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a assembly
			var text, tokens strings.Builder
			restarts := 0
			take := func(p Piece) {
				if p.Restart {
					restarts++
					text.Reset()
					tokens.Reset()
				}
				text.WriteString(p.Text)
				for _, t := range p.Logprobs {
					tokens.WriteString(t.Token)
				}
			}
			for _, c := range tt.chunks {
				take(a.add(c))
			}
			r := &jobs.Result{Status: jobs.Succeeded, Text: tt.text}
			for token := range strings.SplitAfterSeq(tt.text, " ") {
				r.Logprobs = append(r.Logprobs, jobs.TokenLogprob{Token: token})
			}
			if tt.name == "thinks" {
				r.Thinking = "hm"
			}
			last := a.finish(r)
			take(last)
			if text.String() != tt.text || tokens.String() != tt.text || restarts != tt.restarts || last.Result != r {
				t.Errorf("text %q, tokens %q with %d restarts, want %q with %d", text.String(), tokens.String(), restarts, tt.text, tt.restarts)
			}
		})
	}
}

func TestStreamOfCalls(t *testing.T) {
	calls := jobs.WithIDs(jobs.NewID(), 0, []jobs.ToolCall{{Name: "add", Arguments: json.RawMessage(`{"a":2}`)}, {Name: "mean", Arguments: json.RawMessage(`{}`)}})
	piece := func(attempt, seq int, calls ...jobs.ToolCall) *jobs.Chunk {
		return &jobs.Chunk{Attempt: attempt, Seq: seq, ToolCalls: calls}
	}
	for name, tt := range map[string]struct {
		chunks   []*jobs.Chunk
		restarts int
	}{
		"whole":             {[]*jobs.Chunk{piece(1, 0, calls[0]), piece(1, 1, calls[1])}, 0},
		"the end is lost":   {[]*jobs.Chunk{piece(1, 0, calls[0])}, 0},
		"all is lost":       {nil, 0},
		"run again":         {[]*jobs.Chunk{piece(1, 0, calls[1]), piece(2, 0, calls...)}, 1},
		"another was there": {[]*jobs.Chunk{piece(1, 0, calls[1])}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var a assembly
			var got []jobs.ToolCall
			restarts := 0
			take := func(p Piece) {
				if p.Restart {
					restarts++
					got = nil
				}
				got = append(got, p.ToolCalls...)
			}
			for _, c := range tt.chunks {
				take(a.add(c))
			}
			take(a.finish(&jobs.Result{Status: jobs.Succeeded, ToolCalls: calls}))
			if !reflect.DeepEqual(got, calls) || restarts != tt.restarts {
				t.Errorf("calls %s with %d restarts, want %s with %d", got, restarts, calls, tt.restarts)
			}
		})
	}
}

func TestFailedJobHasNoMoreText(t *testing.T) {
	var a assembly
	a.add(&jobs.Chunk{Attempt: 1, Text: "half"})
	if p := a.finish(&jobs.Result{Status: jobs.Failed}); p.Restart || p.Text != "" {
		t.Errorf("the last piece is %+v, want nothing but the result", p)
	}
}
