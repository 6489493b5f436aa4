package app

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tandem/jobs"
)

// ByteSize is a number of bytes that people write with a unit, such as 32GB, 512 MiB or 1.5TB.
type ByteSize int64

// units are those that are understood, the largest first, so that the text is written with the first one that fits.
var units = [...]struct {
	name  string
	bytes int64
}{
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1},
}

// UnmarshalText reads a number and, behind it, a unit in any case; without one it is of bytes.
func (b *ByteSize) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(number):]
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err == nil && unit == "" {
		unit = "B"
	}
	for _, u := range units {
		if err == nil && strings.EqualFold(u.name, unit) && v >= 0 && v*float64(u.bytes) < math.MaxInt64 {
			*b = ByteSize(v * float64(u.bytes))
			return nil
		}
	}
	return jobs.Errorf(jobs.CodeInvalid, "%.40q is no number of bytes; want one such as 32GB or 512MiB", s)
}

// MarshalText writes the number with the largest unit in which it is whole.
func (b ByteSize) MarshalText() ([]byte, error) {
	for _, u := range units {
		if b > 0 && int64(b)%u.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", int64(b)/u.bytes, u.name), nil
		}
	}
	return fmt.Appendf(nil, "%dB", int64(b)), nil
}
