package slots

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// without is a connection on which some requests fail.
type without struct {
	http.RoundTripper
	what string // that is in the address of those
}

func (w without) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.String(), w.what) {
		return nil, errors.New("it breaks off")
	}
	return w.RoundTripper.RoundTrip(r)
}

// A state that did not pass is not used for the answer either, even if the slot could not be emptied.
func TestRefusedStateThatCannotBeErasedIsNotUsed(t *testing.T) {
	for _, shape := range []tinymodel.Shape{tinymodel.Llama, tinymodel.GPTOSS, tinymodel.GraniteHybrid} {
		t.Run(string(shape), func(t *testing.T) {
			spec := tinymodel.TinyShape(shape, tinymodel.BPE)
			b := start(t, setup{spec: spec})
			spec.Seed = 2
			other := start(t, setup{spec: spec})
			p := b.prompt(t, 1, 400)
			want := b.cold(t, p)
			config := b.config
			config.Client = NewClient(&http.Client{Transport: without{http.DefaultTransport, "action=erase"}})
			t.Cleanup(http.DefaultClient.CloseIdleConnections)
			s, err := Connect(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			sl, err := s.Acquire(t.Context(), p.Tokens)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sl.Import(t.Context(), p, b.receive(t, other.export(t, p))); failure(err) != jobs.FailFirstToken {
				t.Fatalf("import: %v, want that the first token differs", err)
			}
			sl.Release()
			if sl, err = s.Acquire(t.Context(), p.Tokens); err != nil {
				t.Fatal(err)
			}
			defer sl.Release()
			c, err := sl.Prefill(t.Context(), p)
			if err != nil || c.Cached != 0 {
				t.Errorf("prefill after it: %+v, %v; want nothing cached", c, err)
			}
			for range 2 { // what the slot holds then is its own
				if got, err := say(t.Context(), sl, p); err != nil || got.text != want.text {
					t.Errorf("answer %+v, %v; want %q", got, err, want.text)
				}
			}
			if got, err := say(t.Context(), sl, p); err != nil || shape == tinymodel.Llama && got.computed != 1 {
				t.Errorf("and again: %+v, %v; want one token computed", got, err)
			}
		})
	}
}
