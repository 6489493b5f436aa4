package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"tandem/internal/protocol"
	"tandem/internal/tinymodel"
	"tandem/jobs"
	rig "tandem/test/rig/engines"
	"tandem/test/rig/host"
	"tandem/test/rig/paced/fleet"
)

type realStart func(context.Context, rig.Options) (rig.Engine, error)

// realStarts start one engine, by the names that the report has.
func realStarts() map[string]realStart {
	return map[string]realStart{"llama-server": rig.StartLlamaServer, "ollama": rig.StartOllama}
}

// realRoles are the machines that the two engines stand for.
func realRoles() []jobs.Stage { return []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} }

// pair are two engines of one kind, one slot and one thread each, and, if they are asked through Tandem, all that belongs to that.
type pair struct {
	list []rig.Engine
	*tandem
}

// startPair starts the engines in a folder of their own, with nothing in their caches. Each is held to a processor of its own if pin is set.
func startPair(ctx context.Context, start realStart, dir string, spec tinymodel.Spec, batches, pin bool) (p *pair, err error) {
	p = &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	for i, role := range realRoles() {
		e, err := start(ctx, rig.Options{
			Name: string(role), Dir: filepath.Join(dir, string(role)), Models: []string{realModel}, Specs: map[string]tinymodel.Spec{realModel: spec}, Batches: batches,
		})
		if err != nil {
			return p, err
		}
		p.list = append(p.list, e)
		if !pin {
			continue
		}
		// All threads there are. Those that come inherit it, and so does the llama-server of an Ollama, which it starts when it is first asked.
		if out, err := exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", strconv.Itoa(i), strconv.Itoa(e.Pid())).CombinedOutput(); err != nil {
			return p, fmt.Errorf("hold engine %s to a processor: %w: %s; --pin=false leaves that away", role, err, out)
		}
	}
	return p, each(len(p.list), false, func(i int) error {
		_, err := ask(ctx, p.list[i], job{Model: realModel, Prompt: "Ready?", Options: map[string]int{"num_predict": 1}})
		return err
	})
}

// ask has an engine do a whole request.
func ask(ctx context.Context, e rig.Engine, j job) (text string, err error) {
	data, err := json.Marshal(j)
	if err != nil {
		return "", fmt.Errorf("write job: %w", err)
	}
	return e.Answer(ctx, data)
}

// share has the engines do the jobs without Tandem: the next one, in order, goes to whichever is free, as behind a load balancer.
// Each is asked so many times, and the last text counts.
func (p *pair) share(ctx context.Context, list []job, times int) (*realOutcome, error) {
	cpu := p.cpu()
	texts, begun, next := make([]string, len(list)), make([]int, len(p.list)), atomic.Int64{}
	start := time.Now()
	err := each(len(p.list), false, func(e int) (err error) {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(list) {
				return nil
			}
			begun[e]++
			for range times {
				if texts[i], err = ask(ctx, p.list[e], list[i]); err != nil {
					return fmt.Errorf("job %s: %w", list[i].CustomID, err)
				}
			}
		}
	})
	o := &realOutcome{Seconds: time.Since(start).Seconds(), Ways: map[string]int{}, texts: map[string]string{}}
	o.CPU = p.cpu().since(cpu)
	for e, n := range begun {
		o.Ways["whole on "+p.list[e].Name()] = n
	}
	for i, text := range texts {
		o.texts[list[i].CustomID] = text
	}
	return o, err
}

// join starts NATS and a worker beside each engine, and returns when these have measured their engines and know one another.
func (p *pair) join(ctx context.Context, programs *host.Programs, dir, traceDir string) error {
	p.tandem = &tandem{dir: dir, engines: &engines{
		client: &http.Client{}, site: &site{programs: programs, traceDir: traceDir, Fleet: &fleet.Fleet{Model: realModel}},
	}}
	return p.start(ctx, len(p.list), p.startRealWorker)
}

func (p *pair) startRealWorker(ctx context.Context, i int) error {
	role := string(realRoles()[i])
	dir := filepath.Join(p.dir, "worker-"+role)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("start %s worker: %w", role, err)
	}
	nats, url, err := p.wires(&pacedEngine{machine: &fleet.Machine{Name: role}, url: "http://" + p.list[i].Addr()})
	if err != nil {
		return err
	}
	level := "info"
	if p.traceDir != "" {
		level = "debug"
	}
	p.workers[i], err = host.Start(host.Spec{
		Name: "worker-" + role, Program: p.programs.Path(role + "-worker"), Env: []string{"HOME=" + dir}, Dir: dir, Log: filepath.Join(dir, "worker.log"),
		Args: append(p.list[i].Flags(url),
			"--nats", nats, "--model", realModel, "--machine", role, "--state-dir", dir, "--http", "127.0.0.1:0", "--log-format", "text", "--log-level", level),
	})
	if err != nil {
		return err
	}
	return p.workers[i].Says(ctx, "the engine is measured role=")
}

// through has Tandem do the jobs.
func (p *pair) through(ctx context.Context, plan string, list []job) (*realOutcome, error) {
	cpu := p.cpu()
	b, err := p.submit(ctx, "run", plan, list)
	if err != nil {
		return nil, err
	}
	o := &realOutcome{Seconds: b.end.Sub(b.begin).Seconds(), Ways: b.methods(), CPU: p.cpu().since(cpu), texts: map[string]string{}}
	for _, r := range b.results {
		o.texts[r.CustomID] = r.Text
		switch {
		case r.Status != jobs.Succeeded:
			o.Wrong = append(o.Wrong, fmt.Sprintf("%s: %s: %+v", r.CustomID, r.Status, r.Error))
		case r.Handover != nil && r.Handover.Failure != "":
			o.Wrong = append(o.Wrong, fmt.Sprintf("%s: hand-over failed: %s: %s", r.CustomID, r.Handover.Failure, r.Handover.Message))
		}
	}
	if len(b.results) != len(list) {
		o.Wrong = append(o.Wrong, fmt.Sprintf("%d results of %d jobs", len(b.results), len(list)))
	}
	return o, nil
}

// cpuTimes are seconds that programs have computed.
type cpuTimes struct {
	Engines []float64 `json:"engines"`
	Tandem  float64   `json:"tandem"` // NATS and the workers
}

func (p *pair) cpu() (c cpuTimes) {
	for _, e := range p.list {
		c.Engines = append(c.Engines, cpuSeconds(e.Pid()))
	}
	if p.tandem != nil {
		groups := []int{p.nats.Process().Pid()}
		for _, w := range p.workers {
			groups = append(groups, w.Pid())
		}
		c.Tandem = cpuSeconds(groups...)
	}
	return c
}

func (c cpuTimes) since(before cpuTimes) cpuTimes {
	for i := range c.Engines {
		c.Engines[i] -= before.Engines[i]
	}
	c.Tandem -= before.Tandem
	return c
}

func (p *pair) stop() (err error) {
	if p.tandem != nil {
		err = p.tandem.stop()
	}
	for _, e := range p.list {
		e.Close()
	}
	return err
}
