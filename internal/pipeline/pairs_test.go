package pipeline_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/pipeline"
	"tandem/jobs"
)

func openPairs(t *testing.T, file string) *pipeline.Pairs {
	t.Helper()
	p, err := pipeline.OpenPairs(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stopPair notes as many differing states as it takes.
func stopPair(p *pipeline.Pairs, machine string) {
	for !p.Compared(machine, "it differs by 0.4") {
	}
}

// Three of the last twenty states of a machine stop it, whatever lies between them.
func TestPairIsStopped(t *testing.T) {
	for _, tt := range []struct {
		name    string
		states  string // d differs
		stopped bool
	}{
		{"at once", "ddd", true},
		{"twice", "dd", false},
		{"now and then", "d........d........d", true},
		{"rarely", "d.........d..........d", false},
		{"after many good ones", strings.Repeat(".", 100) + "ddd", true},
	} {
		p := openPairs(t, filepath.Join(t.TempDir(), "stopped.json"))
		stops := 0
		for _, c := range tt.states {
			message := ""
			if c == 'd' {
				message = "it differs"
			}
			if p.Compared("spark-1", message) {
				stops++
			}
			p.Compared("spark-2", "")
		}
		got := len(p.Stopped()) == 1 && p.Stopped()[0] == "spark-1" && p.Why("spark-1") != ""
		if got != tt.stopped || (stops == 1) != tt.stopped || p.Why("spark-2") != "" {
			t.Errorf("%s: stopped %v, said %d times; want %t", tt.name, p.Stopped(), stops, tt.stopped)
		}
	}
}

// What was stopped stays so over a restart, for all workers that share the file, until an operator clears it.
func TestStoppedPairsOutlastTheWorker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "stopped.json")
	p, beside := openPairs(t, file), openPairs(t, file)
	stopPair(p, "spark-1")
	stopPair(p, "spark-2")
	again := openPairs(t, file)
	for _, q := range []*pipeline.Pairs{p, beside, again} {
		if got := q.Stopped(); !slices.Equal(got, []string{"spark-1", "spark-2"}) || !strings.Contains(q.Why("spark-1"), "it differs by 0.4") {
			t.Errorf("stopped %v, why %q", got, q.Why("spark-1"))
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}

	if cleared, err := pipeline.ClearPairs(file, "spark-3"); err != nil || len(cleared) != 0 {
		t.Errorf("cleared %v, %v; nothing was stopped from there", cleared, err)
	}
	if cleared, err := pipeline.ClearPairs(file, "spark-1"); err != nil || !slices.Equal(cleared, []string{"spark-1"}) {
		t.Errorf("cleared %v, %v", cleared, err)
	}
	for _, q := range []*pipeline.Pairs{p, beside, again} {
		if got := q.Stopped(); !slices.Equal(got, []string{"spark-2"}) || q.Why("spark-1") != "" {
			t.Errorf("stopped %v after spark-1 was cleared", got)
		}
	}
	if p.Compared("spark-1", "it differs") {
		t.Error("one state stops a machine that was cleared")
	}
	if cleared, err := pipeline.ClearPairs(file, ""); err != nil || !slices.Equal(cleared, []string{"spark-2"}) || len(p.Stopped()) != 0 {
		t.Errorf("cleared %v, %v; still stopped %v", cleared, err, p.Stopped())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	stopPair(p, "spark-1") // the file can be removed, too
	if err := os.Remove(file); err != nil || len(p.Stopped()) != 0 {
		t.Errorf("stopped %v after the file was removed (%v)", p.Stopped(), err)
	}
}

func TestStoppedPairsThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "stopped.json")
	if err := os.WriteFile(file, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pipeline.OpenPairs(file, slog.New(slog.DiscardHandler)); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v; want one that names the file", err)
	}
	if _, err := pipeline.ClearPairs(file, ""); err == nil {
		t.Error("a file that cannot be read was cleared")
	}
	blocked := filepath.Join(dir, "blocked")
	p := openPairs(t, filepath.Join(blocked, "stopped.json"))
	if err := os.WriteFile(blocked, nil, 0o600); err != nil { // where the folder should be
		t.Fatal(err)
	}
	stopPair(p, "spark-1")
	if p.Why("spark-1") == "" {
		t.Error("a machine is not stopped, because that cannot be kept in a file")
	}
}

// An operator who clears as root leaves a file that the worker's user can read: without it a worker does not start.
func TestClearingLeavesTheFileToItsOwner(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stopped.json")
	stopPair(openPairs(t, file), "spark-1")
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	if cleared, err := pipeline.ClearPairs(file, ""); err != nil || len(cleared) != 1 {
		t.Fatalf("cleared %v, %v", cleared, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != owner || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v of %+v; want it to be of user %d", info.Mode(), s, owner)
	}
}

// Whatever the file of stopped machines holds, it is refused by its name and left alone, or all that it stops can be cleared.
func FuzzOpenPairs(f *testing.F) {
	for _, file := range []string{
		"", "null", "[]", `{}`, `{"machines":null}`, `{"machines":{"spark-1":{}}}`, `{"machines":{"spark-1":{"at":"2030-01-02T11:00:00Z","message":"it differs"},"":{},"spark-1":{}}}`,
		`{"machines":{"\u202e\n":{"message":1e400}}}`, `{"machines":` + strings.Repeat("[", 100),
	} {
		f.Add([]byte(file))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(dir, "stopped.json")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := pipeline.OpenPairs(file, slog.New(slog.DiscardHandler))
		if err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), file) {
				t.Errorf("error %v; want one that names the file", err)
			}
			if left, err := os.ReadFile(file); err != nil || string(left) != string(data) {
				t.Errorf("the file is now %q (%v)", left, err)
			}
			return
		}
		stopped := p.Stopped()
		if cleared, err := pipeline.ClearPairs(file, ""); err != nil || !slices.Equal(cleared, stopped) {
			t.Errorf("cleared %q, %v; want %q", cleared, err, stopped)
		}
		if left := openPairs(t, file).Stopped(); len(left) != 0 {
			t.Errorf("%q are stopped after all were cleared", left)
		}
	})
}
