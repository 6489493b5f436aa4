package processes

import (
	"strings"
	"testing"

	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// A job that is cancelled, or whose deadline passes, while an engine is at it ends there: the engine's request is over, no other
// begins, and there is one record that says so.
func TestJobEndsInMidComputation(t *testing.T) {
	for _, where := range []jobs.Stage{jobs.StagePrefill, jobs.StageDecode, jobs.StageFallback} {
		for _, status := range []jobs.Status{jobs.Cancelled, jobs.Expired} {
			t.Run(string(where)+" "+string(status), func(t *testing.T) {
				t.Parallel()
				s := newSystem(t)
				p, d := s.engine(0), s.engine(0)
				if where != jobs.StageFallback {
					s.worker(protocol.RolePrefill, "prefill", p.URL())
				}
				s.worker(protocol.RoleDecode, "decode", d.URL())
				at := d
				if where == jobs.StagePrefill {
					at = p
				}
				at.Fail(ollamatest.HangMid, 1)

				args := []string{"submit", "--detach", "--model", model}
				if status == jobs.Expired {
					args = append(args, "--deadline", "15s") // for a busy machine to begin
				}
				id := strings.TrimSpace(s.call(0, append(args, "x <- mean(df$price)")...).stdout.String())
				s.running(at)
				before := [2]int{p.Calls(), d.Calls()}
				if status == jobs.Cancelled {
					s.call(0, "cancel", id)
					if n := at.Running(); n != 0 {
						t.Errorf("%d requests are at the engine after the cancel was acknowledged", n)
					}
				}
				ended := s.submitter("await", "--json", "--timeout", limit.String(), id)
				ended.exits(1)
				if r := ended.failedResult(); r.Status != status || r.JobID != id {
					t.Errorf("job %s: %s, want %s", r.JobID, r.Status, status)
				}
				if err := at.WaitRunning(s.ctx, 0); err != nil {
					t.Errorf("the engine's request goes on: %v", err)
				}
				s.once(1)
				if after := [2]int{p.Calls(), d.Calls()}; after != before {
					t.Errorf("the engines were asked %v times, and %v before the job ended", after, before)
				}
				if now, _ := s.stored("DLQ"); now != 0 {
					t.Errorf("%d dead letters", now)
				}
			})
		}
	}
}
