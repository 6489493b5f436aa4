package grader

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"tandem/internal/agreement"
	"tandem/internal/grader/journal"
	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/score"
	"tandem/jobs"
)

// calibrationFile is what the instructor judged without seeing what the models said, a line for each criterion of a submission; a later one counts.
const calibrationFile = "instructor/calibration.jsonl"

// blindLine is one such judgement.
type blindLine struct {
	V         int           `json:"v"`
	At        time.Time     `json:"at"`
	By        string        `json:"by"`
	Student   string        `json:"student"` // pseudonym
	Criterion string        `json:"criterion"`
	Verdict   score.Verdict `json:"verdict"`
	Notebook  string        `json:"notebook"` // SHA-256: of another one it says nothing
}

// levels are what verdicts are on a scale.
var levels = map[score.Verdict]int{score.NotMet: 0, score.Partly: 1, score.Met: 2}

// Calibration is the instructor's blind judgement of a sample, beside the models'. It is part of a [Review].
type Calibration struct {
	*Review
	file   *journal.Journal
	judged map[[2]string]score.Verdict // by submission and criterion
}

// Calibrate opens what was judged so far. Close it before the review.
func (r *Review) Calibrate(shown string) (*Calibration, error) {
	c := &Calibration{Review: r, judged: map[[2]string]score.Verdict{}}
	var err error
	c.file, err = journal.Open(r.root, calibrationFile, shown, "put the file back as it was, or remove it and judge again", func(text []byte) error {
		var n blindLine
		if err := journal.Decode(text, &n); err != nil {
			return fmt.Errorf("it is no judgement")
		}
		if _, known := levels[n.Verdict]; n.V != 1 || !known {
			return fmt.Errorf("it is no judgement that this program knows")
		}
		if s := r.students[n.Student]; s != nil && s.Inputs.Notebook == n.Notebook {
			c.judged[[2]string{n.Student, n.Criterion}] = n.Verdict
		}
		return nil
	})
	return c, err
}

// Close closes the file.
func (c *Calibration) Close() error { return c.file.Close() }

// criterion finds one that a model judges.
func (r *Review) criterion(id string) (rubric.Criterion, bool) {
	for _, k := range r.Criteria() {
		if k.ID == id {
			return k, true
		}
	}
	return rubric.Criterion{}, false
}

// Criteria are those that a model judges, in the order of the rubric.
func (r *Review) Criteria() []rubric.Criterion {
	var list []rubric.Criterion
	for _, e := range r.desk.Rubric.Elements {
		for _, k := range e.Criteria {
			if k.Judge != rubric.JudgeNobody {
				list = append(list, k)
			}
		}
	}
	return list
}

// Sample chooses submissions whose judgements say most about the models: of each of n equal parts of the class, by points, the one whose points the models moved most.
// Those that were judged before are among them first. Submissions without both answers are none.
func (c *Calibration) Sample(n int) []string {
	var sample, rest []string
	for _, id := range c.order {
		s := c.students[id]
		switch {
		case s.Code == nil || s.Feedback == nil || s.Code.Answer == nil || s.Feedback.Answer == nil || s.Score == nil:
		case c.begun(id):
			sample = append(sample, id)
		default:
			rest = append(rest, id)
		}
	}
	slices.SortStableFunc(rest, func(a, b string) int { return cmp.Compare(c.students[a].Score.Points, c.students[b].Score.Points) })
	parts := min(max(n-len(sample), 0), len(rest))
	for i := range parts {
		part := rest[i*len(rest)/parts : (i+1)*len(rest)/parts]
		sample = append(sample, slices.MaxFunc(part, func(a, b string) int { return cmp.Compare(moved(c.students[a]), moved(c.students[b])) }))
	}
	slices.Sort(sample) // neither by points nor by what the models said
	return sample
}

func (c *Calibration) begun(id string) bool {
	return slices.ContainsFunc(c.Criteria(), func(k rubric.Criterion) bool { return c.judged[[2]string{id, k.ID}] != "" })
}

// moved is how far the models moved a submission's points.
func moved(s *report.Student) float64 {
	sum := 0.0
	for _, e := range s.Score.Elements {
		for _, k := range e.Criteria {
			sum += math.Abs(k.Change)
		}
	}
	return sum
}

// Open are the criteria of a submission that are not judged yet.
func (c *Calibration) Open(id string) []rubric.Criterion {
	return slices.DeleteFunc(c.Criteria(), func(k rubric.Criterion) bool { return c.judged[[2]string{id, k.ID}] != "" })
}

// Page writes a page with the notebook of a submission and the criteria, and nothing that was found or said; it returns its path in the folder.
func (c *Calibration) Page(id string) (string, error) {
	cells, err := c.dir.ReadNotebook(id)
	if err != nil {
		return "", err
	}
	return c.dir.WriteBlind(id, c.desk.Rubric, c.Criteria(), cells)
}

// Judge takes a judgement; then it is on the disk.
func (c *Calibration) Judge(id, criterion string, v score.Verdict) error {
	s, err := c.Student(id)
	if err != nil {
		return err
	}
	if _, known := levels[v]; !known {
		return jobs.Errorf(jobs.CodeInvalid, "verdict is %q; want met, partly or not_met", v)
	}
	_, err = c.file.Append(blindLine{V: 1, At: c.now().UTC(), By: c.by, Student: id, Criterion: criterion, Verdict: v, Notebook: s.Inputs.Notebook})
	if err == nil {
		c.judged[[2]string{id, criterion}] = v
	}
	return err
}

// Agreement is how far the models agree with the instructor.
type Agreement struct {
	Submissions int                  `json:"submissions"` // of which something was judged
	Criteria    []CriterionAgreement `json:"criteria"`
	Together    agreement.Report     `json:"together"` // of all criteria
}

// CriterionAgreement is that of one criterion. Levels are 0 (not met), 1 (partly) and 2 (met); a positive bias is a mild model.
type CriterionAgreement struct {
	ID      string       `json:"id"`
	Text    string       `json:"text"`
	Judge   rubric.Judge `json:"judge"`
	Unclear int          `json:"unclear"`           // that the model found unclear; they are no pairs
	Ignored bool         `json:"ignored,omitempty"` // the instructor has decided that its judgements do not count
	agreement.Report
}

// Agreement compares what was judged so far.
func (c *Calibration) Agreement() *Agreement {
	out := &Agreement{Criteria: []CriterionAgreement{}}
	var all []agreement.Pair
	waived := c.desk.Waived()
	for _, k := range c.Criteria() {
		one := CriterionAgreement{ID: k.ID, Text: k.Text, Judge: k.Judge, Ignored: waived[score.Thing{Kind: score.CriterionKind, Name: k.ID}]}
		var pairs []agreement.Pair
		for _, id := range c.order {
			own := c.judged[[2]string{id, k.ID}]
			if own == "" {
				continue
			}
			said, there := levels[verdictOf(c.students[id], k)]
			if !there {
				one.Unclear++
				continue
			}
			pairs = append(pairs, agreement.Pair{A: levels[own], B: said})
		}
		one.Report = agreement.Of(pairs, len(levels))
		out.Criteria = append(out.Criteria, one)
		all = append(all, pairs...)
	}
	out.Together = agreement.Of(all, len(levels))
	for _, id := range c.order {
		if c.begun(id) {
			out.Submissions++
		}
	}
	return out
}

// verdictOf is a model's judgement of a criterion.
func verdictOf(s *report.Student, k rubric.Criterion) score.Verdict {
	part := s.Code
	if k.Judge == rubric.JudgeFeedback {
		part = s.Feedback
	}
	if part == nil || part.Answer == nil {
		return ""
	}
	for _, j := range part.Answer.Criteria {
		if j.ID == k.ID {
			return j.Verdict
		}
	}
	return ""
}

// Doubtful reports whether a criterion's judgements agree too little with the instructor's to count: by kappa or, where that is not defined, by the share of equal ones.
func (a *CriterionAgreement) Doubtful(least float64) bool {
	switch {
	case a.Ignored || a.Exact == nil:
		return false
	case a.Kappa != nil:
		return a.Kappa.Value < least
	}
	return a.Exact.Value < least
}
