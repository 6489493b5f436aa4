package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// clusterRig is a rig on a cluster of three servers, each stream on all of them.
type clusterRig struct {
	*rig
	servers []*natsembed.Server
}

func newClusterRig(t *testing.T) *clusterRig {
	t.Helper()
	servers := natstest.StartCluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	r := &rig{t: t, server: servers[0], urls: strings.Join(urls, ","), replicas: 3, timing: lively()}
	r.timing.AckWait = 4 * time.Second // a delivery that is lost with its server costs no more
	r.Client = NewClient(r.connect(), "user")
	if err := r.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		if err := r.EnsureConsumers(t.Context(), role, testModel); err != nil {
			t.Fatal(err)
		}
	}
	return &clusterRig{r, servers}
}

// leader returns the number of the server that leads a stream.
func (r *clusterRig) leader(stream string) (leader int) {
	r.t.Helper()
	r.eventually("a leader of "+stream, func() bool {
		s, err := r.js.Stream(r.t.Context(), stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		leader = slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return natstest.ClusterName(i) == s.CachedInfo().Cluster.Leader })
		return leader >= 0
	})
	return leader
}

// restart starts a server again.
func (r *clusterRig) restart(i int) {
	r.t.Helper()
	if err := r.servers[i].Restart(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// A batch runs while servers stop and come back. Every job is accepted, in spite of it, and ends in one result.
func TestClusterLosesServers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		stop func(r *clusterRig) []int // the servers to stop
	}{
		{"the leader of the intake", func(r *clusterRig) []int { return []int{r.leader(StreamIntake)} }},
		{"a follower", func(r *clusterRig) []int { return []int{(r.leader(StreamIntake) + 1) % 3} }},
		{"the quorum", func(r *clusterRig) []int { return []int{(r.leader(StreamIntake) + 1) % 3, r.leader(StreamIntake)} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newClusterRig(t)
			r.start(protocol.RolePrefill, 2, passOn)
			r.start(protocol.RoleDecode, 2, answer)
			client := NewClient(r.connect(), "user")
			list := several(60, jobs.Batch)
			all, submitted := list, make(chan error, 1)
			half, gone := make(chan struct{}), make(chan struct{})
			go func() {
				for i, j := range list {
					if i == len(list)/2 {
						close(half)
						<-gone // the other half is submitted during the outage
					}
					if err := client.SubmitOne(t.Context(), j, false); err != nil {
						submitted <- err
						return
					}
				}
				submitted <- nil
			}()
			servers := tt.stop(r)
			<-half
			for _, i := range servers {
				r.servers[i].Stop()
			}
			stopped := time.Now()
			close(gone)
			if len(servers) == 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := client.Submit(ctx, testJob(jobs.Batch), SubmitOptions{}); err == nil {
					t.Error("a job was accepted without a quorum")
				}
			} else { // the others go on without it
				j := testJob(jobs.Batch)
				if err := client.Submit(t.Context(), j, SubmitOptions{}); err != nil {
					t.Fatalf("submit after the loss of a server: %v", err)
				}
				t.Logf("a submit is accepted %v after the loss of %s", time.Since(stopped).Round(time.Millisecond), tt.name)
				all = append(all, j)
			}
			for _, i := range servers {
				r.restart(i)
			}
			if err := <-submitted; err != nil {
				t.Fatalf("submit batch: %v", err)
			}
			t.Logf("the whole batch is accepted %v after the loss of %s", time.Since(stopped).Round(time.Millisecond), tt.name)
			for _, res := range r.results(all...) {
				if res.Status != jobs.Succeeded {
					t.Errorf("result = %+v, error %+v", res, res.Error)
				}
			}
			t.Logf("the whole batch is done %v after it", time.Since(stopped).Round(time.Millisecond))
		})
	}
}

// The streams and buckets are made with as many replicas as asked for; what exists is left as it is.
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := newClusterRig(t)
	replicas := func() (all []int) {
		for _, want := range streams(r.timing) {
			s, err := r.js.Stream(t.Context(), want.Name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s.CachedInfo().Config.Replicas)
		}
		return all
	}
	want := []int{3, 3, 3, 3, 3, 3, 3}
	if got := replicas(); !slices.Equal(got, want) {
		t.Errorf("replicas = %v, want %v", got, want)
	}
	r.replicas = 1
	if err := r.connect().EnsureStreams(t.Context()); err != nil {
		t.Errorf("EnsureStreams with other replicas: %v", err)
	}
	if got := replicas(); !slices.Equal(got, want) {
		t.Errorf("replicas after a worker with 1 = %v, want %v", got, want)
	}
}

func TestReplicasThatCannotBe(t *testing.T) {
	t.Parallel()
	r := bareRig(t)
	if _, err := Connect(t.Context(), Config{URL: r.server.URL(), Replicas: 2}); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "1, 3 or 5") {
		t.Errorf("Connect with 2 replicas: error = %v, want one that says what can be", err)
	}
	r.replicas = 3
	err := r.connect().EnsureStreams(t.Context())
	if jobs.CodeOf(err) != jobs.CodeNATS || !strings.Contains(err.Error(), "--replicas") {
		t.Errorf("EnsureStreams on a server by itself: error = %v, want one that names --replicas", err)
	}
}

// Only what the server says about the message is a verdict. The rest is of the server, and passes.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err             error
		refused, absent bool
	}{
		{&jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: 7"}, true, false},
		{&jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}, true, false},
		{&jetstream.APIError{Code: 400, ErrorCode: 10060, Description: "expected stream does not match"}, true, false},
		{&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum messages per subject exceeded"}, true, false},
		{&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "store is closed"}, false, true},
		{&jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}, false, true},
		{&jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}, false, true},
		{&jetstream.APIError{Code: 500, ErrorCode: 10009, Description: "JetStream cluster can not handle request"}, false, true},
		{&jetstream.APIError{Code: 409, ErrorCode: 10158, Description: "duplicate message id is in process"}, false, true},
		{&jetstream.APIError{Code: 503, ErrorCode: 10163, Description: "expected last sequence per subject temporarily unavailable"}, false, true},
		{&jetstream.APIError{Code: 400, ErrorCode: 10005, Description: "no suitable peers for placement"}, true, true}, // of a stream, never of a message
		{jetstream.ErrConsumerNotFound, false, false},
		{jetstream.ErrStreamNotFound, false, false},
		{jetstream.ErrJetStreamNotEnabled, false, false},
		{jetstream.ErrNoStreamResponse, false, true},
		{context.DeadlineExceeded, false, true},
		{context.Canceled, false, false},
		{errors.New("other"), false, false},
	} {
		err := &jobs.Error{Code: jobs.CodeNATS, Message: "what was tried", Err: tt.err}
		if got := refused(err); got != tt.refused {
			t.Errorf("refused(%v) = %t", tt.err, got)
		}
		if got := absent(err); got != tt.absent {
			t.Errorf("absent(%v) = %t", tt.err, got)
		}
	}
}
