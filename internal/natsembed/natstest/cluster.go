package natstest

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
)

// ClusterName is the name of the i-th server of a cluster, by which streams tell their leader.
func ClusterName(i int) string { return fmt.Sprintf("node-%d", i) }

// StartCluster starts n servers that make up a cluster and end with the test. It returns when each of them knows that it has JetStream.
func StartCluster(t testing.TB, n int) []*natsembed.Server {
	t.Helper()
	var peers []string
	var ports []int
	var held []net.Listener
	for range n { // held until all are chosen, so that they differ
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		peers, ports = append(peers, l.Addr().String()), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range held {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var servers []*natsembed.Server
	for i := range n {
		servers = append(servers, Start(t, natsembed.Options{Cluster: &natsembed.Cluster{Server: ClusterName(i), Port: ports[i], Peers: peers}}))
	}
	for _, s := range servers {
		ready(t, s)
	}
	return servers
}

// ready waits until a server of a cluster answers for JetStream, for which the cluster must have a leader.
func ready(t testing.TB, s *natsembed.Server) {
	t.Helper()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		_, err := js.AccountInfo(asking)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the cluster has no leader: %v", err)
		}
	}
}
