package report

import "tandem/internal/grader/rubric"

// SelfCheck is what the instructor's own notebooks are worth by the rubric, without the models.
type SelfCheck struct {
	Sound    bool  `json:"sound"` // both are
	Solution Self  `json:"solution"`
	Template *Self `json:"template,omitempty"` // nil: there is none
}

// Self is what one of them is worth.
type Self struct {
	Sound     bool    `json:"sound"` // the solution has at least 95 percent, the template at most 10
	Points    float64 `json:"points"`
	MaxPoints float64 `json:"max_points"`
	Percent   float64 `json:"percent"`
	Causes    []Cause `json:"causes"` // what the solution lacks, or what the template has points for
}

// Cause is one of the reasons, and where in the rubric it lies.
type Cause struct {
	What     string           `json:"what"`
	Note     string           `json:"note,omitempty"`
	Location *rubric.Location `json:"location,omitempty"` // nil: it lies in the notebook
}
