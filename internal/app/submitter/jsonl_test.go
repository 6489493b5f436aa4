package submitter

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"tandem/jobs"
)

// base is what a batch command fills into each job.
func base() jobs.Job {
	return jobs.Job{V: jobs.Version, User: "u", Batch: "b", Class: jobs.Batch, SubmittedAt: time.Now().UTC()}
}

// read returns the jobs of a batch file and what is wrong with the others.
func read(t *testing.T, r io.Reader) (list []*jobs.Job, problems []string) {
	t.Helper()
	for j, err := range readJobs(r, base()) {
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		list = append(list, j)
	}
	return list, problems
}

func TestReadJobs(t *testing.T) {
	const good = `{"custom_id":"a","model":"m","prompt":"p"}`
	for _, tt := range []struct {
		name, file string
		want       []string // custom ids
		problems   []string // parts of them
	}{
		{"plain", good, []string{"a"}, nil},
		{"byte order mark, CRLF, blank lines", "\ufeff" + good + "\r\n\n  \n", []string{"a"}, nil},
		{"chat", `{"custom_id":"a","model":"m","messages":[{"role":"user","content":"hi"}]}`, []string{"a"}, nil},
		{"the rest is read", "{\n" + good, []string{"a"}, []string{"line 1: JSON at byte"}},
		{"a list", `[1]`, nil, []string{"line 1: the line is a JSON array; want an object"}},
		{"null", `null`, nil, []string{"line 1: the line is null"}},
		{"unknown field, near", `{"custom_id":"a","model":"m","promt":"p"}`, nil, []string{`line 1: field "promt" is unknown; did you mean "prompt"?`}},
		{"unknown field, case", `{"custom_id":"a","Model":"m","prompt":"p"}`, nil, []string{`field "Model" is unknown; did you mean "model"?`}},
		{"unknown field, far", `{"custom_id":"a","model":"m","prompt":"p","priority":1}`, nil, []string{`field "priority" is unknown; known are custom_id`}},
		{"unknown option", `{"custom_id":"a","model":"m","prompt":"p","options":{"temprature":1}}`, nil, []string{`field "options.temprature" is unknown; did you mean "options.temperature"?`}},
		{"tools", `{"custom_id":"a","model":"m","tools":[{"type":"function","function":{"name":"add"}}],"tool_choice":"auto","messages":[{"role":"user","content":"hi"}]}`, []string{"a"}, nil},
		{"unknown in a call", `{"custom_id":"a","model":"m","messages":[{"role":"assistant","tool_calls":[{"name":"add","arguments":{},"function":{}}]}]}`, nil, []string{`field "messages[0].tool_calls[0].function" is unknown`}},
		{"unknown in a message", `{"custom_id":"a","model":"m","messages":[{"role":"user","content":"x","contents":""}]}`, nil, []string{`field "messages[0].contents" is unknown`}},
		{"wrong type", `{"custom_id":"a","model":3,"prompt":"p"}`, nil, []string{"line 1: model is a JSON number; want a string"}},
		{"wrong type inside", `{"custom_id":"a","model":"m","prompt":"p","options":{"temperature":"hot"}}`, nil, []string{"options.temperature is a JSON string; want a number"}},
		{"out of range", `{"custom_id":"a","model":"m","prompt":"p","options":{"temperature":99}}`, nil, []string{"options.temperature is 99; want 0 to 10"}},
		{"duplicate key", `{"custom_id":"a","custom_id":"b","model":"m","prompt":"p"}`, nil, []string{`duplicate key "custom_id"`}},
		{"invalid UTF-8", "{\"custom_id\":\"a\",\"model\":\"m\",\"prompt\":\"\xff\"}", nil, []string{"invalid UTF-8 at byte 39"}},
		{"no custom id", `{"model":"m","prompt":"p"}`, nil, []string{"custom_id is missing"}},
		{"long custom id", `{"custom_id":"` + strings.Repeat("é", 90) + `","model":"m","prompt":"p"}`, nil, []string{"custom_id makes a file name of"}},
		{"no prompt", `{"custom_id":"a","model":"m"}`, nil, []string{"prompt is empty"}},
		{"bad schema", `{"custom_id":"a","model":"m","prompt":"p","format":"xml"}`, nil, []string{`format is neither "json" nor a JSON schema object`}},
		{"no model", `{"custom_id":"a","prompt":"p"}`, nil, []string{"model is empty"}},
		{"same custom id", good + "\n" + good, []string{"a"}, []string{`line 2: custom_id "a" is the same as that of line 1`}},
		{"same custom id but for case", good + "\n" + strings.Replace(good, `"a"`, `"A"`, 1), []string{"a"}, []string{"line 2: custom_id"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, problems := read(t, strings.NewReader(tt.file))
			var ids []string
			for _, j := range list {
				ids = append(ids, j.CustomID)
			}
			if diff := cmp.Diff(tt.want, ids); diff != "" {
				t.Errorf("custom ids (-want +got):\n%s", diff)
			}
			if len(problems) != len(tt.problems) {
				t.Fatalf("problems = %q, want %q", problems, tt.problems)
			}
			for i, want := range tt.problems {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem = %q, want %q in it", problems[i], want)
				}
			}
		})
	}
}

func TestReadJobsLongLine(t *testing.T) {
	file := io.MultiReader(strings.NewReader(`{"custom_id":"`), io.LimitReader(letters{}, maxLine), strings.NewReader("\"}\n"+`{"custom_id":"b","model":"m","prompt":"p"}`))
	list, problems := read(t, file)
	if len(list) != 1 || list[0].CustomID != "b" {
		t.Errorf("read %d jobs, want the one behind the long line", len(list))
	}
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "line 1: the line is ") {
		t.Errorf("problems = %q, want the long line", problems)
	}
}

// letters is an endless text.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestReadJobsBrokenFile(t *testing.T) {
	broken := errors.New("disk gone")
	_, problems := read(t, io.MultiReader(strings.NewReader("{"), iotest.ErrReader(broken)))
	if len(problems) != 1 || !strings.Contains(problems[0], "disk gone") {
		t.Errorf("problems = %q, want the error of the file alone", problems)
	}
}

// TestReadExample holds the reader and the example batch together.
func TestReadExample(t *testing.T) {
	f, err := os.Open("../../../examples/batch/jobs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, problems := read(t, f)
	if len(list) != 12 || len(problems) > 0 {
		t.Fatalf("read %d jobs, problems %q; want 12 and none", len(list), problems)
	}
	for _, j := range list {
		if j.Model != "qwen3-coder:30b" && j.Model != "gpt-oss:120b" {
			t.Errorf("job %s has model %s", j.CustomID, j.Model)
		}
		if j.SharedPrefix == 0 || j.Options.NumPredict == nil || j.Labels["task"] == "" {
			t.Errorf("job %s lost a field: %d, %v, %v", j.CustomID, j.SharedPrefix, j.Options.NumPredict, j.Labels)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"custom_id":"a","model":"m","prompt":"p","options":{"stop":["x"]},"labels":{"k":"v"}}`))
	f.Add([]byte(`{"custom_id":"../../etc","model":"m","messages":[{"role":"user","content":"\u202e"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := parseJob(data, base())
		if err != nil {
			return
		}
		if err := j.Validate(); err != nil {
			t.Errorf("parseJob returned a job that is not valid: %v", err)
		}
		if name := resultFile(j.CustomID); strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
			t.Errorf("result file %q leaves its folder", name)
		}
	})
}

// Whatever a file holds: its jobs are valid and have files of their own, and each refusal is of a line, in the lines' order, in a few printable words.
func FuzzReadJobs(f *testing.F) {
	const good = `{"custom_id":"a","model":"m","prompt":"p"}`
	for _, file := range []string{
		"", "\n\n", good, "\ufeff" + good + "\r\n\n" + good, good + "\n" + strings.Replace(good, `"a"`, `"A"`, 1), "{\n" + good, "\r" + good, "\x00\n\xff\n" + good,
		strings.Repeat("[", 100) + "\n[1]\nnull\n" + good, strings.Replace(good, "prompt", "\x1b[2J", 1),
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		names := map[string]bool{}
		last, answers, lines := 0, 0, bytes.Count(file, []byte("\n"))+1
		for j, err := range readJobs(bytes.NewReader(file), base()) {
			answers++
			if err == nil {
				if err := j.Validate(); err != nil {
					t.Errorf("job %q is not valid: %v", j.CustomID, err)
				}
				name := strings.ToLower(resultFile(j.CustomID))
				if names[name] {
					t.Errorf("two jobs have the file %q", name)
				}
				names[name] = true
				continue
			}
			e, ok := errors.AsType[*lineError](err)
			if !ok || e.Line <= last || e.Line > lines {
				t.Fatalf("%v: want an error of a line between %d and %d", err, last+1, lines)
			}
			last = e.Line
			if text := err.Error(); len(text) > 1000 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("the refusal has %d bytes: %.200q", len(text), text)
			}
		}
		if answers > lines {
			t.Errorf("%d answers to %d lines", answers, lines)
		}
	})
}
