package schedule_test

import (
	"fmt"
	"os"
	"testing"
)

func TestOne(t *testing.T) {
	var n, seed int
	var known float64
	var name, load string
	fmt.Sscan(os.Getenv("ONE"), &name, &load, &n, &seed, &known)
	for _, f := range fleets(t) {
		if f.Name == name {
			for _, l := range loads() {
				if l.name == load {
					list := orders["longest"](l.make(n, uint64(seed), known))
					for _, j := range list {
						t.Log(*j)
					}
					w := newWorld(f, list, auto)
					w.log = t.Logf
					b := bound(f, list)
					r := w.run()
					t.Log(r, b, r/b)
				}
			}
		}
	}
}
