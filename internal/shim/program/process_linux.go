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
	// The second field is the program's name in parentheses, and may itself have spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const started = 22 - 3 // of proc(5)'s fields, which count from 1; two are cut off
	if len(fields) <= started || string(fields[0]) == "Z" {
		return 0, false
	}
	ticks, err := strconv.ParseUint(string(fields[started]), 10, 64)
	return ticks, err == nil && ticks > 0
}
