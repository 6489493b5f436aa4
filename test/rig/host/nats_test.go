package host

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestNATS(t *testing.T) {
	p, err := Build(t.Context(), t.TempDir(), BuildOptions{Only: []string{"nats-server"}, Race: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, *Programs){
		"keeps its store and its port":   keepsStoreAndPort,
		"says that its port is taken":    saysThatPortIsTaken,
		"a cluster chooses leaders anew": choosesAnotherLeader,
		"a cluster is parted and whole":  isPartedAndWhole,
	} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

// stream returns what is stored where the URL leads, and the connection.
func stream(t *testing.T, url string) (nats.JetStreamContext, *nats.Conn) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	return js, nc
}

func keepsStoreAndPort(t *testing.T, programs *Programs) {
	dir := filepath.Join(t.TempDir(), "made")
	n, err := StartNATS(t.Context(), programs, NATSOptions{Name: "nats", Dir: dir, Sync: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Kill()
	url := n.URL()
	if err := n.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "it runs already") {
		t.Errorf("started twice: %v", err)
	}
	js, nc := stream(t, url)
	if _, err := js.AddStream(&nats.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish("kept", []byte("a message")); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.Process().Code() != 0 {
		t.Errorf("exit status %d of a graceful end", n.Process().Code())
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Kill()
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, _ = stream(t, url)
	if m, err := js.GetMsg("KEPT", 1); err != nil || string(m.Data) != "a message" {
		t.Errorf("message %+v, %v after two restarts", m, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "nats.log")); err != nil || strings.Count(string(b), "Server is ready") != 3 {
		t.Errorf("log %q, %v; want three starts", b, err)
	}
}

func saysThatPortIsTaken(t *testing.T, programs *Programs) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	_, err = StartNATS(t.Context(), programs, NATSOptions{Name: "nats", Dir: t.TempDir(), Port: port})
	if err == nil || !strings.Contains(err.Error(), "another process has taken a port") {
		t.Errorf("error %v, want one that says that the port is taken", err)
	}
}

func kill(t *testing.T, c *Cluster) {
	if err := c.Kill(); err != nil {
		t.Error(err)
	}
}

func choosesAnotherLeader(t *testing.T, programs *Programs) {
	c, err := StartCluster(t.Context(), programs, t.TempDir(), 3, "")
	if err != nil {
		t.Fatal(err)
	}
	defer kill(t, c)
	js, _ := stream(t, c.URL())
	if _, err := js.AddStream(&nats.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	for what, leader := range map[string]func() (int, error){
		"the cluster": func() (int, error) { return c.Leader(t.Context()) },
		"a stream":    func() (int, error) { return c.StreamLeader(t.Context(), "KEPT") },
	} {
		first, err := leader()
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes()[first].Kill()
		second, err := leader()
		if err != nil {
			t.Fatal(err)
		}
		if second == first {
			t.Errorf("node %d leads %s although it was killed", first, what)
		}
		if err := c.Nodes()[first].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
