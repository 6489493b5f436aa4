package schedule_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDev(t *testing.T) {
	only := os.Getenv("FLEET")
	onlyLoad := os.Getenv("LOAD")
	known, _ := strconv.ParseFloat(os.Getenv("KNOWN"), 64)
	sum, count := 0.0, 0
	for _, f := range fleets(t) {
		if only != "" && !strings.Contains(only, f.Name) {
			continue
		}
		for _, l := range loads() {
			if onlyLoad != "" && !strings.Contains(onlyLoad, l.name) {
				continue
			}
			for _, n := range []int{60, 16} {
				list := l.make(n, 14, known)
				b := bound(f, list)
				t0 := time.Now()
				w := newWorld(f, list, auto)
				if os.Getenv("LOG") != "" && os.Getenv("LOG") == fmt.Sprint(n) {
					w.log = t.Logf
				}
				a := w.run()
				took := time.Since(t0)
				wm := newWorld(f, list, wholeMachines).run()
				lo := newWorld(f, list, local).run()
				di := newWorld(f, list, disaggregated).run()
				best := min(wm, lo, di)
				mark := ""
				limit := 1.03
				if n < 60 {
					limit = 1.08
				}
				if a/b > limit {
					mark += " BOUND"
				}
				if a/best > 1.02 {
					mark += " OTHER"
				}
				sum += a / b
				count++
				t.Logf("%-16s %-14s %3d: %7.1f bound %7.1f %.3f  whole %.3f local %.3f dis %.3f %4dms %s", f.Name, l.name, n, a, b, a/b, wm/b, lo/b, di/b, took.Milliseconds(), mark)
			}
		}
	}
	t.Logf("mean %.4f", sum/float64(count))
}
