package app

import (
	"fmt"
	"runtime"
)

// version is set by the linker.
var version = "dev"

// Version is the version of this build.
func Version() string { return version }

// VersionLine is what --version prints.
func VersionLine(command string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)", command, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
