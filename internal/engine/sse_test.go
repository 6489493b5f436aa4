package engine

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// FuzzEvents checks that no bytes break the decoder, that it bounds what it yields, and that how the
// bytes arrive does not matter.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: {\"a\":1}\n\ndata: [DONE]\n\n", "data:x\r\n\r\n", ": ping\n\n", "error: {\"error\":{}}\n\n",
		"data: a\ndata: b\n\n", "event: x\ndata\n\n", "data: cut", "\n\n\n", "data: \xff\x00\n\n",
	} {
		f.Add(s)
	}
	read := func(r *strings.Reader, slow bool) (all []string, end error) {
		seq := ServerSentEvents(r)
		if slow {
			seq = ServerSentEvents(iotest.OneByteReader(r))
		}
		for e, err := range seq {
			if err != nil {
				return all, err
			}
			all = append(all, string(e))
		}
		return all, nil
	}
	f.Fuzz(func(t *testing.T, s string) {
		fast, err := read(strings.NewReader(s), false)
		slow, slowErr := read(strings.NewReader(s), true)
		if diff := cmp.Diff(fast, slow); diff != "" || (err == nil) != (slowErr == nil) {
			t.Errorf("at once %v, byte by byte %v:\n%s", err, slowErr, diff)
		}
		for _, e := range fast {
			if len(e) == 0 || len(e) > 2*MaxServerSentEvent {
				t.Errorf("an event of %d bytes", len(e))
			}
		}
		// What is written as an event is read as one.
		if clean := strings.NewReplacer("\n", "", "\r", "").Replace(s); clean != "" {
			if got, err := read(strings.NewReader("data: "+clean+"\n\n"), false); err != nil || len(got) != 1 || got[0] != clean {
				t.Errorf("event %q was read as %q, %v", clean, got, err)
			}
		}
	})
}
