package power

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A program that counts on a file, in 512 bytes a count, and syncs it after each: what it was told to be on the disk before the power went is on the disk.
func TestSyncedWritesSurvive(t *testing.T) {
	possible(t)
	d := disk(t, 64<<20)
	f, err := os.Create(filepath.Join(d.Path(), "count"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var synced atomic.Uint64
	stop := make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		record := make([]byte, 512)
		for n := uint64(1); ; n++ {
			binary.BigEndian.PutUint64(record, n)
			_, err := f.Write(record)
			if err = errors.Join(err, f.Sync()); err != nil {
				t.Errorf("write count %d: %v", n, err)
				return
			}
			synced.Store(n)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	defer counting.Wait()
	defer close(stop)
	for range 5 {
		reached(t, &synced, synced.Load()+100)
		before := synced.Load()
		after := cut(t, d)
		data, err := os.ReadFile(filepath.Join(after.Path(), "count"))
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < int(before)*512 {
			t.Fatalf("the disk holds %d counts after the cut; %d were synced before it", len(data)/512, before)
		}
		for i := range before {
			if n := binary.BigEndian.Uint64(data[i*512:]); n != i+1 {
				t.Fatalf("count %d on the disk is %d", i+1, n)
			}
		}
	}
}

// reached waits until a count is reached.
func reached(t *testing.T, count *atomic.Uint64, n uint64) {
	t.Helper()
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for count.Load() < n {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("the count is %d after 30 s; want %d", count.Load(), n)
		}
	}
}

// What only the page cache has is lost, although the program and everybody else can read it.
func TestUnsyncedWritesAreLost(t *testing.T) {
	possible(t)
	d := disk(t, 64<<20)
	name := filepath.Join(d.Path(), "file")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(" and new")); err != nil {
		t.Fatal(err)
	}
	after := cut(t, d)
	for _, look := range []struct {
		at   *Disk
		want string
	}{{d, "old and new"}, {after, "old"}} {
		if data, err := os.ReadFile(filepath.Join(look.at.Path(), "file")); string(data) != look.want || err != nil {
			t.Errorf("%s holds %q, %v; want %q", look.at.Path(), data, err, look.want)
		}
	}
}

// An image is one that ext4 can come to terms with: its journal is replayed and nothing else has to be fixed.
func TestImageIsOfOneInstant(t *testing.T) {
	possible(t)
	d := disk(t, 64<<20)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(stop)
	var rounds atomic.Uint64
	for _, dir := range []string{"a", "b"} {
		writing.Go(func() {
			for { // much of it in the file system's own records
				dir := filepath.Join(d.Path(), dir)
				err := os.MkdirAll(dir, 0o700)
				for _, name := range []string{"1", "2", "3"} {
					err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), 20_000), 0o600))
				}
				f, openErr := os.Open(dir)
				if err = errors.Join(err, openErr); err == nil {
					err = errors.Join(f.Sync(), f.Close(), os.RemoveAll(dir))
				}
				if err != nil {
					t.Error(err)
					return
				}
				rounds.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 5 {
		reached(t, &rounds, rounds.Load()+3)
		image := filepath.Join(t.TempDir(), "image")
		if err := d.Snapshot(t.Context(), image); err != nil {
			t.Fatal(err)
		}
		after, err := OpenImage(t.Context(), image, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		replayed := after.image() + ".replayed"
		if err := errors.Join(clean(t.Context(), "umount", after.Path()), copySparse(t.Context(), after.image(), replayed)); err != nil {
			t.Fatal(err)
		}
		after.mounted = after.mounted[:1]
		if err := command(t.Context(), "e2fsck", "-f", "-n", replayed); err != nil {
			t.Errorf("the file system is damaged: %v", err)
		}
		if err := after.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	possible(t)
	d := disk(t, minBytes)
	err := os.WriteFile(filepath.Join(d.Path(), "large"), make([]byte, minBytes), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing more than fits: error = %v, want %v", err, syscall.ENOSPC)
	}
}

// left lists what is mounted in a folder, and its loop devices.
func left(t *testing.T, dir string) (found []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	loops, err := exec.CommandContext(t.Context(), "losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts) + string(loops)) {
		if strings.Contains(line, dir) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// Whatever goes wrong, no mount and no loop device is left.
func TestNothingIsLeftBehind(t *testing.T) {
	possible(t)
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, bytes.Repeat([]byte("no file system "), 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		make func(dir string) (*Disk, error)
		want string // in the error
	}{
		{"closed", func(dir string) (*Disk, error) { return NewDisk(t.Context(), dir, 32<<20) }, ""},
		{"too small", func(dir string) (*Disk, error) { return NewDisk(t.Context(), dir, 1<<20) }, "at least 16777216"},
		{"cancelled", func(dir string) (*Disk, error) { return NewDisk(ended, dir, 32<<20) }, "canceled"},
		{"no image", func(dir string) (*Disk, error) { return OpenImage(t.Context(), junk+".none", dir) }, "no such file"},
		{"no file system", func(dir string) (*Disk, error) { return OpenImage(t.Context(), junk, dir) }, "mount"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "disk")
			d, err := tt.make(dir)
			switch {
			case err == nil && tt.want != "":
				t.Errorf("no error; want one that says %q", tt.want)
			case err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error = %v, want one that says %q", err, tt.want)
			}
			if err == nil {
				if n := len(left(t, dir)); n != 4 {
					t.Errorf("%d mounts and loop devices, want two of each", n)
				}
				for range 2 {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				}
				if err := d.Snapshot(t.Context(), dir+"/image"); err == nil {
					t.Error("a closed disk has an image")
				}
			}
			if found := left(t, dir); len(found) > 0 {
				t.Errorf("left behind: %q", found)
			}
			if names, _ := os.ReadDir(dir); len(names) > 0 {
				t.Errorf("files left behind: %v", names)
			}
		})
	}
}

// A disk in use says so, and can be closed when it is not.
func TestDiskInUse(t *testing.T) {
	possible(t)
	d := disk(t, 32<<20)
	f, err := os.Create(filepath.Join(d.Path(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("Close = %v, want an error that says busy", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// When the process that made the disk is gone, so are its mounts, also if the disk was frozen just then.
func TestGuardUnmounts(t *testing.T) {
	possible(t)
	d := disk(t, 32<<20)
	if err := command(t.Context(), "fsfreeze", "--freeze", d.lower()); err != nil {
		t.Fatal(err)
	}
	if closer, ok := d.dismiss.(interface{ Close() error }); !ok || closer.Close() != nil { // as the kernel does for the dead
		t.Fatal("the guard's pipe cannot be closed")
	}
	if err := d.guard.Wait(); err != nil {
		t.Fatal(err)
	}
	if found := left(t, d.dir); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
	d.mounted, d.guard = nil, nil
}
