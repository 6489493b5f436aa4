package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// Each row breaks one rule; the message must say where and, where there is one, what to do.
func TestDecodeRefuses(t *testing.T) {
	id := `"01936f2a-5b7c-7d3e-8f90-a1b2c3d4e5f6"`
	tests := []struct {
		name string
		data string
		want string
	}{
		{"nothing", ``, "ends too early"},
		{"no object", `[1]`, "no JSON object"},
		{"null", `null`, "no JSON object"},
		{"no version", `{"id":` + id + `}`, "v is missing"},
		{"version null", `{"v":null}`, "v is missing"},
		{"version 2, other fields", `{"v":2,"id":{"new":true}}`, "v is 2; this program reads version 1: upgrade"},
		{"version as text", `{"v":"1"}`, `v is "1"`},
		{"version as fraction", `{"v":1.0}`, "v is 1.0"},
		{"huge version", `{"v":` + strings.Repeat("9", 1000) + `}`, "v is 99999999999999999999;"},
		{"duplicate", `{"v":1,"v":1}`, `duplicate key "v"`},
		{"duplicate, escaped", `{"v":1,"\u0076":1}`, `duplicate key "v"`},
		{"trailing data", `{"v":1} {}`, "data after the end"},
		{"invalid UTF-8", "{\"v\":1,\"prompt\":\"\xff\"}", "invalid UTF-8 at byte 17"},
		{"lone surrogate", `{"v":1,"prompt":"\ud83d"}`, "half a surrogate pair"},
		{"deep", `{"v":1,"new":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, "nested too deep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode[Job]([]byte(tt.data))
			wantInvalid(t, err, tt.want)
		})
	}
}

func TestDecodeNamesTheField(t *testing.T) {
	tests := []struct {
		file, path, value string
		want              string
	}{
		{"job", "prompt", `5`, "prompt is a JSON number; want a string"},
		{"job", "stream", `"yes"`, "stream is a JSON string; want true or false"},
		{"job", "shared_prefix", `1.5`, "shared_prefix is a JSON number 1.5; want a whole number"},
		{"job", "shared_prefix", `1e1`, "shared_prefix is a JSON number 1e1; want a whole number"},
		{"job", "messages", `{}`, "messages is a JSON object; want an array"},
		{"job", "messages", `[1]`, "messages is a JSON number; want an object"},
		{"job", "messages", `[{"role":"user","content":1}]`, "messages.content is a JSON number; want a string"},
		{"job", "options", `[]`, "options is a JSON array; want an object"},
		{"job", "options.seed", `9223372036854775808`, "options.seed is a JSON number 9223372036854775808; want a whole number of 64 bits"},
		{"job", "options.temperature", `1e999`, "options.temperature is a JSON number 1e999; want a number"},
		{"job", "options.temperature", `"hot"`, "options.temperature is a JSON string; want a number"},
		{"job", "options.stop", `"END"`, "options.stop is a JSON string; want an array"},
		{"job", "options.stop", `[1]`, "options.stop is a JSON number; want a string"},
		{"job", "options.Seed", `1`, `options.Seed is unknown; did you mean "seed"?`},
		{"job", "Prompt", `"x"`, `Prompt is unknown; did you mean "prompt"?`},
		{"job", "ſystem", `"x"`, `ſystem is unknown; did you mean "system"?`}, // encoding/json would take the long s for an s
		{"job", "labels", `{"a":1}`, "labels is a JSON number; want a string"},
		{"job", "deadline", `"tomorrow"`, `deadline cannot be read; want a time such as "2006-01-02T15:04:05Z07:00"`},
		{"job", "deadline", `5`, "deadline cannot be read; want a time"},
		{"handover", "job.prompt", `[]`, "job.prompt is a JSON array; want a string"},
		{"handover", "job.options.top_k", `"a"`, "job.options.top_k is a JSON string; want a whole number"},
		{"handover", "job.v", `2`, "job: v is 2"},
		{"handover", "job", `null`, "job: v is 0"},
		{"handover", "prefill.seconds", `true`, "prefill.seconds is a JSON bool; want a number"},
		{"handover", "context", `["a"]`, "context is a JSON string; want a whole number"},
		{"result", "usage.Prompt_Tokens", `1`, `usage.Prompt_Tokens is unknown; did you mean "prompt_tokens"?`},
		{"result", "error.code", `1`, "error.code is a JSON number; want a string"},
		{"chunk", "seq", `"0"`, "seq is a JSON string; want a whole number"},
	}
	decode := map[string]func([]byte) error{
		"job":      func(b []byte) error { _, err := Decode[Job](b); return err },
		"handover": func(b []byte) error { _, err := Decode[Handover](b); return err },
		"result":   func(b []byte) error { _, err := Decode[Result](b); return err },
		"chunk":    func(b []byte) error { _, err := Decode[Chunk](b); return err },
	}
	for _, tt := range tests {
		t.Run(tt.file+" "+tt.path+" "+tt.value, func(t *testing.T) {
			data := change(t, tt.file+".v1.json", strings.Split(tt.path, "."), tt.value)
			wantInvalid(t, decode[tt.file](data), tt.want)
		})
	}
}

// null counts as absent, as encoding/json has it, also where the raw JSON is kept.
func TestNullIsAbsent(t *testing.T) {
	for _, field := range []string{"system", "format", "think", "options", "plan", "labels", "deadline", "replay_of", "custom_id"} {
		j, err := Decode[Job](change(t, "job.v1.json", []string{field}, `null`))
		if err != nil {
			t.Errorf("%s null: %v", field, err)
			continue
		}
		data, err := Encode(j)
		if err != nil {
			t.Errorf("%s null: %v", field, err)
		}
		if strings.Contains(string(data), `"`+field+`":`) {
			t.Errorf("%s null was written again", field)
		}
	}
}

// Big numbers are not rounded through a float.
func TestBigIntegersAreExact(t *testing.T) {
	for _, seed := range []int64{math.MinInt64, 1<<53 + 1, math.MaxInt64} {
		j, err := Decode[Job](change(t, "job.v1.json", []string{"options", "seed"}, fmt.Sprint(seed)))
		if err != nil {
			t.Fatal(err)
		}
		if *j.Options.Seed != seed {
			t.Errorf("seed = %d, want %d", *j.Options.Seed, seed)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	big := validJob()
	big.Prompt = strings.Repeat("\x01", MaxBody/2) // six bytes each as JSON
	twice := validJob()
	twice.Extra = Extra{"prompt": json.RawMessage(`"other"`)}
	broken := validJob()
	broken.Extra = Extra{"newer": json.RawMessage(`{`)}
	nan := NewResult(validJob(), Succeeded)
	nan.Timings.DecodeTokensPerSecond = math.NaN()
	tests := []struct {
		name string
		v    record
		want string
	}{
		{"too long as JSON", big, "the record is 12583"},
		{"a field twice", twice, "prompt is both a field and an extra field"},
		{"broken extra field", broken, "encode *jobs.Job"},
		{"no number", nan, "unsupported value: NaN"},
		{"invalid", &Chunk{V: 1}, "job_id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Encode(tt.v)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %v, want one with %q", err, tt.want)
			}
			if got := CodeOf(err); got != CodeInvalid {
				t.Errorf("code = %s, want %s: it will fail for ever", got, CodeInvalid)
			}
		})
	}
}

// The largest job that may be submitted fits into a hand-over: a hop must never be refused.
func TestLargestJobMakesTheHop(t *testing.T) {
	j := validJob()
	j.Prompt = strings.Repeat("ab<", MaxBody/3)
	depth := maxDepth - jobRoom - 1
	j.Format = json.RawMessage(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
	data, err := Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	if j, err = Decode[Job](data); err != nil {
		t.Fatal(err)
	}
	data, err = Encode(&Handover{V: Version, Stage: StageFallback, Job: *j})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode[Handover](data); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode[Job](make([]byte, MaxJob+1)); err == nil || !strings.Contains(err.Error(), "bytes long") {
		t.Errorf("Decode of a longer one: error = %v, want one that names its length", err)
	}
}

// Other records hold ours, and encoding/json reads those; strictness and good errors must not get lost there.
func TestRecordsInsideOthers(t *testing.T) {
	var dead struct {
		Job Job `json:"job"`
	}
	tests := []struct{ data, want string }{
		{`{"job":{"v":1,"options":{"seed":"x"}}}`, "options.seed is a JSON string"},
		{`{"job":{"v":1,"Options":{}}}`, `did you mean "options"?`},
		{`{"job":{"v":1,"labels":{"a":"1","a":"2"}}}`, `duplicate key "labels.a"`},
		{`{"job":[]}`, "cannot unmarshal array"},
	}
	for _, tt := range tests {
		if err := json.Unmarshal([]byte(tt.data), &dead); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want one with %q", tt.data, err, tt.want)
		}
	}
	if err := json.Unmarshal([]byte(`{"job":{"v":1,"newer":7}}`), &dead); err != nil || string(dead.Job.Extra["newer"]) != "7" {
		t.Errorf("unknown field: %s, error %v; want 7", dead.Job.Extra["newer"], err)
	}
}

func wantInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error = %v, want one with %q", err, want)
	}
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeInvalid {
		t.Errorf("error %v is not of code %s", err, CodeInvalid)
	}
}

func validJob() *Job {
	return &Job{V: Version, ID: NewID(), User: "grader", Batch: SingleBatch, Class: Batch, Model: "m:latest", Prompt: "p"}
}
