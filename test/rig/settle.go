package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/test/rig/history"
)

// settleLimit is how long a delivery whose acknowledgement was lost may stay in its stream: AckWait, and some.
const settleLimit = 90 * time.Second

// settle waits until nothing is at work any more, asks the engines what the texts should have been, and then writes down what every stream
// holds, so that it also finds what came late.
func (s *System) settle(ctx context.Context, p *Plan) error {
	var why string
	err := s.until(settleLimit, "empty streams", func(ctx context.Context) (bool, error) {
		for _, name := range []string{"INTAKE", "RELAY"} {
			info, err := s.info(ctx, name, jetstream.WithSubjectFilter(barSubjects))
			if err != nil {
				why = err.Error()
				return false, nil
			}
			if n := int(info.State.Msgs) - len(info.State.Subjects); n > 0 {
				why = fmt.Sprintf("the server says that %s holds %d messages", name, n)
				return false, nil
			}
		}
		return true, nil
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil { // what is left is found, and judged
		s.Say("waited %v for empty streams: %s", settleLimit, why)
	}
	if err := s.replicated(); err != nil {
		return err
	}
	if err := s.ask(ctx, p); err != nil {
		return err
	}
	for _, name := range streams() {
		if err := s.find(ctx, name); err != nil {
			return err
		}
	}
	s.Log.Add(history.Event{Kind: history.Ended})
	return nil
}

// find writes down each message of a stream.
func (s *System) find(ctx context.Context, name string) error {
	for seq := uint64(1); ; seq++ {
		msg, err := s.stored(ctx, name, seq)
		if msg == nil || err != nil {
			return err
		}
		seq = msg.Seq
		if bars.MatchString(msg.Subject) {
			continue
		}
		s.Log.Add(history.Event{Kind: history.Found, Job: lastToken(msg.Subject), Subject: msg.Subject, Stream: name, Seq: seq, Record: msg.Data})
	}
}

// ask has the engines of each model say the greedy texts themselves, each one by one. The workers do nothing any more.
func (s *System) ask(ctx context.Context, p *Plan) error {
	questions, err := s.questions(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, m := range s.machine {
		own := 2 * s.Each // engines of a model, which share its questions
		list := questions[s.Models[i/own]]
		wg.Go(func() {
			for n := i % own; n < len(list); n += own {
				q := list[n]
				texts, err := m.Ask(ctx, q.record)
				if err != nil {
					cancel(fmt.Errorf("ask %s about job %s: %w", m.Name(), q.job, err))
					return
				}
				for _, text := range texts {
					s.Log.Add(history.Event{Kind: history.Expected, Process: m.Name(), Job: q.job, Text: text})
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// question is a greedy job, as it was submitted.
type question struct {
	job    string
	record json.RawMessage
}

// questions are the greedy jobs that succeeded, or of which the wires do not show how they ended, by model.
func (s *System) questions(p *Plan) (map[string][]question, error) {
	greedy := map[string]bool{}
	for _, b := range p.Batches {
		for _, j := range b.Jobs {
			greedy[j.Marker] = j.Temperature == 0
		}
	}
	list := map[string][]question{}
	for _, e := range s.Log.Events() {
		if status := s.r.status(e.Job); e.Kind != history.Submitted || !greedy[markerOf(e.Record)] || status != "succeeded" && status != "" {
			continue
		}
		var record struct{ Model string }
		if err := json.Unmarshal(e.Record, &record); err != nil {
			return nil, fmt.Errorf("read job %s: %w", e.Job, err)
		}
		list[record.Model] = append(list[record.Model], question{e.Job, e.Record})
	}
	return list, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
