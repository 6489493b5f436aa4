package submitter

import (
	"slices"
	"strings"
	"testing"

	"tandem/jobs"
)

func TestPublishingOrder(t *testing.T) {
	job := func(id, model, shared string, own, limit int, plan jobs.Plan) *jobs.Job {
		j := &jobs.Job{CustomID: id, Model: model, Prompt: shared + strings.Repeat(id, own), SharedPrefix: len(shared), Plan: plan}
		if limit > 0 {
			j.Options.NumPredict = new(limit)
		}
		return j
	}
	a, b, long := strings.Repeat("a", 400), strings.Repeat("b", 400), strings.Repeat("c", 2000)
	for _, tt := range []struct {
		name string
		list []*jobs.Job
		want string
	}{
		{"nothing", nil, ""},
		{"equal jobs stay as they were", []*jobs.Job{job("1", "m", a, 9, 0, "auto"), job("2", "m", a, 9, 0, "auto"), job("3", "m", a, 9, 0, "auto")}, "1 2 3"},
		{"the longest first", []*jobs.Job{job("1", "m", a, 9, 0, "auto"), job("2", "m", a, 90, 0, "auto"), job("3", "m", a, 50, 0, "auto")}, "2 3 1"},
		{"a short one before them, for decode has nothing to do", []*jobs.Job{job("1", "m", a, 9, 0, ""), job("2", "m", a, 90, 0, ""), job("3", "m", a, 50, 0, "")}, "1 2 3"},
		{"by the limits of answers, too", []*jobs.Job{job("1", "m", a, 900, 10, "local"), job("2", "m", a, 90, 20, "local"), job("3", "m", a, 90, 0, "local")}, "2 1 3"},
		{
			"each prefix in a row, the one with most to do first",
			[]*jobs.Job{job("1", "m", a, 9, 0, "auto"), job("2", "m", b, 90, 0, "auto"), job("3", "m", a, 50, 0, "auto"), job("4", "m", b, 10, 0, "auto")}, "2 4 3 1",
		},
		{"of a prefix only what is not shared counts", []*jobs.Job{job("1", "m", a, 9, 0, "auto"), job("2", "m", "", 90, 0, "auto")}, "2 1"},
		{
			"texts that begin alike share that, said or not",
			[]*jobs.Job{
				{CustomID: "1", Model: "m", Prompt: long + "1", Plan: "auto"}, {CustomID: "2", Model: "m", Prompt: b + long, Plan: "auto"}, {CustomID: "3", Model: "m", Prompt: long + "22", Plan: "auto"},
				{CustomID: "4", Model: "m", System: b, Messages: []jobs.Message{{Content: long}, {Content: "4"}}, Plan: "auto"}, {CustomID: "5", Model: "m", System: b, Messages: []jobs.Message{{Content: long}, {Content: "55"}}, Plan: "auto"},
			}, "5 4 3 1 2",
		},
		{
			"models by turns",
			[]*jobs.Job{job("1", "m", a, 9, 0, "auto"), job("2", "m", a, 8, 0, "auto"), job("3", "m", a, 7, 0, "auto"), job("4", "n", a, 3, 0, "auto"), job("5", "m", a, 6, 0, "auto"), job("6", "n", a, 4, 0, "auto")},
			"1 6 2 3 4 5",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.list)
			var got []string
			for _, j := range publishingOrder(tt.list) {
				got = append(got, j.CustomID)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("order %s, want %s", s, tt.want)
			}
			if !slices.Equal(before, tt.list) {
				t.Error("the file's order was changed")
			}
		})
	}
}
