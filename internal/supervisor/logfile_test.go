package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogFileIsBoundedAndRemembersTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	block := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n')
	for range 25 {
		if n, err := l.Write(block); n != len(block) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	for name, most := range map[string]int64{path: maxLogFile, path + ".1": maxLogFile} {
		info, err := os.Stat(name)
		if err != nil || info.Size() > most || info.Size() == 0 || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v; want at most %d bytes, for the owner only", name, info, err, most)
		}
	}
	l.forget()
	for i := range 10 {
		fmt.Fprintf(l, "line %d\n\n", i)
	}
	fmt.Fprint(l, "cut in ", "two\nnot ended")
	if got, want := l.last(), "line 5 | line 6 | line 7 | line 8 | line 9 | cut in two"; got != want {
		t.Errorf("last lines %q, want %q", got, want)
	}
	fmt.Fprintln(l, strings.Repeat("y", 1000))
	if got := l.last(); !strings.HasSuffix(got, "yyy") || len(got) > tailLines*(maxTailLine+3) {
		t.Errorf("a long line makes %d bytes", len(got))
	}
}

func TestLogFileGoesNowhereIfNotNamed(t *testing.T) {
	l, err := openLog("")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(l, "heard")
	l.close()
	fmt.Fprintln(l, "afterwards")
	if got := l.last(); got != "heard | afterwards" {
		t.Errorf("last lines %q", got)
	}
}
