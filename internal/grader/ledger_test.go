package grader

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/jobs"
)

// A line without its end is one of a process that died while it wrote: it is cut off, wherever that was.
func TestATornLedgerIsReadUpToItsLastWholeLine(t *testing.T) {
	b := newBench(t, 1)
	b.grade()
	whole := []byte(strings.Join(b.ledger(), ""))
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(filepath.Join(dir, ledgerFile), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLedger(root, "ledger")
		if err != nil {
			t.Fatalf("cut at byte %d: %v", cut, err)
		}
		left, err := root.ReadFile(ledgerFile)
		if err != nil {
			t.Fatal(err)
		}
		want := whole[:bytes.LastIndexByte(whole[:cut], '\n')+1]
		if !bytes.Equal(left, want) || len(l.attempts) != bytes.Count(want, []byte(`{"asked"`)) || (l.begun != nil) != (len(want) > 0) {
			t.Fatalf("cut at byte %d: %d bytes and %d requests are left of %d bytes", cut, len(left), len(l.attempts), len(want))
		}
		if err := l.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADamagedLedgerIsRefusedByLine(t *testing.T) {
	b := newBench(t, 1)
	b.grade()
	whole := b.ledger()
	answered := slices.IndexFunc(whole, func(l string) bool { return strings.HasPrefix(l, `{"answered"`) })
	tests := map[string]struct {
		line int // from 1
		text string
	}{
		"no JSON":             {2, "zzz\n"},
		"cut in the middle":   {3, whole[2][:20] + "\n"},
		"two on a line":       {2, strings.TrimSuffix(whole[1], "\n") + whole[2]},
		"begins with another": {1, whole[1]},
		"begins twice":        {3, whole[0]},
		"answers nothing":     {2, whole[answered]},
		"asks twice":          {3, whole[1]},
		"says nothing":        {2, "{}\n"},
		"of another version":  {1, strings.Replace(whole[0], `"v":1`, `"v":2`, 1)},
		"about no such judge": {2, strings.Replace(whole[1], `"judge":"code"`, `"judge":"nobody"`, 1)},
		"fields nobody knows": {2, strings.Replace(whole[1], `"judge"`, `"cost":1,"judge"`, 1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			lines := slices.Clone(whole)
			lines[tt.line-1] = tt.text
			b.restart(strings.Join(lines, ""))
			_, err := Open(t.Context(), b.load(), b.options(resume))
			if want := fmt.Sprintf("%s, line %d ", filepath.Join(b.out, ledgerFile), tt.line); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), want) {
				t.Errorf("Open: %v; want an error of code invalid that names %q", err, want)
			}
		})
	}
}

func FuzzLedger(f *testing.F) {
	begun := `{"begun":{"v":1,"batch":"grade-a","user":"u","created":"2026-03-01T09:00:00Z"}}` + "\n"
	asked := `{"asked":{"student":"s-1","judge":"code","attempt":1,"key":"k","inputs":{"notebook":"n","rubric":"r","solution":"s"},"job":"j","at":"2026-03-01T09:00:00Z"}}` + "\n"
	ended := `{"answered":{"job":"j","state":"ok","sha256":"a","at":"2026-03-01T09:00:00Z"}}` + "\n"
	for _, seed := range []string{"", begun, begun + asked, begun + asked + ended, begun + asked[:30], asked, "\n", "\x00\x00", begun + `{"asked":null}` + "\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := root.WriteFile(ledgerFile, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLedger(root, "ledger")
		if err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Errorf("open: %v, want an error of code invalid", err)
			}
			return
		}
		defer l.file.Close()
		if l.begun == nil && (len(l.attempts) > 0 || bytes.IndexByte(data, '\n') >= 0) {
			t.Error("lines were taken of a ledger that does not begin")
		}
	})
}
