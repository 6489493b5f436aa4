package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the project's folder.
const root = "../.."

var (
	fenced = regexp.MustCompile("(?s)```.*?```")
	quoted = regexp.MustCompile("`([^`]+)`")
	inTree = regexp.MustCompile(`^(client|cmd|deploy|docs|examples|internal|jobs|scripts|test|tools)/[\w./{},*-]+$`)
	braces = regexp.MustCompile(`^(.*)\{([^}]*)\}(.*)$`)
)

// expand writes out the braces of a path.
func expand(path string) []string {
	m := braces.FindStringSubmatch(path)
	if m == nil {
		return []string{path}
	}
	var all []string
	for part := range strings.SplitSeq(m[2], ",") {
		all = append(all, m[1]+part+m[3])
	}
	return all
}

func architecture(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(page), "")
}

// What docs/ARCHITECTURE.md names is there.
func TestFilesOfTheArchitectureExist(t *testing.T) {
	found := 0
	for _, m := range quoted.FindAllStringSubmatch(architecture(t), -1) {
		if !inTree.MatchString(m[1]) {
			continue
		}
		for _, path := range expand(m[1]) {
			list, err := filepath.Glob(filepath.Join(root, path))
			if err != nil || len(list) == 0 {
				t.Errorf("docs/ARCHITECTURE.md names %s, which does not exist", path)
			}
			found++
		}
	}
	if found < 60 {
		t.Errorf("found %d files on the page, want many more: is it read as it should be?", found)
	}
}

// Whoever has one of these tasks finds the place by the table "What to touch", and what is to be changed is there.
func TestReaderFindsThePlace(t *testing.T) {
	_, table, _ := strings.Cut(architecture(t), "## What to touch")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.TrimSpace(cells[1])] = cells[2]
		}
	}
	for _, tt := range []struct{ task, row, file, has string }{
		{"change the retry limit of prefill", "how often a stage is tried, how long until the next try", "internal/protocol/retry.go", "jobs.StagePrefill:  {2, jobs.StageFallback}"},
		{"wait longer before a job is tried again", "how often a stage is tried, how long until the next try", "internal/protocol/retry.go", "const first = 800 * time.Millisecond"},
		{"see why a job was requeued", "why a job was tried again or requeued", "internal/queue/settle.go", "jobs.EventRequeued"},
		{"add a field to the result", "a field of the result", "jobs/result.go", "type Result struct"},
		{"say in the result which file was used", "a field of the result", "internal/pipeline/decode.go", "c.Result(t.Job"},
		{"accept another sampling option", "a field of the job", "jobs/validate.go", "func (o *Options) validate()"},
		{"count something new for Prometheus", "a metric", "internal/telemetry/metrics.go", "func Metrics("},
		{"keep more results", "a stream, or its limits", "internal/queue/topology.go", "keepResults"},
		{"let another engine compute", "an engine", "internal/app/engines.go", "func newEngine("},
		{"give graders one more right", "what a key may do", "internal/access/rights.go", "func grader("},
		{"move a student's page around", "a page of grades", "internal/grader/report/page_student.go", "package report"},
		{"let an engine be silent for longer", "when a silent engine loses its job", "internal/queue/run_watchdog.go", "type stallWatchdog struct"},
		{"make a failed hand-over of something else", "when a KV state is not used", "jobs/state.go", "FailFingerprint"},
		{"add a command", "a command of submitter", "internal/app/submitter/submitter.go", "cmd:\"\""},
	} {
		switch text, err := os.ReadFile(filepath.Join(root, tt.file)); {
		case err != nil:
			t.Errorf("to %s: %v", tt.task, err)
		case !strings.Contains(rows[tt.row], "`"+tt.file+"`"):
			t.Errorf("to %s: the row %q does not name %s, but %q", tt.task, tt.row, tt.file, rows[tt.row])
		case !strings.Contains(string(text), tt.has):
			t.Errorf("to %s: %s has no %q", tt.task, tt.file, tt.has)
		}
	}
}

// Lines of Markdown have at most 100 characters, but for tables, code and what has no space to break at.
func TestMarkdownIsWrapped(t *testing.T) {
	const width = 100
	pages := []string{"README.md", "AGENTS.md", "CHANGELOG.md", "deploy/README.md"}
	docs, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(docs) < 8 {
		t.Fatalf("found %d pages in docs, %v", len(docs), err)
	}
	for _, page := range docs {
		pages = append(pages, "docs/"+filepath.Base(page))
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		code, n := false, 0
		for line := range strings.Lines(string(text)) {
			n++
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				code = !code
			case code, strings.HasPrefix(line, "|"), utf8.RuneCountInString(line) <= width:
			case strings.Contains(strings.TrimSpace(quoted.ReplaceAllString(line, "x")), " "):
				t.Errorf("%s:%d has %d characters, want at most %d", page, n, utf8.RuneCountInString(line), width)
			}
		}
	}
}
