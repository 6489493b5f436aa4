package handover

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// However an address is written, it is judged by what is dialled: a number that means a public address in octal, hex or one
// word is a name here, which is resolved, and whatever comes of that is judged.
func TestAddressesInDisguise(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 10)
	for _, host := range []string{
		"0306.063.0144.07", "0xc6.0x33.0x64.0x7", "3325256711", "0xc6336407", "198.51.25607", "198.51.100.7.", "127.0.0.1.nip.example", "localhost.example",
		"①⑨⑧.51.100.7", "198。51。100。7",
	} {
		t.Run(host, func(t *testing.T) {
			names := newNameServer(t, netip.MustParseAddr("198.51.100.7")) // whatever the question
			client := newClient(t, ClientConfig{})
			dialer := &net.Dialer{Timeout: connectLimit, ControlContext: guard(defaultAllow()), Resolver: names.resolver()}
			client.transport.DialContext = dialer.DialContext
			dir := t.TempDir()
			moved := at(&state, "http://127.0.0.1:", "http://"+host+":")
			_, err := client.Fetch(t.Context(), moved, dir, "x-", nil)
			h, ok := errors.AsType[*protocol.HandoverError](err)
			if !ok || h.Failure != jobs.FailRefusedURL && h.Failure != jobs.FailUnreachable {
				t.Errorf("%v; want that it is refused", err)
			}
		})
	}
}

// No proxy of the environment, and no redirect, sees a state's address and token.
func TestStatesGoNowhereElse(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, other.URL)
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(other.URL+"/state/0123456789abcdef0123456789abcdef", status))
		dir := t.TempDir()
		state := &jobs.State{URL: s.URL + "/state/0123456789abcdef0123456789abcdef", Token: "secret", Bytes: 10}
		_, err := newClient(t, ClientConfig{}).Fetch(t.Context(), state, dir, "x-", nil)
		if wantFailure(t, err, jobs.FailRefusedURL, state, dir); err == nil || !strings.Contains(err.Error(), "refused to give") {
			t.Errorf("status %d: %v", status, err)
		}
		if err := newClient(t, ClientConfig{}).Done(t.Context(), state); err == nil {
			t.Errorf("status %d: Done takes a redirect for a success", status)
		}
		s.Close()
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
