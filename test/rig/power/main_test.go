package power

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// possible skips a test where there can be no disks, and says why.
func possible(t *testing.T) {
	t.Helper()
	if err := Possible(); err != nil {
		t.Skipf("NOT TESTED: what a loss of power leaves: %v", err)
	}
}

// disk makes a disk that ends with the test.
func disk(t *testing.T, size int64) *Disk {
	t.Helper()
	d, err := NewDisk(t.Context(), t.TempDir(), size)
	if err != nil {
		t.Fatal(err)
	}
	closes(t, d)
	return d
}

// closes has a disk closed at the end of the test.
func closes(t *testing.T, d *Disk) {
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// cut takes the power away: it returns the disk as it comes up again.
func cut(t *testing.T, d *Disk) *Disk {
	t.Helper()
	dir := t.TempDir()
	image := dir + "/image"
	if err := d.Snapshot(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	after, err := OpenImage(t.Context(), image, dir+"/disk")
	if err != nil {
		t.Fatal(err)
	}
	closes(t, after)
	return after
}
