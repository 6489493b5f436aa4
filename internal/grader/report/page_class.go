package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandem/internal/batchstats"
	"tandem/internal/grader/rubric"
)

// classPage is what the page of a class shows.
type classPage struct {
	*Class
	Title   string
	Unknown []string // keys of the rubric
	Bars    []histogramBar
	Doubted []Row // that need review
	Broken  []Row // that could not be graded
	Sheet   sheet
	r       *rubric.Rubric
}

func newClassPage(c *Class, r *rubric.Rubric) *classPage {
	p := &classPage{Class: c, Title: cmp.Or(c.Title, r.Info.Title, r.Info.Name, c.Assignment), Unknown: r.Unknown, Bars: histogram(c.Distribution.Tenths), r: r}
	for _, row := range c.Students {
		switch row.Status {
		case Review:
			p.Doubted = append(p.Doubted, row)
		case Failed:
			p.Broken = append(p.Broken, row)
		}
	}
	if c.Metrics != nil {
		p.Sheet = metrics(c.Metrics.Models)
	}
	return p
}

// Done is how many submissions have a report.
func (p *classPage) Done() int { return p.Graded + p.Final + p.Review + p.Failed }

// SectionName is what the rubric calls a section.
func (p *classPage) SectionName(id string) string {
	if s, ok := p.r.Section(id); ok {
		return s.Name
	}
	return id
}

// Saved is the share of a model's prompt tokens that did not have to be computed.
func (p Prefix) Saved() float64 {
	if p.Tokens == 0 {
		return 0
	}
	return float64(p.Cached) / float64(p.Tokens)
}

// Share is the part of the submissions that missed it.
func (m Missed) Share() float64 { return float64(m.Count) / float64(m.Of) }

// histogramBar is one bar, in the units of the drawing.
type histogramBar struct {
	Count          int
	From, To       int // percent
	X, Y           float64
	Width, Height  float64
	Left           float64 // where its tenth begins
	Middle, Number float64 // where its number stands
}

// The drawing of a histogram: ten bars above a line, with room for numbers above and below.
const (
	barsLeft, barsWidth = 14.0, 332.0
	barsTop, barsHeight = 22.0, 130.0
)

func histogram(tenths [10]int) []histogramBar {
	most := max(slices.Max(tenths[:]), 1)
	var bars []histogramBar
	for i, n := range tenths {
		const step = barsWidth / 10
		height := barsHeight * float64(n) / float64(most)
		bars = append(bars, histogramBar{
			Count: n, From: 10 * i, To: 10*i + 10,
			X: hundredths(barsLeft + step*float64(i) + 2), Y: hundredths(barsTop + barsHeight - height), Width: step - 4, Height: hundredths(height),
			Left: hundredths(barsLeft + step*float64(i)), Middle: hundredths(barsLeft + step*(float64(i)+0.5)), Number: hundredths(barsTop + barsHeight - height - 6),
		})
	}
	return bars
}

// metrics are the figures of each model: sums over its succeeded requests.
func metrics(models []batchstats.Model) sheet {
	s := sheet{Label: "Figures of each model"}
	line := func(name string, cell func(m batchstats.Model) string) {
		var cells []string
		for _, m := range models {
			cells = append(cells, cell(m))
		}
		s.line(name, cells...)
	}
	for _, m := range models {
		s.Head = append(s.Head, m.Model)
	}
	line("Requests succeeded", func(m batchstats.Model) string { return fmt.Sprintf("%d of %d", m.Succeeded, m.Jobs) })
	line("Way they went", func(m batchstats.Model) string { return counts(m.Methods) })
	line("Prefill", func(m batchstats.Model) string { return seconds(m.PrefillSeconds) })
	line("Prefill rate", func(m batchstats.Model) string { return rate(m.PrefillTokensPerSecond) })
	line("Hand-over", func(m batchstats.Model) string { return seconds(m.SaveSeconds + m.TransferSeconds + m.RestoreSeconds) })
	line("Computing prompts again", func(m batchstats.Model) string { return seconds(m.DecodePrefillSeconds) })
	line("Decode", func(m batchstats.Model) string { return seconds(m.DecodeSeconds) })
	line("Decode rate", func(m batchstats.Model) string { return rate(m.DecodeTokensPerSecond) })
	line("Computing and transfer, together", func(m batchstats.Model) string { return seconds(m.TotalSeconds) })
	line("Prompts", func(m batchstats.Model) string { return tokens(m.PromptTokens) })
	line("… of them found in a cache", func(m batchstats.Model) string { return tokens(m.PrefillCached) })
	line("… of them computed", func(m batchstats.Model) string { return tokens(m.PrefillComputed) })
	line("… of them handed over", func(m batchstats.Model) string { return tokens(m.HandedOver) })
	line("… of them computed again", func(m batchstats.Model) string { return tokens(m.DecodeComputed) })
	line("Written", func(m batchstats.Model) string { return tokens(m.GeneratedTokens) })
	line("States handed over", func(m batchstats.Model) string {
		if m.States == 0 {
			return none
		}
		return fmt.Sprintf("%d, %s", m.States, size(m.StateBytes))
	})
	line("Hand-overs that failed", func(m batchstats.Model) string { return counts(m.HandoverFailures) })
	return s
}

// counts lists how often each thing was, in the order of their names.
func counts[K ~string](of map[K]int) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		list = append(list, fmt.Sprintf("%d %s", of[k], k))
	}
	return strings.Join(list, ", ")
}
