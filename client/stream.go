package client

import (
	"context"
	"iter"
	"reflect"
	"strings"
	"sync"

	"tandem/internal/queue"
	"tandem/jobs"
)

// Piece is a part of what [Client.Stream] yields.
type Piece struct {
	// Restart says that the job begins again, on another machine for example: all text before is void, and that of this piece comes first.
	Restart bool

	Text      string          // to append to the text
	Thinking  string          // to append to the reasoning of a model that thinks
	ToolCalls []jobs.ToolCall // to append to the functions that the model wants called

	Logprobs []jobs.TokenLogprob // to append to the logprobs, of a job that asks for them

	Chunk  *jobs.Chunk  // the piece as it came, nil of one that is made of the result
	Result *jobs.Result // of the last piece: how the job ended
}

// Stream submits a job and yields its text while it is generated. The last piece has the result, and the texts since the last restart make up the whole text of a
// job that succeeded: pieces may be lost on the way, the result is not, and has what they lacked. An error is the last thing yielded; it
// is as of [Client.Submit] and [Client.Await].
//
// Whoever breaks off leaves the job alone, which lives on; see [Client.Cancel].
func (c *Client) Stream(ctx context.Context, j *jobs.Job) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		j.Stream = true
		if err := c.complete(j); err != nil {
			yield(Piece{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		tokens, err := c.q.Tokens(ctx, j.Batch, j.ID) // before the job is there, so that no piece is missed
		if err != nil {
			yield(Piece{}, err)
			return
		}
		var r *jobs.Result
		var running sync.WaitGroup
		running.Go(func() {
			r, err = c.q.Run(ctx, j, queue.SubmitOptions{})
			tokens.Close() // which loses nothing: the text was published before the result
		})
		defer running.Wait()
		defer cancel()
		var text assembly
		for chunk := range tokens.Chunks(ctx) {
			if !yield(text.add(chunk), nil) {
				return
			}
		}
		if running.Wait(); err != nil {
			yield(Piece{}, err)
			return
		}
		yield(text.finish(r), nil)
	}
}

// assembly puts the text of a job together.
type assembly struct {
	attempt  int // of the job's stage that writes
	next     int // the number of its next piece
	torn     bool
	text     strings.Builder // since the last restart
	thinking strings.Builder
	calls    []jobs.ToolCall
	logprobs int
}

// add returns what is new of a chunk. After one that was lost nothing is, until the result fills the gap.
func (a *assembly) add(c *jobs.Chunk) Piece {
	p := Piece{Chunk: c}
	switch {
	case c.Attempt < a.attempt:
		return p // of a worker that does not know yet that the job is another's
	case c.Attempt > a.attempt:
		p.Restart = a.text.Len()+a.thinking.Len()+len(a.calls) > 0
		*a = assembly{attempt: c.Attempt}
	}
	if a.torn = a.torn || c.Seq != a.next; !a.torn {
		a.next++
		p.Text, p.Thinking, p.ToolCalls, p.Logprobs = c.Text, c.Thinking, c.ToolCalls, c.Logprobs
		a.text.WriteString(c.Text)
		a.thinking.WriteString(c.Thinking)
		a.calls = append(a.calls, c.ToolCalls...)
		a.logprobs += len(c.Logprobs)
	}
	return p
}

// finish returns what the chunks lacked.
func (a *assembly) finish(r *jobs.Result) Piece {
	p := Piece{Result: r}
	if r.Status != jobs.Succeeded {
		return p
	}
	text, whole := strings.CutPrefix(r.Text, a.text.String())
	thinking, also := strings.CutPrefix(r.Thinking, a.thinking.String())
	n := len(a.calls)
	if whole && also && a.logprobs <= len(r.Logprobs) && n <= len(r.ToolCalls) && (n == 0 || reflect.DeepEqual(a.calls, r.ToolCalls[:n])) {
		p.Text, p.Thinking, p.ToolCalls, p.Logprobs = text, thinking, r.ToolCalls[n:], r.Logprobs[a.logprobs:]
		return p
	}
	p.Restart, p.Text, p.Thinking, p.ToolCalls, p.Logprobs = true, r.Text, r.Thinking, r.ToolCalls, r.Logprobs // of another attempt, of which nothing came
	return p
}
