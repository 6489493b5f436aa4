package intake

import (
	"path"
	"strings"
	"testing"
	"time"
)

func TestByLMS(t *testing.T) {
	tests := []struct {
		path string
		want claim // without student
		ok   bool
	}{
		{"famgiven_12345_67890_hw4.ipynb", claim{name: "famgiven", lmsID: "12345", leaf: "hw4.ipynb"}, true},
		{"famgiven_LATE_12345_67890_hw 4_final-12.ipynb", claim{name: "famgiven", lmsID: "12345", late: true, version: 12, leaf: "hw 4_final.ipynb"}, true},
		{"x/Given van Family_7_assignsubmission_file_/sub/hw.ipynb", claim{path: "x/Given van Family_7_assignsubmission_file_", name: "Given van Family", lmsID: "7", leaf: "hw.ipynb"}, true},
		{"Given_7_assignsubmission_file_hw_1.ipynb", claim{name: "Given", lmsID: "7", leaf: "hw_1.ipynb"}, true},
		{"HW_4_abc12_attempt_2026-10-01-12-34-56_my_attempt.ipynb", claim{name: "abc12", at: time.Date(2026, 10, 1, 12, 34, 56, 0, time.UTC), leaf: "my_attempt.ipynb"}, true},
		{"1-2 - A - B - Jan 2, 2026 1 PM/hw.ipynb", claim{path: "1-2 - A - B - Jan 2, 2026 1 PM", name: "A - B", lmsID: "1", leaf: "hw.ipynb"}, true},
		{"1-2 - A B - 31 Jan, 2026 1200 AM/hw.ipynb", claim{path: "1-2 - A B - 31 Jan, 2026 1200 AM", name: "A B", lmsID: "1", at: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC), leaf: "hw.ipynb"}, true},
		{"student_1_hw.ipynb", claim{}, false},
		{"hw4_final.ipynb", claim{}, false},
		{"homework_attempt_2.ipynb", claim{}, false},
		{"Given_7_assignsubmission_file", claim{}, false},
		{"1-2 - A - Jan 2, 2026.ipynb", claim{}, false},
	}
	for _, test := range tests {
		got, ok := byLMS(test.path)
		if (got.student != "") != ok {
			t.Errorf("%s: student %q", test.path, got.student)
		}
		got.student = ""
		if ok && test.want.path == "" {
			test.want.path = test.path
		}
		if ok != test.ok || got != test.want {
			t.Errorf("%s is read as %+v, %v; want %+v, %v", test.path, got, ok, test.want, test.ok)
		}
	}
}

func FuzzByLMS(f *testing.F) {
	for _, p := range []string{"a_LATE_12_34_b-1.ipynb", "A B_1_assignsubmission_file_/c", "A_b_attempt_2026-10-01-12-00-00_c", "1-2 - A - Oct 1, 2026 1200 PM/b", "a/b/c", "submitted/a/b/c.ipynb", "_"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if p == "" || path.Clean("/" + p)[1:] != p {
			return // no path of a source
		}
		c, ok := byLMS(p)
		if ok && (c.name == "" || c.student == "" || c.leaf == "" || !strings.HasPrefix(p, c.path) || c.path == "") {
			t.Errorf("%q is read as %+v", p, c)
		}
		s := &source{}
		one := &file{source: s, path: p, where: "/class/" + p}
		s.files = []*file{one}
		if _, _, err := arrange([]*source{s}, "", nil); err != nil {
			t.Errorf("one file %q alone: %v", p, err)
		}
	})
}
