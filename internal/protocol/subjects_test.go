package protocol

import (
	"strings"
	"testing"

	"tandem/jobs"
)

const testID = "01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"

func TestSubjects(t *testing.T) {
	hf := "hf.co/unsloth/Qwen3-GGUF:Q4_K_M"
	for got, want := range map[string]string{
		JobSubject(jobs.StagePrefill, "qwen3-coder:30b", jobs.Interactive, "ada l.", testID): "jobs.prefill.qwen3-coder:30b.interactive.ada=20l~." + testID,
		JobFilter(jobs.StagePrefill, "m", Lane(3)):                                           "jobs.prefill.m.batch-3.*.*",
		AnyJobFilter(jobs.StagePrefill, "", testID):                                          "jobs.prefill.*.*.*." + testID,
		JobSubject(jobs.StageFallback, hf, jobs.Batch, "ada", testID):                        "jobs.fallback.hf~co+unsloth+Qwen3-GGUF:Q4_K_M.batch.ada." + testID,
		JobFilter(jobs.StageDecode, hf, jobs.Batch):                                          "jobs.decode.hf~co+unsloth+Qwen3-GGUF:Q4_K_M.batch.*.*",
		AnyJobFilter(jobs.StageDecode, "", testID):                                           "jobs.decode.*.*.*." + testID,
		AnyJobFilter("*", "ada l.", testID):                                                  "jobs.*.*.*.ada=20l~." + testID,
		ResultSubject("ada l.", "hw/1", testID):                                              "results.ada=20l~.hw+1." + testID,
		BatchResults("ada", "single"):                                                        "results.ada.single.*",
		TokensSubject("ada", "single", testID):                                               "tokens.ada.single." + testID,
		DLQSubject(jobs.StageDecode, hf, "ada", testID):                                      "dlq.decode.hf~co+unsloth+Qwen3-GGUF:Q4_K_M.ada." + testID,
		DLQSubject(jobs.StageDecode, "m", "", testID):                                        "dlq.decode.m.=." + testID,
		AnyLetterFilter("ada l.", testID):                                                    "dlq.*.*.ada=20l~." + testID,
		AnyLetterFilter("", testID):                                                          "dlq.*.*.*." + testID,
		CancelSubject("ada l.", testID):                                                      "ctl.cancel.ada=20l~." + testID,
		ConsumerName(RoleDecode, "a_b.c", jobs.Batch):                                        "decode_a_b~c_batch",
	} {
		if got != want {
			t.Errorf("subject is %s, want %s", got, want)
		}
	}
}

func TestParseJobSubject(t *testing.T) {
	for _, want := range []Address{
		{jobs.StagePrefill, "qwen3-coder:30b", jobs.Interactive, 0, "ada l.", testID},
		{jobs.StagePrefill, "m", jobs.Batch, 0, "*", testID},
		{jobs.StagePrefill, "m", jobs.Batch, 7, "ü", testID},
		{jobs.StageDecode, "hf.co/unsloth/Qwen3-GGUF:Q4_K_M", jobs.Batch, 0, "m", testID},
		{jobs.StageFallback, "m", jobs.Batch, 0, "m", testID},
	} {
		subject := JobSubject(want.Stage, want.Model, want.Token(), want.User, want.JobID)
		got, err := ParseJobSubject(subject)
		if err != nil || got != want {
			t.Errorf("ParseJobSubject = %+v, %v; want %+v", got, err, want)
		}
	}
	for _, subject := range []string{
		"", "jobs", "jobs.prefill.m.batch", "jobs.prefill.m.batch.ada." + testID + ".x", "jobz.prefill.m.batch.ada." + testID,
		"jobs.sleep.m.batch.ada." + testID, "jobs.prefill..batch.ada." + testID, "jobs.prefill.m.urgent.ada." + testID,
		"jobs.prefill.=4.batch.ada." + testID, "jobs.prefill.m.batch.ada.x", "jobs.prefill.m.batch." + testID, "jobs.prefill.m.batch.." + testID, "jobs.decode.m.batch." + testID, "jobs.prefill.m.batch.ada." + strings.ToUpper(testID),
		"jobs.prefill.m.batch-0.ada." + testID, "jobs.prefill.m.batch-8.ada." + testID, "jobs.prefill.m.batch-03.ada." + testID, "jobs.prefill.m.batch-.ada." + testID,
		"jobs.prefill.m.interactive-1.ada." + testID, "jobs.decode.m.batch-1.ada." + testID, "jobs.fallback.m.batch-1.ada." + testID,
	} {
		if got, err := ParseJobSubject(subject); err == nil {
			t.Errorf("ParseJobSubject(%q) = %+v, want an error", subject, got)
		}
	}
}

func TestModelOfConsumer(t *testing.T) {
	for _, want := range []string{"qwen3-coder:30b", "a_b_c:latest", "hf.co/x_y/z:Q4_K_M", "batch"} {
		for _, class := range Tokens(RolePrefill) {
			role, model, gotClass, ok := ModelOfConsumer(ConsumerName(RolePrefill, want, class))
			if !ok || role != RolePrefill || model != want || gotClass != class {
				t.Errorf("ModelOfConsumer = %s, %s, %s, %t; want %s, %s, %s, true", role, model, gotClass, ok, RolePrefill, want, class)
			}
		}
	}
	for _, name := range []string{"", "prefill", "prefill_m", "prefill__batch", "fallback_m_batch", "decode_m_urgent", "decode_=4_batch", "decode_m_batch-1", "prefill_m_batch-8", "other"} {
		if role, model, class, ok := ModelOfConsumer(name); ok {
			t.Errorf("ModelOfConsumer(%q) = %s, %s, %s; want a refusal", name, role, model, class)
		}
	}
}
