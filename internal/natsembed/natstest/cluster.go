package natstest

import (
	"context"
	"fmt"
	"net"
	"strconv"
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
	ports := freePorts(t, 2*n) // for clients, and for one another
	var peers []string
	for _, port := range ports[n:] {
		peers = append(peers, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	var servers []*natsembed.Server
	for i := range n {
		servers = append(servers, Start(t, natsembed.Options{Port: ports[i], Cluster: &natsembed.Cluster{Server: ClusterName(i), Port: ports[n+i], Peers: peers}}))
	}
	for _, s := range servers {
		ready(t, s)
	}
	return servers
}

// ready waits until a server of a cluster answers for JetStream, for which the cluster must have a leader.
func ready(t testing.TB, s *natsembed.Server) {
	t.Helper()
	nc, err := nats.Connect(s.URL(), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
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
