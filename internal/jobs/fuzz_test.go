package jobs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
)

func FuzzDecodeJob(f *testing.F)      { fuzzDecode[Job](f, "job.v1.json") }
func FuzzDecodeHandover(f *testing.F) { fuzzDecode[Handover](f, "handover.v1.json") }
func FuzzDecodeResult(f *testing.F)   { fuzzDecode[Result](f, "result.v1.json") }
func FuzzDecodeChunk(f *testing.F)    { fuzzDecode[Chunk](f, "chunk.v1.json") }

// What was decoded can be encoded, and from the second time on nothing changes any more.
func fuzzDecode[T any, P interface {
	*T
	record
	open
}](f *testing.F, file string) {
	full := golden(f, file)
	f.Add(full)
	f.Add(bytes.ReplaceAll(full, []byte(`"newer"`), []byte(`"Text"`)))
	f.Add(bytes.ReplaceAll(full, []byte(`1`), []byte(`null`)))
	f.Add(bytes.ReplaceAll(full, []byte(`"newer":`), []byte(`"\u006eewer":`)))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := Decode[T, P](data)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		once, err := Encode(P(first))
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		second, err := Decode[T, P](once)
		if err != nil {
			t.Fatalf("decode what was encoded: %v\n%s", err, once)
		}
		twice, err := Encode(P(second))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once, twice) {
			t.Errorf("a second hop changed the record:\n%s\n%s", once, twice)
		}
	})
}

// longestRefusal is more than any message needs that cuts what it quotes.
const longestRefusal = 600

// checkRefusal: who refuses a record says so in a few printable words, whatever the record holds.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeInvalid || Classify(err) != Permanent {
		t.Errorf("%v is of code %s and class %s; want %s and %s", err, CodeOf(err), Classify(err), CodeInvalid, Permanent)
	}
	said := err.Error()
	if len(said) > longestRefusal {
		t.Errorf("the refusal has %d bytes: %.200s", len(said), said)
	}
	if strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the refusal %q cannot be printed", said)
	}
}

// A subject that is read as a job's is the one that the job is published on, and no other: a worker that trusts it
// reaches no other stream.
func FuzzParseJobSubject(f *testing.F) {
	id := "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"
	for _, s := range []string{
		JobSubject(StagePrefill, "hf.co/unsloth/Qwen3-GGUF:Q4_K_M", Batch, "a. b", id), JobSubject(StageFallback, "=>*", Interactive, "u", id),
		"jobs.decode.m.batch.u." + id, "jobs.decode.m.batch." + id, "jobs.prefill.m.batch-3.u." + id, "jobs.decode.m.batch-3.u." + id, "jobs.prefill.m.batch-+3.u." + id, "jobs.prefill.*.batch.u." + id, "jobs.prefill.m.>", "jobs.prefill..batch.u." + id, "dlq.prefill.m." + id, "jobs.prefill.=0.batch.u.x", "jobs.prefill.m.batch.*." + id, "jobs.prefill.m.batch.u." + strings.ToUpper(id),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		a, err := ParseJobSubject(subject)
		if err != nil {
			if said := err.Error(); len(said) > 3*longestRefusal || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
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
