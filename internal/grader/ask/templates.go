package ask

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"tandem/internal/grader/rubric"
	"tandem/internal/units"
	"tandem/jobs"
)

//go:embed prompts/*.md
var ownPrompts embed.FS

// maxTemplate is how large a template may be, in bytes.
const maxTemplate = 1_000_000

// judges are those that have a template.
func judges() []rubric.Judge { return []rubric.Judge{rubric.JudgeCode, rubric.JudgeFeedback} }

func templateFile(kind rubric.Judge) string { return string(kind) + ".md" }

// templates are the two templates, by judge.
type templates struct {
	parsed map[rubric.Judge]*template.Template
	sha256 string // of both texts, in hex
}

// readTemplates reads the templates of a folder, the project's own where it has none.
func readTemplates(dir string) (*templates, error) {
	ts := &templates{parsed: map[rubric.Judge]*template.Template{}}
	sum := sha256.New()
	own := 0
	for _, kind := range judges() {
		text, name, err := readTemplate(dir, templateFile(kind))
		if errors.Is(err, fs.ErrNotExist) || dir == "" {
			own++
			name = "prompts/" + templateFile(kind)
			text, err = ownPrompts.ReadFile(name)
		}
		if err != nil {
			return nil, err
		}
		if ts.parsed[kind], err = parseTemplate(name, string(text)); err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%d %s", len(text), text)
	}
	if dir != "" && own == len(judges()) {
		return nil, jobs.Errorf(jobs.CodeInvalid, "folder %s has neither %s nor %s; write them with submitter prompts %s", dir, templateFile(rubric.JudgeCode), templateFile(rubric.JudgeFeedback), dir)
	}
	ts.sha256 = hex.EncodeToString(sum.Sum(nil))
	return ts, nil
}

// readTemplate reads a file of a folder.
func readTemplate(dir, file string) (text []byte, name string, err error) {
	if dir == "" {
		return nil, "", nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", jobs.Errorf(jobs.CodeInvalid, "open folder of prompts: %v; name a folder that submitter prompts wrote", err)
	}
	defer root.Close()
	f, err := root.Open(file)
	if err != nil {
		return nil, "", fmt.Errorf("open prompt: %w", err)
	}
	defer f.Close()
	name = filepath.Join(dir, file)
	text, err = io.ReadAll(io.LimitReader(f, maxTemplate+1))
	if err == nil && len(text) > maxTemplate {
		err = jobs.Errorf(jobs.CodeInvalid, "prompt %s is larger than %s; is this the right file?", name, units.Bytes(maxTemplate))
	}
	return text, name, err
}

// The definitions of a template.
const (
	partSystem  = "system"
	partShared  = "shared"
	partStudent = "student"
)

func parseTemplate(name, text string) (*template.Template, error) {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "prompt %s: %v", name, strings.TrimPrefix(err.Error(), "template: "))
	}
	for _, part := range []string{partSystem, partShared, partStudent} {
		if t.Lookup(part) == nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, `prompt %s has no {{define "%s"}}; want %s, %s and %s, as submitter prompts writes them`, name, part, partSystem, partShared, partStudent)
		}
	}
	return t, nil
}

// execute writes one definition, without white space around it.
func execute(t *template.Template, part string, data any) (string, error) {
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, part, data); err != nil {
		return "", jobs.Errorf(jobs.CodeInvalid, "prompt %s: %v", t.Name(), strings.TrimPrefix(err.Error(), "template: "))
	}
	return strings.TrimSpace(b.String()), nil
}

// WriteTemplates writes the project's own templates into a folder, to be changed. It overwrites nothing.
func WriteTemplates(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create folder for prompts: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open folder for prompts: %w", err)
	}
	defer root.Close()
	for _, kind := range judges() {
		if _, err := root.Lstat(templateFile(kind)); !errors.Is(err, fs.ErrNotExist) {
			return jobs.Errorf(jobs.CodeInvalid, "%s is there already, and nothing was written; name another folder, or move it away", filepath.Join(dir, templateFile(kind)))
		}
	}
	for _, kind := range judges() {
		text, err := ownPrompts.ReadFile("prompts/" + templateFile(kind))
		if err != nil {
			return err
		}
		f, err := root.OpenFile(templateFile(kind), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write prompt: %w", err)
		}
		_, err = f.Write(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write prompt: %w", err)
		}
	}
	return nil
}
