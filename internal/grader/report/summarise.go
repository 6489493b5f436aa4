package report

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
)

// mostMissed is how many of the things missed are listed.
const mostMissed = 20

// Summarise makes the class's record of its submissions: counts, distribution, what was missed most, rows. The rest is the caller's, and so is Submissions
// while not all of them have a record yet.
func Summarise(students []*Student, r *rubric.Rubric) *Class {
	students = slices.SortedFunc(slices.Values(students), func(a, b *Student) int { return strings.Compare(a.ID, b.ID) })
	c := &Class{
		V: version, Assignment: r.Info.Name, Title: r.Info.Title, Submissions: len(students),
		Missed: missed(students), Students: make([]Row, 0, len(students)),
	}
	c.MaxPoints, _ = r.Info.TotalPoints.Float64()
	var percents []float64
	ranges := 0
	for _, s := range students {
		switch s.Status {
		case Graded:
			c.Graded++
		case Final:
			c.Final++
		case Review:
			c.Review++
		case Failed:
			c.Failed++
		}
		row := newRow(s)
		switch {
		case row.Certain:
			percents = append(percents, row.Percent)
		case row.Scored():
			percents = append(percents, hundredths(100*(row.Low+row.High)/2/c.MaxPoints))
			ranges++
		}
		c.Students = append(c.Students, row)
	}
	c.Distribution = distribute(percents)
	c.Distribution.Ranges = ranges
	return c
}

func newRow(s *Student) Row {
	row := Row{ID: s.ID, Status: s.Status, Flags: len(s.Flags), Quotes: s.Flags, Late: s.Late, Why: s.Reasons}
	if s.Overrides != nil {
		row.Decided = s.Overrides.Decisions
	}
	if s.Problem != "" {
		row.Why = append(slices.Clip(row.Why), s.Problem)
	}
	if sc := s.Score; sc != nil && s.Status != Failed {
		row.Points, row.Low, row.High, row.Percent, row.Certain = sc.Points, sc.Low, sc.High, sc.Percent, sc.Certain
	}
	return row
}

// distribute counts percentages.
func distribute(percents []float64) Distribution {
	d := Distribution{Count: len(percents)}
	if d.Count == 0 {
		return d
	}
	slices.Sort(percents)
	sum := 0.0
	for _, p := range percents {
		sum += p
		d.Tenths[min(max(int(p/10), 0), 9)]++
	}
	middle := d.Count / 2
	d.Median = percents[middle]
	if d.Count%2 == 0 {
		d.Median = (percents[middle-1] + percents[middle]) / 2
	}
	d.Mean, d.Median = hundredths(sum/float64(d.Count)), hundredths(d.Median)
	d.Low, d.High = percents[0], percents[d.Count-1]
	return d
}

func hundredths(v float64) float64 { return math.Round(v*100) / 100 }

// missed counts what submissions that could be read do not have. All of them were asked for the same things in the same order, which
// is the order of those missed equally often.
func missed(students []*Student) []Missed {
	all := []Missed{}         // [] in JSON, not null
	index := map[Missed]int{} // by kind, name and section
	of := 0
	for _, s := range students {
		if s.Layer1 == nil {
			continue
		}
		of++
		once := map[Missed]bool{}
		for m, done := range asked(s) {
			if _, known := index[m]; !known {
				index[m] = len(all)
				all = append(all, m)
			}
			if !done && !once[m] {
				once[m] = true
				all[index[m]].Count++
			}
		}
	}
	all = slices.DeleteFunc(all, func(m Missed) bool { return m.Count == 0 })
	slices.SortStableFunc(all, func(a, b Missed) int { return cmp.Compare(b.Count, a.Count) })
	all = all[:min(len(all), mostMissed)]
	for i := range all {
		all[i].Of = of
	}
	return all
}

// Scored reports whether a row has points, or a range of them.
func (row Row) Scored() bool { return row.Certain || row.High > row.Low }

// asked yields what a submission was asked for, and whether it is there.
func asked(s *Student) iter.Seq2[Missed, bool] {
	return func(yield func(Missed, bool) bool) {
		for _, item := range s.Layer1.Items {
			if !yield(Missed{Kind: item.Kind, Name: item.Name, Section: item.Section}, item.Status == check.Found) {
				return
			}
		}
		if s.Layer2 != nil {
			for _, c := range s.Layer2.Comparisons {
				if c.Counts() && !yield(Missed{Kind: "output", Name: c.Key, Section: c.Section}, c.Verdict == outputs.Match) {
					return
				}
			}
		}
		for _, section := range s.Layer1.Sections {
			if !yield(Missed{Kind: "section", Name: section.Name, Section: section.ID}, section.Completeness == check.Complete) {
				return
			}
		}
	}
}
