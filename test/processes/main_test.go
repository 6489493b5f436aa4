// Package processes shows that no job is lost or done twice when a process of the system is: the
// programs run as on the machines, each a process of its own, and are killed, stopped and started again.
//
// Only the engines are fake, and in the test's process, so that a job in the middle of its computation
// is a state that a test can wait for, and what the engines were asked can be counted.
package processes

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run builds the programs and runs the tests with them on the PATH.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "tandem-processes-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if raced() {
		args = append(args, "-race") // then every scenario looks for races in the programs, too
	}
	build := exec.Command("go", append(args, "tandem/cmd/...")...)
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		return 0, err
	}
	// A scenario mostly waits for what a lost process held to be delivered again, so many run at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// raced reports whether this test was built with the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
