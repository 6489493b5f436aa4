package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/client/admin"
	"tandem/jobs"
)

// What /prefill leaves is its user's, for one /decode, for some minutes; and all together is bounded.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h held
		alice, mallory := &admin.Client{}, &admin.Client{Client: nil}
		add := func(bytes int) string {
			j := &jobs.Job{ID: jobs.NewID(), Prompt: strings.Repeat("x", bytes)}
			h.add(alice, j)
			return j.ID
		}
		there := func(of *admin.Client, id string) bool { return h.take(of, id) != nil }
		id := add(1)
		if there(mallory, id) {
			t.Error("another user got it")
		}
		if !there(alice, id) || there(alice, id) {
			t.Error("it is not there once")
		}
		first, second, third := add(holdBytes/2), add(holdBytes/2), add(holdBytes/2)
		if there(alice, first) || !there(alice, second) || !there(alice, third) {
			t.Error("of three that are too much together, the oldest is not the one that went")
		}
		id = add(1)
		time.Sleep(holdFor)
		if there(alice, id) {
			t.Error("it is kept for longer than is said")
		}
		if add(1); len(h.list) != 1 {
			t.Errorf("%d are kept, want 1", len(h.list))
		}
	})
}
