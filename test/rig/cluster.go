package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/test/rig/history"
	"tandem/test/rig/host"
)

// loseNodes ends servers of NATS for a time, and starts them on their stores.
func (s *System) loseNodes(ctx context.Context, a Action) {
	s.natsMu.Lock()
	defer s.natsMu.Unlock()
	if ctx.Err() != nil {
		return // all jobs have ended while it waited for its turn
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit+a.For)
	defer cancel()
	lost, which := s.toLose(ctx, a)
	if len(lost) == 0 {
		return
	}
	graceful := a.What == Stop || a.How == "stopped"
	how := []string{a.What + ": " + which}
	if a.How != "" {
		how = append(how, a.How)
	}
	if a.For > 0 {
		how = append(how, "for "+a.For.String())
	}
	name := nodeNames(lost)
	s.Log.Add(history.Event{Kind: history.Fault, Process: name, Note: strings.Join(how, ", ")})
	err := each(lost, func(n *host.NATS) error {
		if graceful {
			return n.Stop(ctx)
		}
		n.Kill()
		return nil
	})
	if a.For > 0 {
		select {
		case <-time.After(a.For):
		case <-s.ctx.Done():
			return // everything ends
		}
	}
	if err = errors.Join(err, each(lost, func(n *host.NATS) error { return n.Start(ctx) })); err != nil {
		s.Log.Add(history.Event{Kind: history.Healed, Process: name, Note: "does not start again: " + err.Error()})
		return
	}
	s.Log.Add(history.Event{Kind: history.Healed, Process: name, Note: "started again"})
}

// toLose chooses: the only server; of a cluster one, every other time the leader of the intake, or all but one.
func (s *System) toLose(ctx context.Context, a Action) (lost []*host.NATS, which string) {
	chosen := a.Target / 2 % len(s.nodes)
	if s.cluster == nil {
		return s.nodes, "the only node"
	}
	if a.What == Quorum {
		for i, n := range s.nodes {
			if i != chosen {
				lost = append(lost, n)
			}
		}
		return lost, "all nodes but " + s.nodes[chosen].Name()
	}
	if a.Target%2 == 0 {
		if leader, err := s.cluster.StreamLeader(ctx, intake); err == nil {
			return s.nodes[leader : leader+1], "the leader"
		}
	}
	return s.nodes[chosen : chosen+1], "a node"
}

// nodeNames is one name for some servers, which begins as theirs do.
func nodeNames(nodes []*host.NATS) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return strings.Join(names, " and ")
}

// each does something with all at the same time.
func each(nodes []*host.NATS, do func(*host.NATS) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// The streams of docs/PROTOCOL.md.
const intake = "INTAKE"

// streams are all of them, in the order of a job's way.
func streams() []string { return []string{intake, "RELAY", "RESULTS", "DLQ"} }

// replicated waits until each stream has a leader, and its followers hold what it holds.
func (s *System) replicated() error {
	if s.cluster == nil {
		return nil
	}
	return s.until(startLimit, "the nodes of NATS to hold the same", func(ctx context.Context) (bool, error) {
		for _, name := range streams() {
			info, err := s.info(ctx, name)
			if err != nil {
				return false, nil // no leader yet
			}
			c := info.Cluster
			if c == nil || c.Leader == "" || len(c.Replicas) != len(s.nodes)-1 {
				return false, nil
			}
			for _, r := range c.Replicas {
				if !r.Current || r.Offline || r.Lag > 0 {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

// answerLimit is how long a leader may take to answer. What finds none is never answered.
const answerLimit = 2 * time.Second

// info is what the leader of a stream says of it.
func (s *System) info(ctx context.Context, stream string, o ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	found, err := s.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	if len(o) == 0 {
		return found.CachedInfo(), nil
	}
	info, err := found.Info(ctx, o...)
	if err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	return info, nil
}

// storedMsg is a message of a stream.
type storedMsg struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// stored asks the leader of a stream for the first message from a sequence on; nil if there is none. A direct get, as nats.go's GetMsg is one, is
// answered by any node, also by one that has not heard yet of what was acknowledged.
func (s *System) stored(ctx context.Context, stream string, from uint64) (msg *storedMsg, err error) {
	request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from)
	err = s.until(startLimit, "the leader of stream "+stream+" to answer", func(context.Context) (bool, error) {
		asking, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		reply, err := s.nc.RequestWithContext(asking, "$JS.API.STREAM.MSG.GET."+stream, request)
		if err != nil {
			return false, ctx.Err() // it has none at the moment
		}
		var answer struct {
			Error   *jetstream.APIError `json:"error"`
			Message *storedMsg          `json:"message"`
		}
		switch err := json.Unmarshal(reply.Data, &answer); {
		case err != nil:
			return false, fmt.Errorf("read stream %s: %w", stream, err)
		case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
			return true, nil
		case answer.Error != nil && answer.Error.Code == 503: // it is about to be one
			return false, nil
		case answer.Error != nil:
			return false, fmt.Errorf("read stream %s: %w", stream, answer.Error)
		case answer.Message == nil:
			return false, fmt.Errorf("read stream %s: the answer to a request for message %d holds none", stream, from)
		}
		msg = answer.Message
		return true, nil
	})
	return msg, err
}

// presence is what a worker said of itself last.
type presence struct {
	Machine, State string
	Busy           int
	said           time.Time // by the server's clock
}

// presences are what the workers say. The messages themselves are read: a watcher waits for ever for one that is replaced before it is delivered.
func (s *System) presences(ctx context.Context) (list []presence, err error) {
	for seq := uint64(1); ; seq++ {
		msg, err := s.stored(ctx, "KV_workers", seq)
		if msg == nil || err != nil {
			return list, err
		}
		seq = msg.Seq
		p := presence{said: msg.Time}
		if json.Unmarshal(msg.Data, &p) == nil { // a deregistration has no text
			list = append(list, p)
		}
	}
}
