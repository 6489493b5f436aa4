// Package units writes counts, sizes and times for people: one way for all messages, tables and decisions.
package units

import (
	"fmt"
	"strconv"
	"time"
)

// Count writes a number with commas, as in 12,345.
func Count[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Bytes writes a size in units of thousands, as disks and links are measured: 512 bytes, 1.5 kB, 51 MB, 2.1 GB.
func Bytes[N int | int64 | uint64](bytes N) string {
	for _, u := range []struct {
		unit float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		switch v := float64(bytes) / u.unit; {
		case v < 1:
		case v < 9.95:
			return fmt.Sprintf("%.1f %s", v, u.name)
		default:
			return fmt.Sprintf("%.0f %s", v, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// Duration writes a time with as many digits as can be believed: 1.2 ms, 27 ms, 1.3 s, 227 s.
func Duration(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 99.95e3:
		return fmt.Sprintf("%.1f s", ms/1e3)
	default:
		return fmt.Sprintf("%.0f s", ms/1e3)
	}
}

// Seconds is [Duration] of so many seconds.
func Seconds(s float64) string { return Duration(time.Duration(s * float64(time.Second))) }

// Roughly writes an estimate in whole seconds, at least one, or minutes if it is long.
func Roughly(d time.Duration) string {
	if d >= 2*time.Minute {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", max(1, d.Seconds()))
}
