package units

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567", Count(uint64(12345)): "12,345",
		Bytes(0): "0 bytes", Bytes(999): "999 bytes", Bytes(1500): "1.5 kB", Bytes(int64(51_100_000)): "51 MB", Bytes(5_640_000): "5.6 MB",
		Bytes(uint64(2_147_483_648)): "2.1 GB", Bytes(int64(32e9)): "32 GB",
		Duration(0): "0.0 ms", Duration(1200 * time.Microsecond): "1.2 ms", Duration(27 * time.Millisecond): "27 ms", Duration(999_600 * time.Microsecond): "1.0 s",
		Duration(13_900 * time.Millisecond): "13.9 s", Duration(227 * time.Second): "227 s", Seconds(0.25): "250 ms",
		Roughly(10 * time.Millisecond): "1 s", Roughly(90 * time.Second): "90 s", Roughly(10 * time.Minute): "10 min",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
