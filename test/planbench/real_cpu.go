package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticksPerSecond are the units of /proc.
const ticksPerSecond = 100

// cpuSeconds is how long the processes of some groups, by their ids, have computed so far. It is what an engine has to do for a class whatever else the
// machine is at; 0 where there is no /proc.
func cpuSeconds(groups ...int) (sum float64) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // it fails for bad patterns only
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:])) // what comes before may hold anything
		const group, user, system = 2, 11, 12
		if len(fields) <= system {
			continue
		}
		for _, id := range groups {
			if fields[group] != strconv.Itoa(id) {
				continue
			}
			for _, i := range []int{user, system} {
				ticks, _ := strconv.Atoi(fields[i])
				sum += float64(ticks) / ticksPerSecond
			}
		}
	}
	return sum
}
