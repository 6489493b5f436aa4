package program

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// startTicks is when a process was made, in clock ticks since the machine's start. It is false if the
// process is gone, has ended but its parent does not know yet, or is hidden from this user.
func startTicks(pid int) (uint64, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	return parseStat(stat)
}

// parseStat reads the start from a process's stat file, which has 52 fields in proc(5).
func parseStat(stat []byte) (uint64, bool) {
	// The second field is the program's name in parentheses, and may itself have spaces and parentheses.
	_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	const state, started = 0, 19 // there 3 and 22: it counts from 1, and two fields are cut off
	if len(fields) <= started || string(fields[state]) == "Z" {
		return 0, false
	}
	ticks, err := strconv.ParseUint(string(fields[started]), 10, 64)
	return ticks, err == nil && ticks > 0
}
