package rig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
	"tandem/test/rig/tap"
)

// call submits a batch by the submitter, as an instructor does, and goes on with it when the submitter is killed, until every job has ended. What the
// caller was told is what the submitter leaves behind.
func (s *System) call(ctx context.Context, b Batch) (err error) {
	dir := s.path("callers", b.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := callerPrefix + b.Name
	c, err := s.caller(name, dir)
	if err != nil {
		return err
	}
	s.callersMu.Lock()
	s.links[name] = c.nats
	s.callersMu.Unlock()
	defer func() {
		s.callersMu.Lock()
		delete(s.links, name)
		s.callersMu.Unlock()
		err = errors.Join(err, c.nats.close())
	}()
	if b.Single {
		return c.single(ctx, b.Jobs[0])
	}
	c.resumes = true
	return c.batch(ctx, b)
}

// callerPrefix begins the names of callers in a history.
const callerPrefix = "caller-"

// caller is somebody with a submitter.
type caller struct {
	s         *System
	name, dir string
	key       string // file
	nats      link
	resumes   bool // a kill may reach its submitter
}

// caller makes one with the key of the rig's user, whose way to NATS is to be closed.
func (s *System) caller(name, dir string) (_ *caller, err error) {
	c := &caller{s: s, name: name, dir: dir, key: s.keys.grader}
	wire := s.r.wire(name)
	c.nats, err = s.link(s.hookedWire(name, func(op *tap.Op, node int) tap.Verdict {
		wire.read(op, node)
		return tap.Pass
	}))
	return c, err
}

// submitter starts the program.
func (c *caller) submitter(args ...string) (*host.Process, error) {
	return host.Start(host.Spec{
		Name: c.name, Program: c.s.programs(c.name).Path("submitter"), Args: slices.Concat([]string{"--nats", c.nats.url()}, c.s.keys.as(c.key), args),
		Env: []string{"HOME=" + c.dir}, Dir: c.dir, Log: filepath.Join(c.dir, "log"),
	})
}

// run runs the program to its end and returns its exit code.
func (c *caller) run(ctx context.Context, args ...string) (code int, output string, err error) {
	p, err := c.submitter(args...)
	if err != nil {
		return 0, "", err
	}
	if c.resumes {
		c.s.callersMu.Lock()
		c.s.callers[c.name] = p
		c.s.callersMu.Unlock()
		defer func() {
			c.s.callersMu.Lock()
			delete(c.s.callers, c.name)
			c.s.callersMu.Unlock()
		}()
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Kill()
		return 0, "", context.Cause(ctx)
	}
	return p.Code(), p.Output(), nil
}

const (
	exitDone        = 0
	exitDegraded    = 3  // some jobs did not succeed
	exitUnreachable = 4  // NATS is away
	exitKilled      = -1 // by a signal

	callAgain = 200 * time.Millisecond // after NATS was away
)

func (c *caller) batch(ctx context.Context, b Batch) error {
	var lines bytes.Buffer
	for _, j := range b.Jobs {
		options := map[string]any{"temperature": j.Temperature, "num_predict": j.Tokens, "seed": j.Seed}
		line, err := json.Marshal(map[string]any{"custom_id": j.Marker, "model": j.Model, "prompt": j.Prompt, "options": options, "plan": cmp.Or(j.Plan, "disaggregated")})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	file, out := filepath.Join(c.dir, "jobs.jsonl"), filepath.Join(c.dir, "out")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		return err
	}
	args := []string{"--quiet", "batch", file, "--out", out}
	if b.Deadline > 0 {
		args = append(args, "--deadline", b.Deadline.String())
	}
	cancels := c.s.cancels(ctx, b)
	defer cancels()
	more := []string{"--batch", b.Name}
	for {
		code, output, err := c.run(ctx, append(args, more...)...)
		if err != nil {
			_ = c.told(out) // what there is
			return err
		}
		switch code {
		case exitDone, exitDegraded:
			cancels()
			return c.told(out)
		case exitUnreachable:
			if err := c.pause(ctx); err != nil {
				return err
			}
			more = c.again(out, b)
		case exitKilled:
			c.s.Log.Add(history.Event{Kind: history.Healed, Process: c.name, Note: "resumed"})
			more = c.again(out, b)
		default:
			return fmt.Errorf("%s: submitter batch ended with code %d: %s", c.name, code, lastLine(output))
		}
	}
}

// told reads what the caller has got.
func (c *caller) told(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".json") && f.Name() != "batch.manifest.json" {
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return err
			}
			c.tell(data)
		}
	}
	return nil
}

func (c *caller) tell(record []byte) {
	var r struct {
		JobID string `json:"job_id"`
	}
	_ = json.Unmarshal(record, &r) // what is no record is told of no job, which the judge sees
	c.s.Log.Add(history.Event{Kind: history.Told, Process: c.name, Job: r.JobID, Record: bytes.TrimSpace(record)})
	if status, expired := endOf(record); expired {
		c.s.Log.Add(history.Event{Kind: history.Cancelled, Process: c.name, Job: r.JobID, Note: status})
	}
}

// again is what the submitter is told to go on with a batch, of which it may have begun nothing.
func (c *caller) again(out string, b Batch) []string {
	if _, err := os.Stat(filepath.Join(out, "batch.manifest.json")); err != nil {
		return []string{"--batch", b.Name}
	}
	return []string{"--resume"}
}

// pause is that of somebody who finds NATS away.
func (c *caller) pause(ctx context.Context) error {
	select {
	case <-time.After(callAgain):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// single submits one job and waits for it, again if NATS is away.
func (c *caller) single(ctx context.Context, j Job) error {
	for {
		args := []string{
			"--quiet", "--json", "submit", "--timeout", "10m", "--model", j.Model, "--temperature", fmt.Sprint(j.Temperature),
			"--num-predict", strconv.Itoa(j.Tokens), "--seed", strconv.FormatInt(j.Seed, 10), j.Prompt,
		}
		if id := c.s.r.job(j.Marker); id != "" {
			args = []string{"--quiet", "--json", "await", "--timeout", "10m", id}
		}
		code, output, err := c.run(ctx, args...)
		if err != nil {
			return err
		}
		for line := range strings.Lines(output) {
			if strings.HasPrefix(line, `{"v":`) {
				c.tell([]byte(line))
				return nil
			}
		}
		if code != exitUnreachable {
			return fmt.Errorf("%s: submitter %s ended with code %d and printed no result: %s", c.name, args[2], code, lastLine(output))
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// cancels cancels the jobs of a batch that are to be, each as soon as it was accepted. What it returns waits for that.
func (s *System) cancels(ctx context.Context, b Batch) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		for _, j := range b.Jobs {
			if j.Cancel {
				s.cancelJob(ctx, j)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *System) cancelJob(ctx context.Context, j Job) {
	for s.r.job(j.Marker) == "" {
		_, change := s.r.now()
		select {
		case <-change:
		case <-ctx.Done():
			return
		}
	}
	id := s.r.job(j.Marker)
	c, err := s.caller("canceller-"+j.Marker, s.path("callers"))
	if err != nil {
		return
	}
	defer c.nats.close()
	code, _, err := c.run(context.WithoutCancel(ctx), "cancel", id)
	for err == nil && code == exitUnreachable && c.pause(ctx) == nil {
		code, _, err = c.run(context.WithoutCancel(ctx), "cancel", id)
	}
	if err == nil && code == exitDone && s.r.status(id) == "cancelled" {
		s.Log.Add(history.Event{Kind: history.Cancelled, Process: c.name, Job: id})
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
