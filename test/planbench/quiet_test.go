package main

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var list []time.Duration
	for i := range 200 {
		list = append(list, time.Duration(199-i))
	}
	if got := percentile(list, 0.99); got != 198 {
		t.Errorf("99 of 100 of 0 to 199 do not exceed %d, want 198", got)
	}
	if got := percentile(nil, 0.99); got != 0 {
		t.Errorf("percentile of nothing = %v, want 0", got)
	}
}

func TestWatchLateness(t *testing.T) {
	if late := watchLateness()(); late < 0 || late > time.Minute {
		t.Errorf("lateness = %v, want some milliseconds at most", late)
	}
}
