package ask

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

const (
	defaultContext = 32768 // tokens of a model whose workers are not known
	marginTokens   = 64    // of the context that stay free
	leastNotebook  = 2000  // bytes of a student's notebook that a prompt must have room for
)

// Builder makes the prompts of an assignment. It may be used by several goroutines at a time.
type Builder struct {
	makers map[rubric.Judge]*maker
	given  map[string]bool // sources of the template's cells
	masks  *Masks
	sha256 string
}

// maker makes the prompts for one judge.
type maker struct {
	kind           rubric.Judge
	model          string
	system, shared string
	student        *template.Template
	format         json.RawMessage
	tokens         int // longest answer
	seed           int64
	room           int // bytes of an own part
	fixed          int // bytes of it that the template writes
}

// student is what the definition "student" of a template sees.
type student struct {
	Findings   string // what layers 1 and 2 found, a line each
	Submission string // the notebook in its fence
}

// NewBuilder reads the templates: those in dir (code.md, feedback.md), the project's own where one is missing or dir is "". A template is Go text/template with two definitions,
// "system" and "shared", and one, "student"; only the last sees the student's part. What stands outside of them is a remark. Errors name file and line.
//
// A folder with neither template is an error, and so is a prompt whose shared part leaves no room for a student's in the model's context.
func NewBuilder(a Assignment, dir string, limits map[rubric.Judge]Limits) (*Builder, error) {
	ts, err := readTemplates(dir)
	if err != nil {
		return nil, err
	}
	b := &Builder{makers: map[rubric.Judge]*maker{}, given: map[string]bool{}, masks: NewMasks(a), sha256: ts.sha256}
	if a.Template != nil {
		for _, c := range a.Template.Cells {
			b.given[strings.TrimSpace(c.Source)] = true
		}
	}
	for _, kind := range judges() {
		if b.makers[kind], err = newMaker(a, kind, ts.parsed[kind], limits[kind]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// SHA256 is the hash of the templates, in hex.
func (b *Builder) SHA256() string { return b.sha256 }

func newMaker(a Assignment, kind rubric.Judge, t *template.Template, limits Limits) (*maker, error) {
	f, err := newForm(kind, a.Rubric)
	if err != nil {
		return nil, err
	}
	m := &maker{kind: kind, model: a.Rubric.Rules.CodeModel, student: t, tokens: f.tokens, seed: a.Seed}
	if kind == rubric.JudgeFeedback {
		m.model = a.Rubric.Rules.FeedbackModel
	}
	if m.format, err = f.json(); err != nil {
		return nil, err
	}
	c := newClass(a, kind, f)
	if m.system, err = execute(t, partSystem, c); err != nil {
		return nil, err
	}
	if m.shared, err = execute(t, partShared, c); err != nil {
		return nil, err
	}
	m.shared += "\n" // one, and none at the beginning of the own part: so both are cut into tokens alike, together and apart
	return m, m.measure(limits)
}

// measure finds out how long an own part may be.
func (m *maker) measure(limits Limits) error {
	probe := strings.Repeat("-", 40)
	own, err := execute(m.student, partStudent, student{Submission: probe})
	if err != nil {
		return err
	}
	if n := strings.Count(own, probe); n != 1 {
		return jobs.Errorf(jobs.CodeInvalid, `prompt %s: {{define "%s"}} shows {{.Submission}} %d times; want once`, m.student.Name(), partStudent, n)
	}
	context := limits.ContextTokens
	if context == 0 {
		context = defaultContext
	}
	taken := len(m.system) + len(m.shared) + len(againText) + maxProblem
	m.room = int(fitPerToken*float64(context-m.tokens-marginTokens)) - taken
	m.fixed = len(own) - len(probe)
	if least := m.fixed + leastNotebook; m.room < least {
		needed := int(float64(taken+least)/fitPerToken) + m.tokens + marginTokens + 1
		return jobs.Errorf(jobs.CodeInvalid, "the %s prompt does not fit model %s: its context is %d tokens, and what the class shares (%d bytes), the answer (%d tokens) and a short notebook need about %d; raise --num-ctx of its workers, or shorten the solution",
			m.kind, m.model, context, len(m.shared), m.tokens, needed)
	}
	return nil
}

// Prompt makes one request about a submission.
func (b *Builder) Prompt(kind rubric.Judge, s Subject) (*Prompt, error) {
	m := b.makers[kind]
	if m == nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "judge is %.40q; want %s or %s", kind, rubric.JudgeCode, rubric.JudgeFeedback)
	}
	masks := b.masks.of(s.Notebook, s.Mask)
	clean := func(kind notebook.Kind, text string) string {
		return safe(masks.mask(kind, lineEnds.Replace(visible(text))))
	}
	see := student{Findings: findings(s.Layer1, s.Layer2, min(maxFindings, (m.room-m.fixed)/4), func(text string) string { return clean("", text) })}
	rest, err := execute(m.student, partStudent, see)
	if err != nil {
		return nil, err
	}
	p := &Prompt{Kind: kind, Model: m.model, System: m.system, Shared: m.shared, Format: m.format, Tokens: m.tokens, Seed: m.seed}
	text, cut := newPage(s.Notebook, m.room, b.given, clean).fit(m.room - len(rest) - len(fence("")) - 1)
	p.Cut, see.Submission = cut, fence(text)
	own, err := execute(m.student, partStudent, see)
	p.Own = own + "\n"
	return p, err
}

// fence puts a student's text between two lines that its author cannot know, since they hold its hash.
func fence(text string) string {
	sum := sha256.Sum256([]byte(text))
	id := hex.EncodeToString(sum[:8])
	return fmt.Sprintf("<submission id=\"%s\">\n%s\n</submission id=\"%s\">", id, strings.Trim(text, "\n"), id)
}
