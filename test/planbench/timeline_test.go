package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// run is one slot that computes, saves, pauses and generates, beside one that does nothing.
func run() timeline {
	return timeline{Title: "a < b", Took: 10, Lanes: []lane{
		{"spark", 0, []span{{"decode", 6, 9}, {"prefill", 1, 3}, {"save", 3, 4}, {"prefill", -5, -1}}},
		{"mac", 1, nil},
	}}
}

func TestIdle(t *testing.T) {
	l := run()
	got, pauses := l.Lanes[0].idle(10)
	if want := (idle{Start: 1, Between: 2, End: 1, Worked: 6}); got != want {
		t.Errorf("idle = %+v, want %+v", got, want)
	}
	if math.Abs(got.share()-0.25) > 1e-9 {
		t.Errorf("share = %v, want 0.25", got.share())
	}
	if len(pauses) != 1 || pauses[0] != (gaps{"save", "decode", 1, 2}) {
		t.Errorf("pauses = %+v, want one of 2 s from save to decode", pauses)
	}
	if got, _ := l.Lanes[1].idle(10); got != (idle{Start: 10}) || got.share() != 0 {
		t.Errorf("idle of a slot without work = %+v, want 10 s at the start", got)
	}
}

// TestOverlapCountsOnce: an engine may save one state while it computes in the same slot's name.
func TestOverlapCountsOnce(t *testing.T) {
	l := lane{Spans: []span{{"prefill", 0, 4}, {"save", 1, 2}, {"decode", 3, 6}}}
	if got, _ := l.idle(6); got != (idle{Worked: 6}) {
		t.Errorf("idle = %+v, want 6 s of work and no pause", got)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	run().text(&b, 20, 0.05)
	for _, want := range []string{"|..PPPPSS....DDDDDD..|", "|....................|", "save → decode", "1 ×  2.000 s (100.0 ms here)", "25.0 % (2.00 s) between"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
}

// TestSVG holds the picture to be XML, with a bar for each piece of work that lies in the run.
func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := run().svg(&b); err != nil {
		t.Fatal(err)
	}
	titles := 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "title" {
			titles++
		}
	}
	if titles != 3 {
		t.Errorf("the picture has %d bars with a title, want 3", titles)
	}
}

func TestTick(t *testing.T) {
	for took, want := range map[float64]float64{0.5: 0.1, 10: 1, 55: 10, 100: 10, 240: 20, 705: 100} {
		if got := tick(took); math.Abs(got-want) > 1e-9 {
			t.Errorf("tick(%v) = %v, want %v", took, got, want)
		}
	}
}
