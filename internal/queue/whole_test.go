package queue

import (
	"context"
	"slices"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// A prefill worker may do a whole request, after an attempt that failed too, and so may others after it.
func TestWholeRequestInThePrefillStage(t *testing.T) {
	t.Parallel()
	whole := func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
		task.Emit(jobs.Chunk{Text: "here"})
		o, err := answer(ctx, task)
		o.Result.Method, o.Result.Attempts = jobs.MethodLocal, jobs.Attempts{Prefill: task.Attempt}
		return o, err
	}
	for name, tt := range map[string]struct {
		prefill func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error)
		method  jobs.Method
		chunks  []int // attempts of the pieces of text
	}{
		"at once": {whole, jobs.MethodLocal, []int{1, 1}},
		"the second time": {func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			o, err := whole(ctx, task)
			if task.Attempt == 1 {
				err = jobs.Errorf(jobs.CodeEngineFailed, "failed")
			}
			return o, err
		}, jobs.MethodLocal, []int{1, 1, 2, 2}},
		"passed on the second time": {func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
			if task.Attempt > 1 {
				return passOn(ctx, task)
			}
			task.Emit(jobs.Chunk{Text: "here"})
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}, jobs.MethodDisaggregated, []int{1, 1, 2, 2}},
		"failed twice": {func(_ context.Context, task *protocol.Task) (protocol.Outcome, error) {
			task.Emit(jobs.Chunk{Text: "here"})
			return protocol.Outcome{}, jobs.Errorf(jobs.CodeEngineFailed, "failed")
		}, jobs.MethodFallback, []int{1, 1, 2, 2, 3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			prefill := r.startPrefill(1, tt.prefill)
			decode := r.start(protocol.RoleDecode, 1, func(ctx context.Context, task *protocol.Task) (protocol.Outcome, error) {
				task.Emit(jobs.Chunk{Text: "there"})
				return answer(ctx, task)
			})
			if decode.Decoding() != 0 {
				t.Error("a decode worker counts what is at decode")
			}
			j := testJob(jobs.Interactive, func(j *jobs.Job) { j.Stream = true })
			chunks := r.inbox("tokens.>")
			r.submit(j)
			res := r.results(j)[0]
			if res.Status != jobs.Succeeded || res.Method != tt.method {
				t.Errorf("%s, %s: %v", res.Status, res.Method, res.Error)
			}
			if times := res.Timings; tt.method == jobs.MethodLocal && (times.QueueDecodeSeconds != 0 || times.QueuePrefillSeconds <= 0) {
				t.Errorf("waited %v s for prefill and %v s for decode", times.QueuePrefillSeconds, times.QueueDecodeSeconds)
			}
			r.eventually("all pieces of text", func() bool { return len(chunks) >= len(tt.chunks) })
			var attempts []int
			for range tt.chunks {
				c, err := jobs.Decode[jobs.Chunk]((<-chunks).Data)
				if err != nil {
					t.Fatal(err)
				}
				attempts = append(attempts, c.Attempt)
			}
			if !slices.Equal(attempts, tt.chunks) || len(chunks) > 0 {
				t.Errorf("text of attempts %v and %d more, want %v", attempts, len(chunks), tt.chunks)
			}
			if n := prefill.Decoding(); n < 0 || n > 1 {
				t.Errorf("%d jobs at decode", n)
			}
		})
	}
}
