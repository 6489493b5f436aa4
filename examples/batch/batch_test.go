package batch

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// readJobs returns jobs.jsonl as it stands in the tree, each line decoded without room for unknown fields.
func readJobs(t *testing.T) []job {
	t.Helper()
	text, err := os.ReadFile("jobs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []job
	for line := range bytes.Lines(text) {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		var j job
		if err := dec.Decode(&j); err != nil {
			t.Fatalf("line %d: %v", len(jobs)+1, err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func TestJobsAreWhatTheGeneratorWrites(t *testing.T) {
	var want bytes.Buffer
	if err := Write(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("jobs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("jobs.jsonl is not what the generator writes: run `go generate ./examples/batch`")
	}
}

func TestEachNotebookHasOneJobPerModel(t *testing.T) {
	var got []string
	for _, j := range readJobs(t) {
		got = append(got, j.CustomID+" "+j.Model)
	}
	var want []string
	for _, student := range []string{"01", "02", "03", "04", "05", "06"} {
		want = append(want,
			"student-"+student+"-code disaggregated:qwen3-coder:30b",
			"student-"+student+"-feedback disaggregated:gpt-oss:120b")
	}
	if !slices.Equal(got, want) {
		t.Errorf("jobs are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheClassSharesItsPrefix(t *testing.T) {
	shared := map[string]string{} // by model
	own := map[string]string{}    // by student
	for _, j := range readJobs(t) {
		if j.SharedPrefix < 6_000 || j.SharedPrefix > 8_000 {
			t.Errorf("%s: shared prefix of %d bytes, want 6 to 8 kB", j.CustomID, j.SharedPrefix)
		}
		if n := len(j.Prompt) - j.SharedPrefix; n < 2_000 || n > 5_000 {
			t.Errorf("%s: own part of %d bytes, want 2 to 5 kB", j.CustomID, n)
		}
		prefix, rest := j.System+"\x00"+j.Prompt[:j.SharedPrefix], j.Prompt[j.SharedPrefix:]
		if want, seen := shared[j.Model]; seen && prefix != want {
			t.Errorf("%s: the shared part differs from that of the jobs before it for %s", j.CustomID, j.Model)
		}
		shared[j.Model] = prefix
		student := j.Labels["student"]
		if want, seen := own[student]; seen && rest != want {
			t.Errorf("%s: the two jobs of %s carry different notebooks", j.CustomID, student)
		}
		own[student] = rest
		if !strings.HasPrefix(rest, "<file name=\""+student+".") {
			t.Errorf("%s: the own part does not begin with the student's notebook", j.CustomID)
		}
	}
	if len(shared) != 2 || len(own) != 6 {
		t.Errorf("%d models and %d students, want 2 and 6", len(shared), len(own))
	}
}
