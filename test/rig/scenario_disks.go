package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"tandem/test/rig/history"
	"tandem/test/rig/power"
)

// diskScenarios have disks that are full.
func diskScenarios() []Scenario {
	return []Scenario{
		{
			Name: "disk of NATS full", arrange: withDisk(fullStore),
			What: "the disk of NATS's store fills up in the middle of a batch of large jobs; the operator makes room and starts NATS again",
		},
		{
			Name: "disk of KV states full, prefill", arrange: withDisk(fullSlots("prefill", "save_failed")),
			What: "the disk to which a prefill engine writes KV states has no room for one, and later has",
		},
		{
			Name: "disk of KV states full, decode", arrange: withDisk(fullSlots("decode", "disk_full")),
			What: "the disk on which a decode machine keeps KV states has no room for one, and later has",
		},
	}
}

// withDisk has a scenario played with a small disk of its own, if there can be any here.
func withDisk(arrange func(a *act, d *disk) error) func(context.Context, *act) error {
	const size = 16 << 30 // of which nothing is written: NATS reserves a good 6 GiB for the streams, and takes a share of what is free for its limit
	return func(ctx context.Context, a *act) error {
		if err := power.Possible(); err != nil {
			return fmt.Errorf("%w: %w", ErrNotRun, err)
		}
		d, err := power.NewDisk(ctx, filepath.Join(a.Dir, "disk"), size)
		if err != nil {
			return err
		}
		a.after = d.Close
		if err := arrange(a, &disk{d}); err != nil {
			return errors.Join(err, d.Close())
		}
		return nil
	}
}

// disk is one that others' files share with ballast.
type disk struct{ *power.Disk }

// under has a folder of the run lie on the disk.
func (d *disk) under(folder string) error { return os.Symlink(d.Path(), folder) }

func (d *disk) ballast() string { return filepath.Join(d.Path(), "ballast") }

// free is how many bytes there is room for.
func (d *disk) free() (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.Path(), &s); err != nil {
		return 0, fmt.Errorf("look at disk: %w", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil // whose types differ from system to system
}

// fill leaves room for so many bytes. The rest is taken, and nothing is written.
func (d *disk) fill(ctx context.Context, leave int64) error {
	free, err := d.free()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "fallocate", "--length", strconv.FormatInt(free-leave, 10), d.ballast()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fill disk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// empty makes room.
func (d *disk) empty() error { return os.Remove(d.ballast()) }

// fullStore: nats-server 2.15 answers no publish to a stream that could not be written, until it is started again; other streams go on. Then a work
// queue may hold messages whose acknowledgement it could not write down. They are not delivered again, so that the streams do not become empty.
func fullStore(a *act, d *disk) error {
	const jobs, room = 30, 12 << 20
	plan := NewPlan(sceneSeed, Shape{Jobs: jobs + 2, Models: a.Models, BatchSize: jobs + 2, Callers: 1, PromptWords: [2]int{100_000, 120_000}, Tokens: [2]int{1, 4}}).split(jobs, 1, 1)
	a.plan = plan
	no := plan.Batches[2].Jobs[0] // is never accepted
	plan.Batches = plan.Batches[:2]
	a.NumCtx = 1 << 20
	if err := d.under(filepath.Join(a.Dir, "nats")); err != nil {
		return err
	}
	var said []string
	a.strike = func(ctx context.Context, s *scene) error {
		node := s.nodes[0]
		if err := d.fill(ctx, room); err != nil {
			return err
		}
		s.Log.Add(history.Event{Kind: history.Fault, Process: node.Name(), Note: "disk: there is room for 12 MiB"})
		told := s.begin(ctx, plan.Batches[0])
		if err := node.Process().Says(ctx, "no space left on device"); err != nil {
			return err
		}
		c, err := s.caller("single", s.path("callers"))
		if err != nil {
			return err
		}
		defer c.nats.close()
		code, out, err := c.run(ctx, "--quiet", "submit", "--model", s.Models[0], no.Prompt[:1000])
		if err != nil {
			return err
		}
		said = append(said, fmt.Sprintf("%d: %s", code, out))
		if err := d.empty(); err != nil {
			return err
		}
		if err := node.Stop(ctx); err != nil {
			return err
		}
		if err := node.Start(ctx); err != nil {
			return err
		}
		s.Log.Add(history.Event{Kind: history.Healed, Process: node.Name(), Note: "started again, with room"})
		if err := told(); err != nil {
			return err
		}
		return s.begin(ctx, plan.Batches[1])()
	}
	a.expect = func(s *scene) {
		s.wantEach("succeeded", plan.Batches...)
		for _, text := range said {
			s.want(strings.HasPrefix(text, "4: ") && strings.Contains(text, "NATS"), "", "want a submit that ends with code 4 and names NATS, got %s", text)
		}
	}
	return nil
}

// fullSlots has no room for the states of one side, which is told by the name of a failure.
func fullSlots(side, failure string) func(*act, *disk) error {
	return func(a *act, d *disk) error {
		const jobs = 6
		const sliver = 16 << 10 // less than a state has
		a.Real = true
		plan := NewPlan(sceneSeed, Shape{Jobs: 3 * jobs, Models: a.Models, BatchSize: 3 * jobs, Callers: 1, PromptWords: [2]int{150, 200}, Tokens: [2]int{4, 12}}).split(jobs, jobs, jobs)
		a.plan = plan
		// Only the states lie on it: an Ollama that cannot write its log ends.
		engine := filepath.Join(a.Dir, "engine-"+side+"-a1")
		if err := errors.Join(os.MkdirAll(engine, 0o700), d.under(filepath.Join(engine, "slots"))); err != nil {
			return err
		}
		a.strike = func(ctx context.Context, s *scene) error {
			if err := s.begin(ctx, plan.Batches[0])(); err != nil {
				return err
			}
			err := s.await(ctx, "the last states to be removed", func() bool { // which would make room
				files, err := os.ReadDir(d.Path())
				return err == nil && len(files) <= 1 // of ext4's own
			})
			if err != nil {
				return err
			}
			s.Log.Add(history.Event{Kind: history.Fault, Process: s.engine(side).Name(), Note: "disk: no room for a state"})
			if err := d.fill(ctx, sliver); err != nil {
				return err
			}
			if err := s.begin(ctx, plan.Batches[1])(); err != nil {
				return err
			}
			if err := d.empty(); err != nil {
				return err
			}
			s.Log.Add(history.Event{Kind: history.Healed, Process: s.engine(side).Name(), Note: "there is room"})
			return s.begin(ctx, plan.Batches[2])()
		}
		a.expect = func(s *scene) {
			s.wantUnblamed(plan.Batches...)
			for i, b := range plan.Batches {
				for _, j := range b.Jobs {
					e, want := s.end(j.Marker), ""
					if i == 1 {
						want = failure
					}
					s.want(e.Handover.Failure == want, j.Marker, "want a hand-over with the failure %q, got %q: %s", want, e.Handover.Failure, e.Handover.Message)
					s.want((e.Usage.HandedOver > 0) == (want == ""), j.Marker, "%d tokens were handed over", e.Usage.HandedOver)
				}
			}
		}
		return nil
	}
}
