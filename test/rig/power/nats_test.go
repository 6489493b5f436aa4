package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/supervisor"
)

// rounds is how often the power goes in a test, unless the environment asks for more.
func rounds(t *testing.T) int {
	text := os.Getenv("TANDEM_POWER_CUTS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1000 {
		t.Fatalf("TANDEM_POWER_CUTS is %q; want a number from 1 to 1000", text)
	}
	return n
}

// buildServer builds the NATS server of the module's version.
func buildServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nats-server")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, out)
	}
	return program
}

// serve starts a NATS server whose store is on a disk, and connects to it. Both end with the test.
func serve(t *testing.T, program string, d *Disk, syncInterval string) jetstream.JetStream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "nats.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: %q }\n", address, d.Path(), syncInterval)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := supervisor.Start(program, []string{"--config", config}, "", nil, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	nc, err := nats.Connect("nats://"+address, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := js.AccountInfo(ctx)
		cancel()
		if err == nil {
			return js
		}
		select {
		case <-tick.C:
		case <-p.Exited():
			t.Fatalf("nats-server has ended: %v", p.Err())
		case <-limit:
			t.Fatalf("nats-server has no JetStream after 30 s: %v", err)
		}
	}
}

// message is the n-th one: of any length, so that it lies across blocks and files in every way.
func message(seed uint64, n uint64) []byte {
	random := rand.New(rand.NewPCG(seed, n))
	return bytes.Repeat([]byte{byte(n)}, 1+random.IntN(32<<10))
}

// publisher publishes one message after the other and knows which ones were acknowledged: those up to a number.
type publisher struct {
	seed  uint64
	acked atomic.Uint64
}

func (p *publisher) run(ctx context.Context, js jetstream.JetStream) error {
	for n := p.acked.Load() + 1; ; n++ {
		_, err := js.Publish(ctx, fmt.Sprintf("n.%d", n), message(p.seed, n))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("publish message %d: %w", n, err)
		}
		p.acked.Store(n)
	}
}

// cut takes the power away in the middle of publishing, after so many more messages were acknowledged, and returns how many there are.
func (p *publisher) cut(t *testing.T, js jetstream.JetStream, d *Disk, more uint64) (after *Disk, acked uint64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		if err := p.run(ctx, js); err != nil {
			t.Error(err)
		}
	})
	defer publishing.Wait()
	defer stop()
	reached(t, &p.acked, p.acked.Load()+more)
	acked = p.acked.Load()
	return cut(t, d), acked
}

// lost counts those of the first n messages that a server does not have as they were published.
func lost(t *testing.T, js jetstream.JetStream, seed, n uint64) (missing int) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "N")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return int(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		msg, err := stream.GetLastMsgForSubject(t.Context(), fmt.Sprintf("n.%d", i+1))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatal(err)
		}
		if err != nil || !bytes.Equal(msg.Data, message(seed, i+1)) {
			missing++
		}
	}
	return missing
}

// A NATS server whose machine loses power has every message that it acknowledged if it syncs always, and only then: the test with its
// default interval shows that this one would see a loss.
func TestNATSLosesPower(t *testing.T) {
	possible(t)
	program := buildServer(t)
	for _, tt := range []struct {
		syncInterval string
		loses        bool
	}{{"always", false}, {"2m", true}} {
		t.Run(tt.syncInterval, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			d := disk(t, 512<<20)
			js := serve(t, program, d, tt.syncInterval)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "N", Subjects: []string{"n.*"}}); err != nil {
				t.Fatal(err)
			}
			p := &publisher{seed: seed}
			total := 0
			for range rounds(t) {
				after, acked := p.cut(t, js, d, 1+random.Uint64N(100))
				missing := lost(t, serve(t, program, after, tt.syncInterval), seed, acked)
				total += missing
				t.Logf("power cut after %d acknowledgements: %d messages lost", acked, missing)
			}
			switch {
			case !tt.loses && total > 0:
				t.Errorf("%d acknowledged messages were lost, want none", total)
			case tt.loses && total == 0:
				t.Error("no message was lost without syncing: the image holds what was not on the disk")
			}
		})
	}
}
