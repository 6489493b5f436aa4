package outputs

import (
	"regexp"
	"slices"
	"strings"

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

// unstable reports whether what a cell shows depends on when, where or by which chance it was run.
func (s *side) unstable(cell int, seeded bool) bool {
	calls := func(f string) bool { return s.facts[cell].Called[f] != nil }
	if slices.ContainsFunc(ofToday, calls) || slices.ContainsFunc(ofMachine, calls) || !seeded && slices.ContainsFunc(ofChance, calls) {
		return true
	}
	return slices.ContainsFunc(s.cells[cell].Outputs, func(o notebook.Output) bool {
		return o.Kind != notebook.Error && o.Stream != "stderr" && path.MatchString(o.Text) // those two show nothing
	})
}
