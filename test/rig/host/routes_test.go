package host

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/test/rig/tap"
)

func isPartedAndWhole(t *testing.T, programs *Programs) {
	c, err := StartCluster(t.Context(), programs, t.TempDir(), 3, "")
	if err != nil {
		t.Fatal(err)
	}
	defer kill(t, c)
	all, _ := stream(t, c.URL())
	if _, err := all.AddStream(&nats.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	first, err := c.StreamLeader(t.Context(), "KEPT")
	if err != nil {
		t.Fatal(err)
	}
	old := c.Nodes()[first]
	js, nc := stream(t, old.URL())
	others := slices.Delete(c.Nodes(), first, first+1)
	near, _ := stream(t, others[0].URL()+","+others[1].URL())

	c.Route(first).Set(tap.Conditions{Drop: true})
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for second := first; second == first; <-tick.C { // the others have not missed it yet
		if second, err = c.StreamLeader(t.Context(), "KEPT"); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil || nc.Stats().Reconnects != 0 {
		t.Errorf("the isolated leader does not answer its client any more: %v, %d reconnects", err, nc.Stats().Reconnects)
	}
	if ack, err := js.Publish("kept", nil, nats.AckWait(time.Second)); err == nil {
		t.Errorf("the isolated leader acknowledged a message: %+v", ack)
	}
	if _, err := near.Publish("kept", []byte("near"), nats.RetryAttempts(20)); err != nil {
		t.Errorf("the others take no message: %v", err)
	}

	c.Route(first).Set(tap.Conditions{})
	if err := c.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, err := js.GetMsg("KEPT", 1); err != nil || string(m.Data) != "near" {
		t.Errorf("message %+v, %v by way of the node that was isolated", m, err)
	}

	// Nothing passes but by the taps: without them it has no route, although the others tell one another of it.
	c.Route(first).Set(tap.Conditions{Refuse: true})
	c.Route(first).Reset()
	for routes(t, old) != 0 { // it has not heard of the reset yet
		<-tick.C
	}
	for range 40 {
		<-tick.C
		if n := routes(t, old); n != 0 {
			t.Fatalf("%d routes that pass no tap", n)
		}
	}
	c.Route(first).Set(tap.Conditions{})
	if err := c.ready(t.Context()); err != nil {
		t.Fatal(err)
	}

	others[0].Kill()
	if err := c.ready(t.Context()); err == nil || !strings.Contains(err.Error(), others[0].Name()+" has ended") {
		t.Errorf("without %s the cluster is ready: %v", others[0].Name(), err)
	}
}

// routes is how many a node has.
func routes(t *testing.T, n *NATS) int {
	t.Helper()
	body, err := n.ask(t.Context(), "/routez")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Routes int `json:"num_routes"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Routes
}
