package natsembed

import "testing"

// A small disk keeps nobody from trying Tandem.
func TestStoreLimit(t *testing.T) {
	for free, want := range map[int64]int64{0: reserved, 3 << 30: reserved, 10 << 30: reserved, 11 << 30: 0, 1 << 40: 0} {
		if got := limitFor(free); got != want {
			t.Errorf("with %d bytes free: %d, want %d", free, got, want)
		}
	}
	dir := t.TempDir()
	if got, want := storeLimit(dir+"/to be/made"), storeLimit(dir); got != want {
		t.Errorf("of a folder that is not there: %d, want %d", got, want)
	}
}
