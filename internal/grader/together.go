package grader

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"tandem/internal/grader/intake"
	"tandem/internal/grader/report"
	"tandem/jobs"
)

// Together adds up the points of an assignment of several notebooks, each graded into a folder of its own. Students are told apart by name and number. Who has no
// certain points in one of the folders has none together; who is not in one has 0 there.
func Together(folders []string) (*report.Totals, error) {
	out := &report.Totals{Parts: []string{}, Students: []report.Total{}}
	type who struct{ name, number string }
	byStudent := map[who]*report.Total{}
	for i, folder := range folders {
		class, people, err := readClass(folder)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, filepath.Base(folder))
		out.Max += class.MaxPoints
		for _, row := range class.Students {
			j := slices.IndexFunc(people, func(s intake.Student) bool { return s.ID == row.ID })
			if j < 0 {
				continue
			}
			key := who{people[j].Name, people[j].LMSID}
			if byStudent[key] == nil {
				byStudent[key] = &report.Total{Name: key.name, LMSID: key.number, Parts: make([]report.TotalPart, len(folders)), Certain: true}
			}
			t := byStudent[key]
			t.Parts[i] = report.TotalPart{There: true, Certain: row.Certain, Points: row.Points}
			t.Certain = t.Certain && row.Certain
			if row.Certain {
				t.Sum += row.Points
			}
		}
	}
	for _, t := range byStudent {
		out.Students = append(out.Students, *t)
	}
	slices.SortFunc(out.Students, func(a, b report.Total) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.LMSID, b.LMSID)) })
	return out, nil
}

// readClass reads what a folder says of a class, and who its students are.
func readClass(folder string) (*report.Class, []intake.Student, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%w; name folders that `submitter grade --out` wrote", err)
	}
	defer root.Close()
	class, err := report.NewDir(root).ReadClass()
	if err == nil && class == nil {
		err = jobs.Errorf(jobs.CodeInvalid, "%s has no summary.json; name folders that `submitter grade --out` wrote", folder)
	}
	if err != nil {
		return nil, nil, err
	}
	roster, err := intake.OpenRoster(root)
	if err != nil {
		return nil, nil, err
	}
	return class, roster.Students(), nil
}
