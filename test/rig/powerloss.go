package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/power"
)

// diskBytes is the size of the disk that NATS' store is on when it is to lose power: the streams reserve a good 6 GiB of it, and nearly none is used.
const diskBytes = 12 << 30

// newDisk puts the store of NATS on a disk of its own. The store's folder is a link to wherever that is mounted.
func (s *System) newDisk(ctx context.Context) error {
	disk, err := power.NewDisk(ctx, s.path("disk-0"), diskBytes)
	if err != nil {
		return err
	}
	return s.plug(disk)
}

func (s *System) plug(disk *power.Disk) error {
	s.disk = disk
	link := s.path("nats")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("plug disk: %w", err)
	}
	if err := os.Symlink(disk.Path(), link); err != nil {
		return fmt.Errorf("plug disk: %w", err)
	}
	return nil
}

// losePower takes power from the server and its disk: what had reached the disk at that instant is there when the server starts again, and nothing
// else. The server is stopped while the disk's image is taken, so that it acknowledges nothing that the image does not hold.
func (s *System) losePower(ctx context.Context) {
	s.natsMu.Lock()
	defer s.natsMu.Unlock()
	node := s.nodes[0]
	s.Log.Add(history.Event{Kind: history.Fault, Process: node.Name(), Note: Power + ": at once"})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := s.cutPower(ctx); err != nil {
		s.Log.Add(history.Event{Kind: history.Healed, Process: node.Name(), Note: "does not start again: " + err.Error()})
		return
	}
	s.Log.Add(history.Event{Kind: history.Healed, Process: node.Name(), Note: "started again"})
}

func (s *System) cutPower(ctx context.Context) error {
	node := s.nodes[0]
	process := node.Process()
	if err := process.Freeze(); err != nil {
		return err
	}
	if err := atRest(ctx, process.Pid()); err != nil {
		return err
	}
	s.cuts++
	image := s.path(fmt.Sprintf("disk-%d.img", s.cuts))
	err := s.disk.Snapshot(ctx, image)
	node.Kill()
	if err = errors.Join(err, s.disk.Close()); err != nil {
		return err
	}
	disk, err := power.OpenImage(ctx, image, s.path(fmt.Sprintf("disk-%d", s.cuts)))
	if err != nil {
		return err
	}
	if err := errors.Join(s.plug(disk), os.Remove(image)); err != nil {
		return err
	}
	return node.Start(ctx)
}

// atRest waits until no thread of a process group's programs runs: each is stopped, or will be as soon as the kernel lets go of it.
func atRest(ctx context.Context, pid int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		running := 0
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if err != nil {
				continue // it has ended
			}
			_, rest, _ := strings.Cut(string(stat), ") ")
			if state, _, _ := strings.Cut(rest, " "); state == "R" || state == "S" {
				running++
			}
		}
		if running == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for process %d to stop: %w", pid, context.Cause(ctx))
		}
	}
}
