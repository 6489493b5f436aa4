package intake

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/jobs"
)

// An entry is one of a ZIP file that a test makes.
type entry struct {
	name, content string
	mode          os.FileMode           // 0: a regular file
	lie           func(*zip.FileHeader) // makes the header say what is not true
	times         int                   // the content comes so often, packed one by one; its stream has no end
}

func zipOf(t testing.TB, entries ...entry) string {
	t.Helper()
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	for _, e := range entries {
		var packed bytes.Buffer
		deflate, err := flate.NewWriter(&packed, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deflate.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
		end := deflate.Close
		if e.times > 0 {
			end = deflate.Flush
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		h := &zip.FileHeader{
			Name: e.name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(e.content)),
			CompressedSize64: uint64(packed.Len() * max(e.times, 1)), UncompressedSize64: uint64(len(e.content) * max(e.times, 1)),
		}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		if e.lie != nil {
			e.lie(h)
		}
		out, err := w.CreateRaw(h)
		if err != nil {
			t.Fatal(err)
		}
		if e.mode.IsDir() {
			continue
		}
		if _, err := out.Write(bytes.Repeat(packed.Bytes(), max(e.times, 1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func notebooks(t testing.TB, names ...string) string {
	entries := make([]entry, len(names))
	for i, name := range names {
		entries[i] = entry{name: name, content: "content of " + name}
	}
	return zipOf(t, entries...)
}

func TestArchives(t *testing.T) {
	tests := []struct {
		name     string
		file     string
		want     string
		warnings []string
	}{
		{"Canvas", notebooks(t, "onestudent_12345_67890_hw4.ipynb", "twostudent_LATE_12346_67891_hw4.ipynb"),
			"onestudent #12345: onestudent_12345_67890_hw4.ipynb\ntwostudent #12346 late: twostudent_LATE_12346_67891_hw4.ipynb\n", nil},
		{"Canvas, packed again", notebooks(t, "class/onestudent_12345_67890_hw4.ipynb", "class/.DS_Store", "__MACOSX/class/._onestudent_12345_67890_hw4.ipynb"),
			"onestudent #12345: class/onestudent_12345_67890_hw4.ipynb\n", nil},
		{"Moodle", notebooks(t, "Student One_1234567_assignsubmission_file/hw4.ipynb"), "Student One #1234567: Student One_1234567_assignsubmission_file/hw4.ipynb\n", nil},
		{"nbgrader", notebooks(t, "course/submitted/student-01/hw1/p.ipynb", "course/source/hw1/p.ipynb"),
			"student-01 hw1: course/submitted/student-01/hw1/p.ipynb\n", []string{"1 notebook outside submitted left out"}},
		{"a flat folder in a folder", notebooks(t, "class/student-01.ipynb", "class/student-02.ipynb", "class/read.me"),
			"student-01: class/student-01.ipynb\nstudent-02: class/student-02.ipynb\n", []string{"left out 1 file of no student"}},
		{"folders in a folder", notebooks(t, "class/student-01/a.ipynb", "class/student-02/a.ipynb", "class/student-02/b.ipynb", "class/student-03/a.pdf"),
			"student-01: class/student-01/a.ipynb\nstudent-02: there are 2 notebooks, and one is graded\nstudent-03: there is no notebook\n", nil},
		{"names from Windows", notebooks(t, `student-01\a.ipynb`, "./student-02/a.ipynb", "student-03/a\xe9.ipynb"),
			"student-01: " + `student-01\a.ipynb` + "\nstudent-02: ./student-02/a.ipynb\nstudent-03: student-03/a\xe9.ipynb\n", nil},
		{"links, devices and folders", zipOf(t, entry{name: "student-01.ipynb", content: "content of it"}, entry{name: "student-02.ipynb", content: "/etc/passwd", mode: os.ModeSymlink | 0o777},
			entry{name: "student-03.ipynb", mode: os.ModeDevice | 0o600}, entry{name: "student-04.ipynb/", mode: os.ModeDir | 0o700}),
			"student-01: it\n", []string{"1 symbolic link not followed", "1 special file"}},
		{"a ZIP file within", zipOf(t, entry{name: "student-01.ipynb", content: "content of it"}, entry{name: "more.zip", content: notebooks(t, "student-02.ipynb")}),
			"student-01: it\n", []string{"(.zip; a ZIP file within is not opened"}},
		{"a size too small in the header", zipOf(t, entry{name: "student-01.ipynb", content: strings.Repeat("content ", 100), lie: func(h *zip.FileHeader) { h.UncompressedSize64 = 8 }}),
			"student-01: the notebook cannot be read\n", nil},
		{"a bomb", zipOf(t, entry{name: "student-01.ipynb", content: "content of it"}, entry{name: "student-02.ipynb", content: strings.Repeat("\x00", 1_000_000), times: 100}),
			"student-01: it\nstudent-02: the notebook is a ZIP bomb: it unpacks to 100 MB, more than 200 times its size in the ZIP file, and at most 32 MB are read\n", nil},
		{"much of the same", zipOf(t, entry{name: "student-01.ipynb", content: strings.Repeat("the same line\n", 200_000)}), "student-01: " + strings.Repeat("the same line\n", 200_000) + "\n", nil},
		{"a bomb that calls itself small", zipOf(t, entry{name: "student-01.ipynb", content: strings.Repeat("\x00", 1_000_000), times: 100, lie: func(h *zip.FileHeader) { h.UncompressedSize64 = 100 }}),
			"student-01: the notebook cannot be read\n", nil},
		{"a size too large in the header", zipOf(t, entry{name: "student-01.ipynb", content: "content", lie: func(h *zip.FileHeader) { h.UncompressedSize64 = 1 << 50 }}),
			"student-01: the notebook cannot be read\n", nil},
		{"a wrong checksum", zipOf(t, entry{name: "student-01.ipynb", content: "content", lie: func(h *zip.FileHeader) { h.CRC32++ }}, entry{name: "student-02.ipynb", content: "content of it"}),
			"student-01: the notebook cannot be read\nstudent-02: it\n", nil},
		{"a method that nobody knows", zipOf(t, entry{name: "student-01.ipynb", content: "content", lie: func(h *zip.FileHeader) { h.Method = 99 }}),
			"student-01: the notebook cannot be read\n", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClass(t)
			c.write("class.zip", test.file)
			found := c.must("", "class.zip")
			if got := c.lines(found); got != test.want {
				t.Errorf("found\n%s\nwant\n%s", got, test.want)
			}
			checkWarnings(t, found, test.warnings...)
		})
	}
}

func TestUnsafeArchives(t *testing.T) {
	tests := []struct {
		name string
		file string
		want string
	}{
		{"a way up", notebooks(t, "student-01.ipynb", "../student-02.ipynb"), "entry 2 leads out of the archive"},
		{"a way up that ends within", notebooks(t, "a/../student-02.ipynb"), "entry 1 leads out of the archive"},
		{"a way up by backslashes", notebooks(t, `a\..\..\student-02.ipynb`), "entry 1 leads out of the archive"},
		{"an absolute name", notebooks(t, "/tmp/student-02.ipynb"), "entry 1 leads out of the archive"},
		{"an absolute name of Windows", notebooks(t, `C:\student-02.ipynb`), "entry 1 leads out of the archive"},
		{"encrypted", zipOf(t, entry{name: "student-02.ipynb", content: "x", lie: func(h *zip.FileHeader) { h.Flags |= 1 }}), "is encrypted; unpack it"},
		{"cut off", notebooks(t, "student-02.ipynb")[:60], "is no ZIP file, or is damaged"},
		{"empty", zipOf(t), "holds no notebook"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClass(t)
			c.write("class.zip", test.file)
			_, err := c.collect("", defaultLimits(), "class.zip")
			if jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "student-02") {
				t.Errorf("error is %v; want one of code invalid with %q", err, test.want)
			}
			if list, err := os.ReadDir(c.dir); err != nil || len(list) != 1 {
				t.Errorf("beside the archive there is %v (%v)", list, err)
			}
			if _, err := os.Stat(filepath.Join(c.out, rosterFile)); err == nil {
				t.Error("a roster was written")
			}
		})
	}
}

func TestLimitsOfArchives(t *testing.T) {
	c := newClass(t)
	c.write("class.zip", notebooks(t, "student-01.ipynb", "student-02.ipynb", "student-03.ipynb"))
	ample := limits{notebook: 1000, entries: 3, total: 1000, ratio: 200}
	if _, err := c.collect("", ample, "class.zip"); err != nil {
		t.Errorf("within the limits: %v", err)
	}
	few, little := ample, ample
	few.entries, little.total = 2, 60
	if _, err := c.collect("", few, "class.zip"); err == nil || !strings.Contains(err.Error(), "3 entries; 2 are allowed") {
		t.Errorf("too many entries: %v", err)
	}
	if _, err := c.collect("", little, "class.zip"); err == nil || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("too much in all: %v", err)
	}
	small := ample
	small.notebook = 10
	found, err := c.collect("", small, "class.zip")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found.Submissions {
		if _, err := s.Read(); s.Problem == nil || s.SHA256 != "" || jobs.CodeOf(err) != jobs.CodeInvalid {
			t.Errorf("a notebook too large: problem %v, read %v", s.Problem, err)
		}
	}
}

// Reading must not depend on what an archive says of itself.
func FuzzArchive(f *testing.F) {
	f.Add([]byte(notebooks(f, "onestudent_12345_67890_hw4.ipynb", `a\b.ipynb`, "submitted/a/b/c.ipynb")))
	f.Add([]byte(zipOf(f, entry{name: "a.ipynb", content: strings.Repeat("a", 5000), lie: func(h *zip.FileHeader) { h.UncompressedSize64 = 1 }})))
	f.Add([]byte(zipOf(f, entry{name: "a.ipynb", content: "b", mode: os.ModeSymlink})))
	f.Add([]byte("PK\x05\x06"))
	few := limits{notebook: 4096, entries: 10, total: 8192, ratio: 200}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(dir, "class.zip")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := collect(t.Context(), []string{file}, Choice{}, newRoster(t, t.TempDir()), few)
		if err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Fatalf("code of %v", err)
			}
			return
		}
		for _, s := range found.Submissions {
			if data, err := s.Read(); len(data) > 4096 || (err == nil) != (s.Problem == nil) {
				t.Fatalf("read %d bytes, %v; problem %v", len(data), err, s.Problem)
			}
		}
		if err := found.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
