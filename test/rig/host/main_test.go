package host

import (
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// parent makes this test program start and freeze a child of a child and tell their group; then it waits to be killed.
const parent = "TANDEM_TEST_HOST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parent) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	p, err := Start(shell("frozen", "sleep 600 & wait"))
	if err != nil {
		panic(err)
	}
	if err := p.Freeze(); err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(p.Pid()) + "\n")
	select {}
}

func shell(name, script string) Spec {
	return Spec{Name: name, Program: "/bin/sh", Args: []string{"-c", script}}
}
