package intake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/jobs"
)

func openRoster(t testing.TB, dir string) (*Roster, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return OpenRoster(root)
}

func newRoster(t testing.TB, dir string) *Roster {
	t.Helper()
	r, err := openRoster(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPseudonymsStay(t *testing.T) {
	c := newClass(t, "a/Student One/hw.ipynb", "a/Student Two/hw.ipynb", "b/Student One/hw.ipynb", "c/s_12_34_hw.ipynb")
	first := map[string]string{}
	for _, named := range [][]string{{"a"}, {"a", "c"}, {"a", "b", "c"}, {"b", "a"}, {"b"}, {"a"}, {"a", "b"}} {
		for _, s := range c.must("", named...).Submissions {
			if !isPseudonym(s.ID) {
				t.Errorf("%q is no pseudonym", s.ID)
			}
			student, _ := c.roster.Student(s.ID)
			if id := first[student.File]; id != "" && id != s.ID {
				t.Errorf("naming %q: %s is %s, and was %s", named, student.File, s.ID, id)
			}
			first[student.File] = s.ID
		}
	}
	if n := len(c.roster.Students()); n != 4 {
		t.Errorf("the roster has %d students: %+v; want 4", n, c.roster.Students())
	}

	// a student who hands in anew, and whose file has another name and number, is the same one
	before := first[filepath.ToSlash(c.path("c/s_12_34_hw.ipynb"))]
	if err := os.Rename(c.path("c/s_12_34_hw.ipynb"), c.path("c/s_LATE_12_99_hw-1.ipynb")); err != nil {
		t.Fatal(err)
	}
	if got := c.must("", "c").Submissions[0].ID; got != before {
		t.Errorf("after handing in anew %s; was %s", got, before)
	}
}

func TestRosterFile(t *testing.T) {
	c := newClass(t, "student-01.ipynb")
	if err := os.Mkdir(filepath.Join(c.out, rosterDir), 0o755); err != nil {
		t.Fatal(err)
	}
	id := c.must("").Submissions[0].ID
	file := filepath.Join(c.out, rosterFile)
	for name, want := range map[string]os.FileMode{rosterDir: os.ModeDir | 0o700, rosterFile: 0o600} {
		if info, err := os.Stat(filepath.Join(c.out, name)); err != nil || info.Mode() != want {
			t.Errorf("mode of %s is %v (%v); want %v", name, info.Mode(), err, want)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) != 1 {
		t.Errorf("beside the roster there is %v (%v)", list, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)

	t.Run("a corrected name stays", func(t *testing.T) {
		rewrite(t, file, strings.Replace(good, `"name": "student-01"`, `"name": "One, Student"`, 1))
		if got := c.must("").Submissions[0].ID; got != id {
			t.Errorf("pseudonym is %s; was %s", got, id)
		}
		if s, _ := newRoster(t, c.out).Student(id); s.Name != "One, Student" {
			t.Errorf("name is %q", s.Name)
		}
	})
	for name, bad := range map[string]string{
		"empty":               "",
		"cut off":             good[:len(good)/2],
		"something after it":  good + "{}",
		"a later version":     strings.Replace(good, `"version": 1`, `"version": 2`, 1),
		"a field of later":    strings.Replace(good, `"name"`, `"nickname": "x", "name"`, 1),
		"a pseudonym twice":   strings.Replace(good, `"students": [`, `"students": [{"id": "`+id+`", "key": "name:other"},`, 1),
		"a key twice":         strings.Replace(good, `"students": [`, `"students": [{"id": "s-aaaaaa", "key": "name:student-01"},`, 1),
		"a path as pseudonym": strings.Replace(good, id, "../../x", 1),
		"a student of null":   strings.Replace(good, `"students": [`, `"students": [null,`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bad == good {
				t.Fatal("nothing was changed")
			}
			rewrite(t, file, bad)
			_, err := openRoster(t, c.out)
			if jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), rosterFile) || strings.Contains(err.Error(), "student-01") {
				t.Errorf("error is %v; want one of code invalid that names the file", err)
			}
			if now, err := os.ReadFile(file); err != nil || string(now) != bad {
				t.Errorf("the file was changed to %q (%v)", now, err)
			}
		})
	}
}

func rewrite(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever a roster holds, it is refused and stays as it is, or each student has a pseudonym of his own and is found by it.
func FuzzOpenRoster(f *testing.F) {
	for _, file := range []string{
		"", "null", `{"version":1}`, `{"version":1,"students":[null]}`, `{"version":1,"students":[{"id":"s-7kq2mx","key":"k"}]}`, `{"version":1,"students":[{"id":"s-7kq2mx","key":"k"},{"id":"s-7kq2mx","key":"l"}]}`,
		`{"version":1,"students":[{"id":"../../up","key":"k"}]}`, `{"version":1e400}`, `{"version":1}{}`, `{"version":2}`, `{"version":1,"students":` + strings.Repeat("[", 100),
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, rosterFile)
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openRoster(t, dir)
		if err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Errorf("error %v", err)
			}
			if left, err := os.ReadFile(file); err != nil || string(left) != string(data) {
				t.Errorf("the roster is now %q (%v)", left, err)
			}
			return
		}
		for _, s := range r.Students() {
			if found, ok := r.Student(s.ID); !isPseudonym(s.ID) || !ok || found.Key != s.Key {
				t.Errorf("student %+v is found as %+v", s, found)
			}
		}
	})
}
