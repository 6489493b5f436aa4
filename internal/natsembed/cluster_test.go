package natsembed_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed/natstest"
)

// Three servers keep a stream together: what one of them took the others have, also when it is gone.
func TestCluster(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	js := jetStream(t, connect(t, servers[0]))
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("text")); err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		if info.Cluster.Leader != natstest.ClusterName(i) {
			continue
		}
		s.Stop()
		js := jetStream(t, connect(t, servers[(i+1)%len(servers)]))
		if msg := eventually(t, js, "S", "s.1"); string(msg.Data) != "text" {
			t.Errorf("the message at another server is %q", msg.Data)
		}
		return
	}
	t.Fatalf("the leader is %q, which is none of the servers", info.Cluster.Leader)
}

// eventually reads a message when a leader for its stream is elected.
func eventually(t *testing.T, js jetstream.JetStream, stream, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second) // one that asks while there is no leader may get no answer
		var msg *jetstream.RawStreamMsg
		s, err := js.Stream(asking, stream)
		if err == nil {
			msg, err = s.GetLastMsgForSubject(asking, subject)
		}
		cancel()
		if err == nil {
			return msg
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the message is not to be had: %v", err)
		}
	}
}
