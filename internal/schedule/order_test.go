package schedule_test

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"testing"

	"tandem/test/rig/paced/fleet"
)

// answerWeight is for how many tokens of a prompt a token of an answer counts in an order, as in internal/app/submitter/order.go.
const answerWeight = 25

// work is what is known of a job's size when it is published: of its answer the limit, if it has one.
func work(j *job) int { return j.own + answerWeight*j.limit }

// order is one in which jobs may be published.
type order struct {
	name string
	of   func([]*job) []*job
}

func orders() []order {
	prompt := func(j *job) int { return j.own }
	return []order{
		{"as in the file", func(l []*job) []*job { return l }},
		{"shortest prompt first", func(l []*job) []*job { return sorted(l, prompt, 1) }},
		{"longest prompt first", func(l []*job) []*job { return sorted(l, prompt, -1) }},
		{"longest first", func(l []*job) []*job { return sorted(l, work, -1) }},
		{"… by prefix", longestFirst},
		{"… after a short one", afterShort},
	}
}

func sorted(l []*job, key func(*job) int, sign int) []*job {
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b *job) int { return sign * cmp.Compare(key(a), key(b)) })
	return l
}

// longestFirst is the order of the plans auto and local: jobs that share a prefix in a row, of these the longest first.
func longestFirst(l []*job) []*job {
	return sorted(sorted(l, work, -1), func(j *job) int { return j.class }, 1)
}

// afterShort is the order of plan disaggregated, where decode has nothing to do until the first prompt is computed: likewise, after a short one.
func afterShort(l []*job) []*job {
	l = longestFirst(l)
	end := len(l)
	if i := slices.IndexFunc(l, func(j *job) bool { return j.class != l[0].class }); i > 0 {
		end = i
	}
	short := l[end-1]
	return slices.Insert(slices.Delete(l, end-1, end), 0, short)
}

// seeds is how many classes of each load are looked at: a few, or TANDEM_SEEDS for the figures in docs/ARCHITECTURE.md.
func seeds(t testing.TB, few int) uint64 {
	t.Helper()
	s := os.Getenv("TANDEM_SEEDS")
	if s == "" {
		return uint64(few)
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOrder compares orders by how long a class takes in each, beside how long it takes in the order of the file: the mean of all fleets, and of what may
// be known of answers. The two that are used must not be worse than that on any load, but for a little.
func TestOrder(t *testing.T) {
	all := os.Getenv("TANDEM_SEEDS") != ""
	for _, p := range []struct {
		name   string
		policy policy
		used   string
	}{{"auto", auto, "… by prefix"}, {"local", local, "… by prefix"}, {"disaggregated", disaggregated, "… after a short one"}} {
		for _, l := range loads() {
			if !l.mixed {
				continue
			}
			for _, o := range orders() {
				if !all && o.name != p.used {
					continue
				}
				var means [2]float64
				for i, n := range []int{60, 16} {
					means[i] = compare(t, l, n, p.policy, o)
				}
				t.Logf("%-14s %-16s %-22s 60 jobs %.3f, 16 jobs %.3f", p.name, l.name, o.name, means[0], means[1])
				if o.name == p.used && max(means[0], means[1]) > 1.02 {
					t.Errorf("plan %s, load %s: the order that is used takes %.3f times as long as that of the file", p.name, l.name, means)
				}
			}
		}
	}
}

// compare is how long classes take in an order, beside how long they take in that of the file: with all fleets and all that may be known of answers,
// or, for a quick look, some.
func compare(t *testing.T, l load, n int, p policy, o order) float64 {
	known := []knowledge{nothing, limits, everything}
	list := fleets(t)
	if os.Getenv("TANDEM_SEEDS") == "" {
		known = known[1:2]
		list = slices.DeleteFunc(list, func(f *fleet.Fleet) bool { return f.Name != "spark-mac-qwen" && f.Name != "equal" })
	}
	sum, count := 0.0, 0.0
	for _, f := range list {
		for _, knows := range known {
			for seed := range seeds(t, 4) {
				list := l.make(n, seed, knows)
				sum += newWorld(f, o.of(list), p).run() / newWorld(f, list, p).run()
				count++
			}
		}
	}
	return sum / count
}
