package agreement

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// The figures of testdata/reference.json are scikit-learn's, NumPy's and R's; reference.py writes them.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   string
		A, B   []int
		Levels int
		Want   Report
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var pairs []Pair
			for i := range c.A {
				pairs = append(pairs, Pair{c.A[i], c.B[i]})
			}
			got := Of(pairs, c.Levels)
			for name, both := range map[string][2]*Figure{
				"exact": {got.Exact, c.Want.Exact}, "within one": {got.Within, c.Want.Within}, "kappa": {got.Kappa, c.Want.Kappa},
				"ICC": {got.ICC, c.Want.ICC}, "bias": {got.Bias, c.Want.Bias},
			} {
				if !near(both[0], both[1]) {
					t.Errorf("%s is %v, want %v", name, show(both[0]), show(both[1]))
				}
			}
			if got.Pairs != len(pairs) {
				t.Errorf("%d pairs, want %d", got.Pairs, len(pairs))
			}
		})
	}
}

func near(a, b *Figure) bool {
	if a == nil || b == nil {
		return a == b
	}
	const most = 1e-9
	return math.Abs(a.Value-b.Value) <= most && math.Abs(a.Low-b.Low) <= most && math.Abs(a.High-b.High) <= most
}

func show(f *Figure) any {
	if f == nil {
		return "not defined"
	}
	return *f
}

func TestNothing(t *testing.T) {
	if r := Of(nil, 3); r.Exact != nil || r.Kappa != nil || r.ICC != nil || r.Bias != nil {
		t.Errorf("figures of nothing: %+v", r)
	}
}
