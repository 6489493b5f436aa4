package program

import (
	"os"
	"strings"
	"testing"
)

func TestStartTicks(t *testing.T) {
	mine, ok := startTicks(os.Getpid())
	first, okFirst := startTicks(1)
	if !ok || mine == 0 || okFirst && first > mine {
		t.Errorf("this process started at %d (%t), the first one at %d (%t)", mine, ok, first, okFirst)
	}
	if _, ok := startTicks(1 << 30); ok {
		t.Error("a process that cannot be has a start")
	}
}

func TestAnotherProcessOfTheSameNumberIsNotIt(t *testing.T) {
	mine, _ := startTicks(os.Getpid())
	for ticks, want := range map[uint64]State{mine: Alive, mine + 1: Gone, 0: Maybe} {
		if s := (Record{PID: os.Getpid(), Ticks: ticks}).State(); s != want {
			t.Errorf("state %v of a process recorded with start %d, want %v", s, ticks, want)
		}
	}
}

const tail = " 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"

func TestParseStat(t *testing.T) {
	for stat, want := range map[string]uint64{
		"12 (llama-server) S" + tail:          4711,
		"12 (a) b (c) 1 2 3) R" + tail:        4711,
		"12 (llama-server) Z" + tail:          0, // ended; its parent has not looked yet
		"12 (llama-server) S 1 1 1 0":         0,
		"12 (x) S" + strings.Repeat(" x", 40): 0,
		"":                                    0,
	} {
		if got, ok := parseStat([]byte(stat)); got != want || ok != (want != 0) {
			t.Errorf("%q: %d, %t; want %d", stat, got, ok, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (llama-server) S" + tail))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if ticks, ok := parseStat(stat); ok != (ticks > 0) {
			t.Errorf("%q: %d, %t", stat, ticks, ok)
		}
	})
}
