package grader

import (
	"slices"
	"strings"
	"testing"

	"tandem/jobs"
)

// The third of three submissions is the longest, the first one the shortest.
func TestSendingOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan jobs.Plan
		one  bool // model for both judges
		want string
	}{
		{"the longest first", jobs.PlanAuto, false, "3-code 3-feedback 2-code 2-feedback 1-code 1-feedback"},
		{"after a short one", "", false, "1-code 1-feedback 3-code 3-feedback 2-code 2-feedback"},
		{"one model is asked all of one kind in a row", jobs.PlanLocal, true, "3-code 2-code 1-code 3-feedback 2-feedback 1-feedback"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 1)
			for n := 2; n <= 3; n++ {
				b.student(n, append(solved(), cell{markdown: true, source: strings.Repeat("It is the sum of all prices. ", 40*n)})...)
			}
			if tt.one {
				b.edit("rubric.json", talker, coder)
			}
			b.grade(func(o *Options) { o.Plan = tt.plan })
			var got []string
			behind := map[string][]int{} // by model: what each job says of those that follow it
			for _, id := range b.models.order {
				behind[b.models.jobs[id].Model] = append(behind[b.models.jobs[id].Model], b.models.jobs[id].Following.Jobs)
				for n := 1; n <= 3; n++ {
					if rest, is := strings.CutPrefix(b.models.jobs[id].CustomID, b.id(n)); is {
						got = append(got, string(rune('0'+n))+rest)
					}
				}
			}
			if order := strings.Join(got, " "); order != tt.want {
				t.Errorf("sent %s, want %s", order, tt.want)
			}
			for model, list := range behind {
				if want := []int{5, 4, 3, 2, 1, 0}; !slices.Equal(list, want[len(want)-len(list):]) {
					t.Errorf("jobs for %s are followed by %d", model, list)
				}
			}
		})
	}
}
