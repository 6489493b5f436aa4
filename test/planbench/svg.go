package main

import (
	"fmt"
	"html"
	"io"
	"math"
)

// Sizes of a picture.
const (
	laneWidth  = 1400
	laneHeight = 26
	labelWidth = 150
	headHeight = 44
	axisHeight = 28
)

// svg draws a row for each slot: what it computes in colour, white where it is idle, and seconds below.
func (t timeline) svg(w io.Writer) error {
	height := headHeight + laneHeight*len(t.Lanes) + axisHeight
	var err error
	put := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`, labelWidth+laneWidth+20, height)
	put(`<rect width="100%%" height="100%%" fill="white"/>`)
	put(`<text x="8" y="16" font-weight="bold">%s: %.1f s</text>`, html.EscapeString(t.Title), t.Took)
	for i, work := range works() {
		put(`<rect x="%d" y="24" width="12" height="12" fill="%s"/><text x="%d" y="34">%s</text>`, labelWidth+90*i, work.colour, labelWidth+90*i+16, work.kind)
	}
	x := func(seconds float64) float64 { return labelWidth + laneWidth*min(max(0, seconds/t.Took), 1) }
	for i, l := range t.Lanes {
		y := headHeight + laneHeight*i
		put(`<text x="8" y="%d">%s %d</text>`, y+17, html.EscapeString(l.Machine), l.Slot)
		put(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#d4d4d4"/>`, labelWidth, y+2, laneWidth, laneHeight-4)
		for _, work := range works() {
			for _, s := range l.sorted(t.Took) {
				if s.Kind == work.kind {
					put(`<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"><title>%s %.3f to %.3f s</title></rect>`,
						x(s.Begin), y+2, x(s.End)-x(s.Begin), laneHeight-4, work.colour, s.Kind, s.Begin, s.End)
				}
			}
		}
	}
	step := tick(t.Took)
	for s := 0.0; s <= t.Took; s += step {
		put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#737373"/><text x="%.1f" y="%d" text-anchor="middle">%g s</text>`,
			x(s), height-axisHeight, x(s), height-axisHeight+5, x(s), height-axisHeight+18, s)
	}
	put(`</svg>`)
	return err
}

// tick is a round number of seconds between the marks of an axis, of which there are 5 to 14.
func tick(took float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(took, 1e-3)/5)))
	for _, times := range []float64{1, 2, 5} {
		if took/(unit*times) <= 14 {
			return unit * times
		}
	}
	return unit * 10
}
