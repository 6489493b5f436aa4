package report

import (
	"slices"
	"strings"

	"tandem/internal/sanitize"
)

// results is what Gradescope takes of an autograder: https://gradescope-autograders.readthedocs.io/en/latest/specs/
type results struct {
	Score      float64 `json:"score"` // counts in place of the tests' sum: caps may lie between
	Output     string  `json:"output"`
	Format     string  `json:"output_format"`
	TestFormat string  `json:"test_output_format"`
	NameFormat string  `json:"test_name_format"`
	Visibility string  `json:"visibility"`
	Stdout     string  `json:"stdout_visibility"`
	Tests      []test  `json:"tests"`
}

// test is one element of the rubric.
type test struct {
	Name       string  `json:"name"`
	Score      float64 `json:"score"`
	MaxScore   float64 `json:"max_score"`
	Output     string  `json:"output"`
	Visibility string  `json:"visibility"`
}

// published keeps results from students until a person has published them.
const published = "after_published"

// writeGradescope writes the results for Gradescope.
func (d *Dir) writeGradescope(s *Student) error {
	res := results{
		Score: s.Score.Points, Output: sanitize.Text(feedbackText(s)), Format: "text", TestFormat: "text", NameFormat: "text",
		Visibility: published, Stdout: "hidden", Tests: []test{},
	}
	for _, e := range s.Score.Elements {
		res.Tests = append(res.Tests, test{sanitize.Text(words(e.ID)), e.Points, e.Max, sanitize.Text(strings.Join(e.Reasons, "\n")), published})
	}
	data, err := encode(res)
	if err != nil {
		return err
	}
	return d.replace("gradescope/"+s.ID+"/results.json", data)
}

// feedbackText is the feedback without marks, and the way to the points.
func feedbackText(s *Student) string {
	var b strings.Builder
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			b.WriteString("\n" + title + "\n- " + strings.Join(lines, "\n- ") + "\n")
		}
	}
	if s.Notice != "" {
		b.WriteString(s.Notice + "\n")
	}
	for _, note := range s.Notes() {
		b.WriteString(note.Text + "\n")
	}
	if a := s.Said(); a != nil {
		b.WriteString(a.Summary + "\n")
		list("What went well", slices.DeleteFunc(slices.Clone(a.Strengths), func(text string) bool { return text == "" }))
		var improve []string
		for _, i := range a.Improvements {
			if i.What == "" {
				continue
			}
			line := i.What
			if i.Why != "" || i.How != "" {
				line += "\n  Why: " + i.Why + "\n  How: " + i.How
			}
			if i.Example != "" {
				line += "\n  Example:\n    " + strings.ReplaceAll(i.Example, "\n", "\n    ")
			}
			improve = append(improve, line)
		}
		list("What to improve", improve)
		if a.Question != "" {
			list("A question to think about", []string{a.Question})
		}
	}
	list("How the points came about", s.Score.Reasons)
	return strings.TrimSpace(b.String())
}
