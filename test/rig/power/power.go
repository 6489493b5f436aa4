// Package power is a disk that loses power: a file system whose image can be taken at any instant as a power cut would leave it.
//
// The disk is an ext4 file system, as a machine has it, in an image file. The image file lies on a second file system, which can be
// frozen: while it is, nothing that the first one writes reaches the image, so that a copy of the image is of one instant. What
// waits in the page cache is not in it, and a write that is in the middle of its fsync is in it as far as it had come.
//
// What a copy holds is every block that the disk was given and had confirmed. So this is the disk that a data sheet promises; one that lies about what
// it has flushed is worse, and no software survives it.
package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// cleanLimit bounds each step of undoing something, which no caller's context does.
const cleanLimit = 20 * time.Second

// minBytes is the smallest disk: ext4 and its journal need some room.
const minBytes = 16 << 20

// Possible says why there can be no disks here, with the remedy; nil if there can.
func Possible() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("disks that lose power need Linux's loop devices; this is %s: run on Linux", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("disks that lose power are mounted, which only root may do: run as root")
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("disks that lose power need loop devices: %w; load the kernel's module loop, and give a container --privileged", err)
	}
	if err := control.Close(); err != nil {
		return fmt.Errorf("close /dev/loop-control: %w", err)
	}
	for program, of := range map[string]string{"mkfs.ext4": "e2fsprogs", "losetup": "util-linux", "mount": "mount", "fsfreeze": "util-linux", "setsid": "util-linux"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("disks that lose power need the program %s: install the package %s", program, of)
		}
	}
	return nil
}

// Disk is a mounted file system. See [NewDisk].
type Disk struct {
	dir string

	mu      sync.Mutex // one snapshot at a time, and none while the disk is closed
	closed  bool
	mounted []string // the folders on which something is mounted, in the order of mounting
	guard   *exec.Cmd
	dismiss io.WriteCloser // tells the guard that nothing is left to be undone
}

// guardian undoes the mounts in the folder $1 when this process has gone without doing it, by whatever means: then the pipe that it
// reads from ends without a word.
const guardian = `read -r _ && exit 0
fsfreeze --unfreeze "$1/lower"
umount --lazy "$1/mnt"
umount --lazy "$1/lower"`

// NewDisk makes an empty disk of so many bytes, of which ext4 needs some itself, with all of its files in the folder dir, which is made if missing. The files take
// no more room than what was written. The disk is to be closed; if this process is killed, it is unmounted all the same.
func NewDisk(ctx context.Context, dir string, size int64) (*Disk, error) {
	if size < minBytes {
		return nil, fmt.Errorf("make disk: size is %d bytes; want at least %d", size, minBytes)
	}
	d, err := open(ctx, dir, size, func(image string) error {
		if err := sparse(image, size); err != nil {
			return err
		}
		return command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-i", "16384", image)
	})
	if err != nil {
		return nil, fmt.Errorf("make disk in %s: %w", dir, err)
	}
	return d, nil
}

// OpenImage makes a disk of what [Disk.Snapshot] left: the machine has power again, and ext4 replays its journal. The image is copied and stays as it is.
func OpenImage(ctx context.Context, image, dir string) (*Disk, error) {
	info, err := os.Stat(image)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	d, err := open(ctx, dir, info.Size(), func(file string) error { return copySparse(ctx, image, file) })
	if err != nil {
		return nil, fmt.Errorf("open image %s in %s: %w", image, dir, err)
	}
	return d, nil
}

// open makes a disk of the image that fill writes.
func open(ctx context.Context, dir string, size int64, fill func(image string) error) (_ *Disk, err error) {
	if err := Possible(); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	d := &Disk{dir: dir}
	for _, folder := range []string{d.lower(), d.Path()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.watch(); err != nil {
		return nil, err
	}
	// Of the lower file system nothing is wanted but that it can be frozen, so it has no journal and flushes nothing.
	if err := sparse(d.lowerImage(), size+size/8+minBytes); err != nil {
		return nil, err
	}
	if err := command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-N", "64", "-O", "^has_journal", d.lowerImage()); err != nil {
		return nil, err
	}
	if err := d.mount(ctx, d.lowerImage(), d.lower(), "noatime,barrier=0"); err != nil {
		return nil, err
	}
	if err := fill(d.image()); err != nil {
		return nil, err
	}
	// With direct I/O what this file system writes, and when, is what reaches the image: no page cache lies between.
	if err := d.mount(ctx, d.image(), d.Path(), "noatime", "--direct-io=on"); err != nil {
		return nil, err
	}
	return d, nil
}

// Path is the folder of the disk's files. It is empty but for lost+found at first.
func (d *Disk) Path() string { return filepath.Join(d.dir, "mnt") }

func (d *Disk) lower() string      { return filepath.Join(d.dir, "lower") }
func (d *Disk) lowerImage() string { return filepath.Join(d.dir, "lower.img") }
func (d *Disk) image() string      { return filepath.Join(d.lower(), "disk.img") }

// Snapshot writes the image that a power cut at this instant would leave. Whatever was confirmed as flushed before the call is in it. Writers may go on meanwhile:
// their writes to the disk wait for some milliseconds, and are not in the image.
func (d *Disk) Snapshot(ctx context.Context, image string) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("take image of disk %s: it is closed", d.dir)
	}
	// Freezing lets writes to the image that have begun end, and none begin, and only then writes out what the lower file system holds itself.
	err = command(ctx, "fsfreeze", "--freeze", d.lower())
	if err == nil {
		err = copySparse(ctx, d.image(), image)
	}
	// Also after an error: a freeze that was cancelled may have taken place.
	if thaw := clean(ctx, "fsfreeze", "--unfreeze", d.lower()); thaw != nil && err == nil {
		err = thaw
	}
	if err != nil {
		return fmt.Errorf("take image of disk %s: %w", d.dir, err)
	}
	return nil
}

// Close unmounts the disk and removes all of its files; images that were taken stay. The programs that use it must have ended. A closed disk may be closed again, and so may one that
// could not be closed.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	ctx := context.Background()
	for len(d.mounted) > 0 {
		last := len(d.mounted) - 1
		if err := d.unmount(ctx, d.mounted[last]); err != nil {
			return fmt.Errorf("close disk: %w; end the programs that use it first", err)
		}
		d.mounted = d.mounted[:last]
	}
	var errs []error
	for _, name := range []string{d.lowerImage(), d.lower(), d.Path()} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("close disk: %w", err))
		}
	}
	if d.guard != nil {
		_, err := io.WriteString(d.dismiss, "\n")
		errs = append(errs, err, d.guard.Wait())
	}
	d.closed = true
	return errors.Join(errs...)
}

// unmount unmounts a folder. The lower file system is in use until the loop device of the upper one is gone, which may be a moment after
// that was unmounted: nobody tells when.
func (d *Disk) unmount(ctx context.Context, folder string) error {
	err := clean(ctx, "umount", folder)
	if folder != d.lower() {
		return err
	}
	limit := time.After(cleanLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for err != nil {
		select {
		case <-tick.C:
			err = clean(ctx, "umount", folder)
		case <-limit:
			return err
		}
	}
	return nil
}

// watch starts the guard, in a session of its own, so that no signal to us reaches it.
func (d *Disk) watch() (err error) {
	guard := exec.Command("setsid", "/bin/sh", "-c", guardian, "sh", d.dir)
	if d.dismiss, err = guard.StdinPipe(); err != nil {
		return fmt.Errorf("start guard of mounts: %w", err)
	}
	if err := guard.Start(); err != nil {
		return fmt.Errorf("start guard of mounts: %w", err)
	}
	d.guard = guard
	return nil
}

// mount mounts an image file by a loop device that goes away when it is unmounted.
func (d *Disk) mount(ctx context.Context, image, folder, options string, loop ...string) error {
	// It is over at once, and whoever ended it would not know which device it had attached.
	out, err := output(context.WithoutCancel(ctx), "losetup", append(loop, "--find", "--show", image)...)
	if err != nil {
		return err
	}
	device := strings.TrimSpace(out)
	err = command(ctx, "mount", "-t", "ext4", "-o", options, device, folder)
	if err == nil {
		d.mounted = append(d.mounted, folder)
	}
	// A device in use is detached by its last user, which is the mount if there is one.
	return errors.Join(err, clean(ctx, "losetup", "--detach", device))
}

// sparse makes a file of so many bytes that takes no room.
func sparse(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// copySparse copies a file, without the room that its empty parts would take.
func copySparse(ctx context.Context, from, to string) error {
	return command(ctx, "cp", "--sparse=always", from, to)
}

// command runs a program; its error is what the program says.
func command(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

// clean runs a program that undoes something, also when ctx has ended.
func clean(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	return command(ctx, name, args...)
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s: %w: %s", strings.Join(append([]string{name}, args...), " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
