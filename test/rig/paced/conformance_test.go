package paced

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/engine/enginetest"
	"tandem/internal/llamacpp"
	"tandem/test/rig/paced/fleet"
)

// quick is a fleet for tests: answers take 16 tokens in 10 ms. With a window its model is one such as gpt-oss.
func quick(slots int, window bool) *fleet.Fleet {
	f := &fleet.Fleet{Name: "quick", Model: "tiny:latest", BytesPerToken: 4096, LinkBytesPerSecond: 1e9}
	if window {
		f.FixedBytes = 128 * (f.BytesPerToken - perToken)
	}
	for _, role := range []string{"prefill", "decode"} {
		f.Machines = append(f.Machines, fleet.Machine{
			Name: role, Role: role, Slots: slots, Prefill: []fleet.Point{{Tokens: 1000, Value: 0.05}}, Decode: []fleet.Point{{Tokens: 0, Value: 1600}},
			SaveBytesPerSecond: 5e9, RestoreBytesPerSecond: 5e9,
		})
	}
	return f
}

// started is a server that ends with the test.
func started(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// worker is the engine of a worker that is attached to the server.
func worker(t testing.TB, s *Server) *llamacpp.Engine {
	t.Helper()
	e, err := llamacpp.New(llamacpp.Options{
		Model: s.options.Fleet.Model, URL: s.URL(), SlotDir: s.options.Dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestConformance(t *testing.T) {
	for _, window := range []bool{false, true} {
		slots := map[bool]int{false: 1, true: 4}[window]
		t.Run(fmt.Sprintf("window %v %d slots", window, slots), func(t *testing.T) {
			enginetest.Run(t, func(t testing.TB) enginetest.Subject {
				f := quick(slots, window)
				here := started(t, Options{Fleet: f, Machine: "prefill", Context: 8192, Answer: 300})
				there := started(t, Options{Fleet: f, Machine: "decode", Context: 8192, Answer: 300})
				dead, err := llamacpp.New(llamacpp.Options{URL: "http://127.0.0.1:1"})
				if err != nil {
					t.Fatal(err)
				}
				s := enginetest.Subject{
					Engine: worker(t, here), Peer: worker(t, there), Slots: slots, Unreachable: dead, Window: here.shape.window, LineTokens: 10,
					Forget: func(ctx context.Context) error { return empty(ctx, here) },
					Cannot: map[enginetest.Ability]string{
						enginetest.MissingModel: "a server has the one model of its fleet",
						enginetest.Thinking:     "its texts mean nothing",
						enginetest.Formats:      "its texts mean nothing",
						enginetest.Tools:        "its texts mean nothing",
						enginetest.Images:       "its texts mean nothing",
						enginetest.Logprobs:     "its texts mean nothing",
						enginetest.Embeddings:   "it has one model, which generates text",
					},
				}
				return s
			})
		})
	}
}

// empty erases all slots.
func empty(ctx context.Context, s *Server) error {
	for id := range s.loop.slots {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/slots/%d?action=erase", s.URL(), id), strings.NewReader("{}"))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("erase slot %d: %s", id, resp.Status)
		}
	}
	return nil
}
