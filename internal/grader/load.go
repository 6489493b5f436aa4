package grader

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strings"

	"tandem/internal/grader/check"
	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/internal/units"
	"tandem/jobs"
)

// maxFile is how large a file of the instructor's may be, in bytes: as large as a notebook by default.
const maxFile = 32_000_000

// Inputs are the instructor's files.
type Inputs struct {
	Rubric   string // path of the rubric
	Solution string // path of the solution's notebook
	Template string // path of the template's notebook, "" if there is none
}

// Assignment is what the class shares.
type Assignment struct {
	Rubric *rubric.Rubric

	solution, template *notebook.Notebook  // template is nil if there is none
	solutionSHA256     string              // of the file, in hex
	templateSHA256     string              // likewise; "" if there is none
	assigned           map[string]bool     // variables that the solution gives a value
	known              map[check.Name]bool // what the code of the solution and the template does
	notebooks          []string            // paths of the solution and the template
	files              Inputs
	warnings           []string
	selfCheck          *report.SelfCheck
}

// Load reads the instructor's files. Nothing else is needed to find what is wrong with them; errors are of code [jobs.CodeInvalid] and name the file.
func Load(in Inputs) (*Assignment, error) {
	data, err := readFile("rubric", in.Rubric)
	if err != nil {
		return nil, err
	}
	a := &Assignment{files: in, notebooks: []string{in.Solution}, known: map[check.Name]bool{}}
	if a.Rubric, err = rubric.Read(data); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s: %w", in.Rubric, err)
	}
	if a.solution, a.solutionSHA256, err = readNotebook("solution", in.Solution); err != nil {
		return nil, err
	}
	if in.Template != "" {
		a.notebooks = append(a.notebooks, in.Template)
		if a.template, a.templateSHA256, err = readNotebook("template", in.Template); err != nil {
			return nil, err
		}
	}
	a.warnings = slices.Clone(a.Rubric.Notes())
	if err := a.checkSolution(in.Solution); err != nil {
		return nil, err
	}
	return a, guarded(func() { a.selfCheck = a.checkItself() })
}

// Models are the models that the assignment asks, canonical names, each once.
func (a *Assignment) Models() []string {
	return slices.Compact([]string{a.model(rubric.JudgeCode), a.model(rubric.JudgeFeedback)})
}

// model is the one that a judge is.
func (a *Assignment) model(judge rubric.Judge) string {
	if judge == rubric.JudgeCode {
		return a.Rubric.Rules.CodeModel
	}
	return a.Rubric.Rules.FeedbackModel
}

// checkSolution looks for what makes a solution useless, wholly (an error) or in part (a warning).
func (a *Assignment) checkSolution(path string) error {
	a.assigned = map[string]bool{}
	var codeCells, outputs int
	for i, c := range a.solution.Cells {
		if c.Kind != notebook.Code || strings.TrimSpace(c.Source) == "" {
			continue
		}
		codeCells++
		outputs += len(c.Outputs)
		for name := range code.Analyse(a.solution.LanguageOf(i), c.Source).Assigned {
			a.assigned[name] = true
		}
	}
	switch {
	case codeCells == 0:
		return jobs.Errorf(jobs.CodeInvalid, "solution %s has no code cell with anything in it; name the notebook with the solution, not the template", path)
	case outputs == 0:
		a.warnings = append(a.warnings, "the solution has no outputs, so no student's can be compared with it: run it from top to bottom and save it")
	}
	return nil
}

func readNotebook(what, path string) (nb *notebook.Notebook, sha string, err error) {
	data, err := readFile(what, path)
	if err != nil {
		return nil, "", err
	}
	if nb, err = notebook.Read(data, notebook.Limits{}); err != nil {
		return nil, "", jobs.Errorf(jobs.CodeInvalid, "%s %s: %w", what, path, err)
	}
	return nb, hash(data), nil
}

func readFile(what, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s: %w; name the file with --%s", what, err, what)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s: %w; name the file with --%s", what, err, what)
	case len(data) > maxFile:
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s %s is larger than %s; clear the outputs that are pictures and save it again", what, path, units.Bytes(maxFile))
	}
	return data, nil
}

// hash is the SHA-256 in hex.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
