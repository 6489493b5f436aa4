package protocol

import (
	"strings"
	"testing"
	"unicode"

	"tandem/jobs"
)

// A subject that is read as a job's is the one that the job is published on, and no other: a worker that trusts it
// reaches no other stream.
func FuzzParseJobSubject(f *testing.F) {
	id := testID
	for _, s := range []string{
		JobSubject(jobs.StagePrefill, "hf.co/unsloth/Qwen3-GGUF:Q4_K_M", jobs.Batch, "a. b", id), JobSubject(jobs.StageFallback, "=>*", jobs.Interactive, "u", id),
		"jobs.decode.m.batch.u." + id, "jobs.decode.m.batch." + id, "jobs.prefill.m.batch-3.u." + id, "jobs.decode.m.batch-3.u." + id, "jobs.prefill.m.batch-+3.u." + id, "jobs.prefill.*.batch.u." + id, "jobs.prefill.m.>", "jobs.prefill..batch.u." + id, "dlq.prefill.m." + id, "jobs.prefill.=0.batch.u.x", "jobs.prefill.m.batch.*." + id, "jobs.prefill.m.batch.u." + strings.ToUpper(id),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		a, err := ParseJobSubject(subject)
		if err != nil {
			if said := err.Error(); len(said) > 1800 || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("the refusal has %d bytes: %.200q", len(said), said)
			}
			return
		}
		again := JobSubject(a.Stage, a.Model, a.Token(), a.User, a.JobID)
		if again != subject {
			t.Errorf("%q is read as %+v, whose subject is %q", subject, a, again)
		}
		if strings.ContainsAny(subject, "*> \t\r\n\x00") {
			t.Errorf("%q is taken for one job's subject", subject)
		}
	})
}

// A consumer's name that is taken for ours is the one that we would give.
func FuzzModelOfConsumer(f *testing.F) {
	for _, s := range []string{"prefill_m:latest_batch", "prefill_m:latest_batch-7", "decode_a_b:1_interactive", "decode__batch", "fallback_m_batch", "prefill_=1B[31m_batch", "prefill_m", "_", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		role, model, class, ok := ModelOfConsumer(name)
		if ok && ConsumerName(role, model, class) != name {
			t.Errorf("%q is read as %s, %q, %s, whose name is %q", name, role, model, class, ConsumerName(role, model, class))
		}
	})
}
