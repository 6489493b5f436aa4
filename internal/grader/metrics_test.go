package grader

import (
	"testing"
	"time"
)

func TestBusyIsTheTimeInWhichAnythingWasOut(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	tests := map[string]struct {
		spans []span
		want  time.Duration
	}{
		"none":                  {nil, 0},
		"one":                   {[]span{{at(1), at(4)}}, 3 * time.Second},
		"side by side":          {[]span{{at(1), at(4)}, {at(2), at(6)}}, 5 * time.Second},
		"within another":        {[]span{{at(1), at(9)}, {at(2), at(3)}, {at(4), at(5)}}, 8 * time.Second},
		"two runs with a pause": {[]span{{at(100), at(101)}, {at(1), at(4)}}, 4 * time.Second},
		"a clock set back":      {[]span{{at(5), at(2)}, {at(6), at(7)}}, time.Second},
	}
	for name, tt := range tests {
		if got := busy(tt.spans); got != tt.want {
			t.Errorf("%s: busy for %v, want %v", name, got, tt.want)
		}
	}
}
