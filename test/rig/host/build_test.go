package host

import (
	"os"
	"strings"
	"testing"
)

const (
	helloPackage = "tandem/test/rig/host/testdata/hello"
	helloFile    = "test/rig/host/testdata/hello/main.go"
)

// said runs a program to its end and returns its output.
func said(t *testing.T, program string) string {
	t.Helper()
	p, err := Start(Spec{Name: "hello", Program: program})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if p.Code() != 0 {
		t.Fatalf("exit status %d, output %q", p.Code(), p.Output())
	}
	return p.Output()
}

func TestBuildSeesEdits(t *testing.T) {
	for name, tt := range map[string]struct {
		o    BuildOptions
		want string
	}{
		"none": {BuildOptions{}, "hello, world\n"},
		"of the module, one after the other": {BuildOptions{Edits: []Edit{
			{helloFile, `"world"`, `"moon"`},
			{helloFile, `"moon"`, `"mars"`},
		}}, "hello, mars\n"},
		"of the standard library": {BuildOptions{Edits: []Edit{
			{"std:fmt/print.go", "func Println(a ...any) (n int, err error) {\n", "func Println(a ...any) (n int, err error) {\n\ta = append(a, \"again\")\n"},
		}}, "hello, world again\n"},
		"with the race detector": {BuildOptions{Race: true, Only: []string{"hello"}, Edits: []Edit{{helloFile, `"hello, "`, `"good bye, "`}}}, "good bye, world\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := build(t.Context(), t.TempDir(), []string{helloPackage}, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := said(t, p.Path("hello")); got != tt.want {
				t.Errorf("the program says %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBuildLeavesAloneWhatDidNotChange(t *testing.T) {
	dir := t.TempDir()
	built := func(world string) os.FileInfo {
		p, err := build(t.Context(), dir, []string{helloPackage}, BuildOptions{Edits: []Edit{{helloFile, `"world"`, world}}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(p.Path("hello"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	moon := built(`"moon"`)
	if !os.SameFile(moon, built(`"moon"`)) {
		t.Error("the program was written again")
	}
	if os.SameFile(moon, built(`"mars"`)) {
		t.Error("a program that is another now was not written again")
	}
}

func TestBuildRefuses(t *testing.T) {
	for want, o := range map[string]BuildOptions{
		"edit " + helloFile + ": Old occurs 0 times, want once": {Edits: []Edit{{helloFile, "no such text", "x"}}},
		"edit " + helloFile + ": Old occurs 2 times, want once": {Edits: []Edit{{helloFile, "main", "x"}}},
		"edit no/such/file.go: open ":                           {Edits: []Edit{{"no/such/file.go", "a", "b"}}},
		`no program is named "hallo": there are hello`:          {Only: []string{"hallo"}},
		"main.go:7:2: undefined: broken":                        {Edits: []Edit{{helloFile, "fmt.Println", "broken"}, {helloFile, `import "fmt"`, ""}}},
	} {
		_, err := build(t.Context(), t.TempDir(), []string{helloPackage}, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
