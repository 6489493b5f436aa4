package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The policies, as they are asked for and printed.
const (
	wholeMachines = "whole machines" // no Tandem: whoever has a free slot takes the next request, as behind a load balancer
	allLocal      = "local"
	disaggregated = "disaggregated"
	auto          = "auto"
)

func allPolicies() []string { return []string{wholeMachines, allLocal, disaggregated, auto} }

// policy is a way to run a class, on engines of its own.
type policy interface {
	// warmUp has the workers measure what they need for their decisions, with jobs that have nothing in common with the class.
	warmUp(ctx context.Context) error
	// foretell says how many seconds, here, the class would take; 0 if nobody knows.
	foretell(ctx context.Context, jobs []job) (float64, error)
	// run runs the class and returns when the last result is there.
	run(ctx context.Context, jobs []job) (*outcome, error)
	stop() error
}

// outcome is how a class went.
type outcome struct {
	Policy   string
	Foretold float64       // seconds of the fleet's time, just before; 0 if nothing was
	Took     time.Duration // here
	Wrong    []string      // jobs without exactly one result of the right length, and why
	Bytes    float64       // of KV states over the links, in the fleet's size
	Methods  map[string]int
	Lanes    []lane
}

// startPolicy starts what the policy needs in a folder of its own.
func (s *site) startPolicy(ctx context.Context, name, dir string, warm []kind) (policy, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	e, err := s.startEngines(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if name == wholeMachines {
		return &balancer{e}, nil
	}
	t := &tandem{engines: e, plan: name, dir: dir, warm: warm}
	if err := t.start(ctx, len(t.list), t.startWorker); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, errors.Join(err, t.stop()))
	}
	return t, nil
}

// engines are those of one policy, one in each machine's place.
type engines struct {
	*site
	client *http.Client
	list   []*pacedEngine
}

func (s *site) startEngines(ctx context.Context, dir string) (*engines, error) {
	e := &engines{site: s, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	for i := range s.Machines {
		one, err := s.startEngine(ctx, &s.Machines[i], filepath.Join(dir, s.Machines[i].Name))
		if err != nil {
			return nil, errors.Join(err, e.stop())
		}
		e.list = append(e.list, one)
	}
	return e, nil
}

func (e *engines) stop() error {
	e.client.CloseIdleConnections()
	for _, one := range e.list {
		one.process.Kill()
	}
	return nil
}

// measuredFromNowOn begins the measured run on all engines.
func (e *engines) measuredFromNowOn(ctx context.Context) error {
	for _, one := range e.list {
		if err := one.measuredFromNowOn(ctx, e.client); err != nil {
			return err
		}
	}
	return nil
}

// lanes are what all slots did since the jobs were submitted.
func (e *engines) lanes(ctx context.Context, since time.Time) (list []lane, err error) {
	for _, one := range e.list {
		some, err := one.lanes(ctx, e.client, since)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// balancer sends whole requests to the engines, without Tandem: as many at once to each as it has slots, and the next one, in order, to whichever has a slot
// free first.
type balancer struct{ *engines }

func (b *balancer) warmUp(context.Context) error { return nil } // it has nothing to learn

func (b *balancer) foretell(context.Context, []job) (float64, error) { return 0, nil }

// The chat template of a paced engine, so that both ways its prompts are equal.
const (
	beforePrompt = "<|im_start|>user\n"
	afterPrompt  = "<|im_end|>\n<|im_start|>assistant\n"
)

func (b *balancer) run(ctx context.Context, jobs []job) (*outcome, error) {
	if err := b.measuredFromNowOn(ctx); err != nil {
		return nil, err
	}
	o := &outcome{Policy: wholeMachines, Methods: map[string]int{}}
	var (
		working sync.WaitGroup
		mu      sync.Mutex
		next    int
		errs    error
	)
	start := time.Now()
	for _, e := range b.list {
		for range e.machine.Slots {
			working.Go(func() {
				for {
					mu.Lock()
					i := next
					next++
					mu.Unlock()
					if i >= len(jobs) {
						return
					}
					generated, err := b.ask(ctx, e, jobs[i])
					mu.Lock()
					o.Methods["whole on "+e.machine.Name]++
					errs = errors.Join(errs, err)
					if err == nil && generated != jobs[i].answer {
						o.Wrong = append(o.Wrong, fmt.Sprintf("%s: %d tokens generated, want %d", jobs[i].CustomID, generated, jobs[i].answer))
					}
					mu.Unlock()
				}
			})
		}
	}
	working.Wait()
	o.Took = time.Since(start)
	if errs != nil {
		return nil, errs
	}
	var err error
	o.Lanes, err = b.lanes(ctx, start)
	return o, err
}

// ask has an engine do a whole request, and returns how many tokens it generated.
func (b *balancer) ask(ctx context.Context, e *pacedEngine, j job) (generated int, err error) {
	var answer struct {
		Timings struct {
			Generated int `json:"predicted_n"`
		} `json:"timings"`
	}
	request := map[string]any{"prompt": beforePrompt + j.Prompt + afterPrompt, "n_predict": j.Options["num_predict"], "cache_prompt": true}
	err = e.call(ctx, b.client, http.MethodPost, "/completion", request, &answer)
	return answer.Timings.Generated, err
}
