package host

import (
	"strings"
	"testing"
	"time"
)

func TestWallClockMovesAndNothingElse(t *testing.T) {
	programs, err := build(t.Context(), t.TempDir(), []string{"tandem/test/rig/host/testdata/clock"}, BuildOptions{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Name: "clock", Program: programs.Path("clock")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Says(t.Context(), "moved 0s\n"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		by   time.Duration
		want string
	}{
		{time.Hour, "moved 1h0m0s\n"},
		{-time.Hour, "moved -1h0m0s\n"}, // absolute: not back to where it was
		{-1500*time.Hour - 400*time.Millisecond, "moved -1500h0m0s\n"},
		{0, "moved 0s\n"},
	} {
		if err := p.MoveClock(tt.by); err != nil {
			t.Fatal(err)
		}
		if err := p.Says(t.Context(), tt.want); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill()
	for _, bad := range []string{"a duration moved", "the minute is over"} {
		if strings.Contains(p.Output(), bad) {
			t.Errorf("the program says %q", p.Output())
		}
	}
	if err := p.MoveClock(time.Hour); err == nil {
		t.Error("the clock of a program that has ended was moved")
	}
	ahead, err := Start(Spec{Name: "clock", Program: programs.Path("clock"), Clock: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer ahead.Kill()
	if err := ahead.Says(t.Context(), "moved 0s\n"); err != nil { // since it began
		t.Fatal(err)
	}
	if err := ahead.MoveClock(0); err != nil {
		t.Fatal(err)
	}
	if err := ahead.Says(t.Context(), "moved -1h0m0s\n"); err != nil {
		t.Fatal(err)
	}
}

func TestOrdinaryProgramHasNoClockToMove(t *testing.T) {
	p, err := Start(shell("sleeper", "sleep 600 & wait"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.MoveClock(time.Hour); err == nil || !strings.Contains(err.Error(), "BuildOptions.Clock") {
		t.Errorf("error %v, want one that says how to build it", err)
	}
}
