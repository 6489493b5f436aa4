package schedule_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"tandem/test/rig/paced/fleet"
)

// load makes the jobs of a class, as test/planbench has them.
type load struct {
	name  string
	jobs  func(n int, r *rand.Rand) []*job
	mixed bool // its jobs differ
}

func same(j job) func(int, *rand.Rand) []*job {
	return func(n int, _ *rand.Rand) (list []*job) {
		for range n {
			list = append(list, new(j))
		}
		return list
	}
}

// spread are those of the grader's two classes by turns.
func spread(n int, r *rand.Rand) (list []*job) {
	for i := range n {
		j := job{prefix: 4500, own: 2500, answer: 400 + 100*r.IntN(9)}
		if i%2 == 1 {
			j.own = 10_800
		}
		list = append(list, &j)
	}
	return list
}

// giant is one long job in the middle of small ones.
func giant(n int, r *rand.Rand) []*job {
	list := same(job{own: 1000, answer: 200})(n, r)
	*list[n/2] = job{own: 24_000, answer: 1200}
	return list
}

// mixed is a class whose students wrote from 1,000 to 10,800 tokens.
func mixed(n int, r *rand.Rand) (list []*job) {
	for range n {
		list = append(list, &job{prefix: 4500, own: 1000 + r.IntN(9801), answer: 400 + r.IntN(801)})
	}
	return list
}

func loads() []load {
	return []load{
		{"class-2500", same(job{prefix: 4500, own: 2500, answer: 400}), false},
		{"class-10800", same(job{prefix: 4500, own: 10_800, answer: 600}), false},
		{"class-spread", spread, true},
		{"class-mixed", mixed, true},
		{"alone-1000", same(job{own: 1000, answer: 400}), false},
		{"alone-8000", same(job{own: 8000, answer: 400}), false},
		{"short-answers", same(job{prefix: 4500, own: 2500, answer: 20}), false},
		{"prefill-bound", same(job{own: 16_000, answer: 100}), false},
		{"decode-bound", same(job{own: 1000, answer: 1200}), false},
		{"giant", giant, true},
		{"two-assignments", twoAssignments, true},
	}
}

// twoAssignments are two classes by turns, each with a prefix of its own.
func twoAssignments(n int, r *rand.Rand) []*job {
	list := mixed(n, r)
	for i, j := range list {
		j.class = i % 2
	}
	return list
}

// knowledge is what is known of answers before they are there.
type knowledge int

const (
	nothing    knowledge = iota // how long they are on average
	limits                      // also that each is at most half as long again as it is, as in test/planbench
	everything                  // how long they are
)

// make makes the jobs, and what everybody believes of their answers.
func (l load) make(n int, seed uint64, knows knowledge) []*job {
	list := l.jobs(n, rand.New(rand.NewPCG(seed, 14)))
	sum := 0
	for _, j := range list {
		sum += j.answer
	}
	for _, j := range list {
		switch j.guess = sum / n; knows {
		case limits:
			j.limit = 3 * j.answer / 2
			j.guess = min(j.guess, j.limit)
		case everything:
			j.limit, j.guess = j.answer, j.answer
		}
	}
	return list
}

// fleets are those of test/fleets.
func fleets(t testing.TB) (list []*fleet.Fleet) {
	t.Helper()
	files, err := filepath.Glob("../../test/fleets/*.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d fleets, %v", len(files), err)
	}
	slices.Sort(files)
	for _, file := range files {
		f, err := fleet.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}
