package outputs

import (
	"regexp"
	"slices"
	"strings"

	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
)

// What gives another value each time, or on each machine, is not compared. The functions are those of R and Python.
var (
	ofToday   = strings.Fields("Sys.time Sys.Date Sys.timezone today now utcnow proc.time system.time time.time perf_counter monotonic ctime timeit")
	ofMachine = strings.Fields("sessionInfo session_info getwd tempfile tempdir Sys.getenv Sys.info packageVersion normalizePath getcwd gettempdir mkdtemp uuid4 UUIDgenerate")
	ofChance  = strings.Fields("runif rnorm rbinom rpois rexp sample sample_n sample_frac slice_sample shuffle rand randn randint random choice choices normal uniform permutation default_rng")
	seeds     = strings.Fields("set.seed seed default_rng RandomState")
)

// path is an absolute one, as it is shown.
var path = regexp.MustCompile(`(?:^|[\s"'])(?:/(?:home|Users|tmp|var|mnt|content|kaggle)/|[A-Z]:\\)[\w.-]`)

// seeded reports whether a notebook says by which numbers chance goes.
func (s *side) seeded() bool {
	for i := range s.code {
		if slices.ContainsFunc(seeds, func(f string) bool { return s.facts[i].Called[f] != nil }) || s.facts[i].Named["random_state"] != nil {
			return true
		}
	}
	return false
}

// unstable tells of each cell whether what it shows depends on when, where or by which chance it was run: itself, or by a variable of an earlier cell.
func (s *side) unstable() map[int]bool {
	seeded := s.seeded()
	cells, drifting := map[int]bool{}, map[string]bool{}
	for i := range s.code {
		f := s.facts[i]
		var lines []int // on which something drifts
		for _, name := range ofToday {
			lines = append(lines, f.Called[name]...)
		}
		for _, name := range ofChance {
			if !seeded {
				lines = append(lines, f.Called[name]...)
			}
		}
		for name := range drifting {
			for _, n := range slices.Concat(f.Named[name], f.Shown[name]) {
				if at := f.Assigned[name]; at == nil || n <= at[0] { // else it has another value by then
					lines = append(lines, n)
				}
			}
		}
		cells[i] = len(lines) > 0 || s.ofMachine(i)
		for name, drifts := range assigned(f, lines) {
			drifting[name] = drifts
			if !drifts {
				delete(drifting, name)
			}
		}
	}
	return cells
}

// assigned tells of each variable that a cell assigns whether one of some lines stands in what it is given last: from its line to the next assignment's.
func assigned(f *code.Facts, lines []int) map[string]bool {
	var begins []int
	for _, at := range f.Assigned {
		begins = append(begins, at...)
	}
	slices.Sort(begins)
	list := map[string]bool{}
	for name, at := range f.Assigned {
		from := at[len(at)-1]
		next, _ := slices.BinarySearch(begins, from+1)
		list[name] = slices.ContainsFunc(lines, func(n int) bool { return n >= from && (next == len(begins) || n < begins[next]) })
	}
	return list
}

// ofMachine reports whether what a cell shows depends on where it was run.
func (s *side) ofMachine(cell int) bool {
	calls := func(f string) bool { return s.facts[cell].Called[f] != nil }
	if slices.ContainsFunc(ofMachine, calls) {
		return true
	}
	return slices.ContainsFunc(s.cells[cell].Outputs, func(o notebook.Output) bool {
		return o.Kind != notebook.Error && o.Stream != "stderr" && path.MatchString(o.Text) // those two show nothing
	})
}
