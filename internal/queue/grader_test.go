package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
)

// TestGraderConnectsLate: a grader who connects while nobody answers, as after the start of a server, is not taken for somebody without rights.
func TestGraderConnectsLate(t *testing.T) {
	config := filepath.Join(t.TempDir(), "accounts.conf")
	err := os.WriteFile(config, []byte(`accounts {
		A { jetstream: enabled, users: [ { user: a, password: a } ], exports: [ { service: "model.*", accounts: [B] } ] }
		B {
			users: [
				{ user: b, password: b, permissions: { publish: ["model.*"], subscribe: ["_INBOX.>"] } }
				{ user: c, password: c, permissions: { publish: ["x"], subscribe: ["_INBOX.>"] } }
			]
			imports: [ { service: { account: A, subject: "model.*" } } ]
		}
	}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, addr, _ := strings.Cut(natstest.Start(t, natsembed.Options{Include: config}).URL(), "://")
	began := time.Now()
	if _, err := Connect(t.Context(), Config{URL: "nats://c:c@" + addr}); err == nil || !strings.Contains(err.Error(), "neither use JetStream") || time.Since(began) > absentLimit/2 {
		t.Errorf("without rights: error %v after %v", err, time.Since(began))
	}

	nc, err := nats.Connect("nats://a:a@" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	asked := make(chan *nats.Msg, 100)
	first, err := nc.ChanSubscribe("model.*", asked)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan error, 1)
	go func() {
		c, err := Connect(t.Context(), Config{URL: "nats://b:b@" + addr})
		if err == nil {
			defer c.Close()
			if !c.grader {
				t.Error("it is not taken for a grader")
			}
		}
		connected <- err
	}()
	<-asked // and gets no answer
	if _, err := nc.Subscribe("model.*", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	_ = first.Unsubscribe()
	if err := <-connected; err != nil {
		t.Error(err)
	}
}
