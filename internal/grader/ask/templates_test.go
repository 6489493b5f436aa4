package ask

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// TestTemplatesThatWereWritten make the same prompts; changed ones make others; neither is overwritten.
func TestTemplatesThatWereWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prompts")
	if err := WriteTemplates(dir); err != nil {
		t.Fatal(err)
	}
	a := exampleClass(t)
	s := subject(a, readExample(t, "submissions/student-01.ipynb"))
	written, err := NewBuilder(a, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := newBuilder(t, a)
	if prompt(t, written, rubric.JudgeCode, s).Shared != prompt(t, own, rubric.JudgeCode, s).Shared || written.SHA256() != own.SHA256() {
		t.Error("templates that were only written make other prompts")
	}

	changed := `{{define "system"}}Judge.{{end}}{{define "shared"}} {{.Title}} {{end}} a remark {{define "student"}}
		Look: {{.Submission}}
	{{end}}`
	file := filepath.Join(dir, "code.md")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "feedback.md")); err != nil {
		t.Fatal(err)
	}
	b, err := NewBuilder(a, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := prompt(t, b, rubric.JudgeCode, s)
	if p.System != "Judge." || p.Shared != "Homework 4: from three tables to one answer\n" || !strings.HasPrefix(p.Own, "Look: <submission id=") || !strings.HasSuffix(p.Own, "\">\n") {
		t.Errorf("system %q, shared %q, own begins with %.40q", p.System, p.Shared, p.Own)
	}
	if prompt(t, b, rubric.JudgeFeedback, s).Shared != prompt(t, own, rubric.JudgeFeedback, s).Shared {
		t.Error("a template that is missing is not the project's own")
	}
	if b.SHA256() == own.SHA256() {
		t.Error("changed templates have the hash of the project's own")
	}

	if err := WriteTemplates(dir); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), file+" is there already") {
		t.Errorf("writing over a template says %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != changed {
		t.Errorf("the template is overwritten (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "feedback.md")); err == nil {
		t.Error("one template was written beside one that was there")
	}
}

func TestBadTemplates(t *testing.T) {
	a := exampleClass(t)
	for _, tt := range []struct{ name, text, want string }{
		{"syntax", "\n\n{{define \"system\"}}{{if}}{{end}}", "code.md:3: missing value for if"},
		{"a definition too few", `{{define "system"}}{{end}}{{define "student"}}{{.Submission}}{{end}}`, `code.md has no {{define "shared"}}`},
		{"a student in the shared part", `{{define "system"}}{{end}}{{define "shared"}}
			{{.Submission}}{{end}}{{define "student"}}{{.Submission}}{{end}}`, `code.md:2:5: executing "shared" at <.Submission>: can't evaluate field Submission`},
		{"no submission", `{{define "system"}}{{end}}{{define "shared"}}{{end}}{{define "student"}}{{.Findings}}{{end}}`, `shows {{.Submission}} 0 times; want once`},
		{"two submissions", `{{define "system"}}{{end}}{{define "shared"}}{{end}}{{define "student"}}{{.Submission}}{{.Submission}}{{end}}`, `shows {{.Submission}} 2 times; want once`},
		{"too large", strings.Repeat("x", maxTemplate+1), "code.md is larger than 1.0 MB"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "code.md"), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := NewBuilder(a, dir, nil)
		if jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	for name, dir := range map[string]string{"no folder": filepath.Join(t.TempDir(), "none"), "no template in it": t.TempDir()} {
		if _, err := NewBuilder(a, dir, nil); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "submitter prompts") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
