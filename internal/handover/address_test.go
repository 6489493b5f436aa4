package handover

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/jobs"
)

func TestAddressesThatAreAllowed(t *testing.T) {
	check := guard(defaultAllow())
	for _, tt := range []struct {
		address string
		want    bool
	}{
		{"127.0.0.1:80", true},
		{"127.255.255.255:80", true},
		{"[::1]:80", true},
		{"10.1.2.3:80", true},
		{"172.16.0.1:80", true},
		{"172.31.255.255:80", true},
		{"192.168.1.1:80", true},
		{"169.254.150.103:80", true},
		{"100.64.0.1:80", true},
		{"100.127.255.255:80", true},
		{"[fe80::1]:80", true},
		{"[fe80::1%eth0]:80", true},
		{"[febf::1]:80", true},
		{"[fd12:3456::1]:80", true},
		{"[::ffff:10.1.2.3]:80", true},

		{"169.254.169.254:80", false}, // where clouds tell a machine its secrets
		{"[::ffff:169.254.169.254]:80", false},
		{"100.100.100.200:80", false},
		{"[fd00:ec2::254]:80", false},

		{"[::ffff:8.8.8.8]:80", false},
		{"8.8.8.8:80", false},
		{"0.0.0.0:80", false},
		{"[::]:80", false},
		{"172.15.255.255:80", false},
		{"172.32.0.0:80", false},
		{"100.63.255.255:80", false},
		{"100.128.0.0:80", false},
		{"192.169.0.1:80", false},
		{"255.255.255.255:80", false},
		{"224.0.0.1:80", false},
		{"[2001:db8::1]:80", false},
		{"[fec0::1]:80", false},
		{"[64:ff9b::a01:203]:80", false},
		{"something", false},
	} {
		if err := check(t.Context(), "tcp", tt.address, nil); (err == nil) != tt.want {
			t.Errorf("%s: %v, want it allowed: %t", tt.address, err, tt.want)
		}
	}
}

func TestFetchRefusesAddresses(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 10)
	client := newClient(t, ClientConfig{})
	host := strings.TrimPrefix(s.URL(), "http://")
	with := func(f func(*jobs.State)) *jobs.State {
		changed := state
		f(&changed)
		return &changed
	}
	url := func(u string) *jobs.State { return with(func(s *jobs.State) { s.URL = u }) }
	for name, bad := range map[string]*jobs.State{
		"nothing":          url(""),
		"other scheme":     url("ftp://" + host + "/state/0123456789abcdef0123456789abcdef"),
		"file":             url("file:///etc/passwd/of/somebody"),
		"no scheme":        url(host + "/state/0123456789abcdef0123456789abcdef"),
		"no host":          url("http:///state/0123456789abcdef0123456789abcdef"),
		"opaque":           url("http:" + host),
		"user":             url(strings.Replace(state.URL, "http://", "http://user:secret@", 1)),
		"fragment":         url(state.URL + "#x"),
		"query":            url(state.URL + "?x=y"),
		"no URL":           url("http://[::1/state/0123456789abcdef0123456789abcdef"),
		"control":          url("http://" + host + "/state/\x7f"),
		"port":             url("http://127.0.0.1:port/state/0123456789abcdef0123456789abcdef"),
		"public":           url("http://198.51.100.7/state/0123456789abcdef0123456789abcdef"),
		"public, IPv6":     url("https://[2001:db8::1]/state/0123456789abcdef0123456789abcdef"),
		"mapped":           url("http://[::ffff:198.51.100.7]/state/0123456789abcdef0123456789abcdef"),
		"unspecified":      url("http://0.0.0.0:" + host[strings.LastIndex(host, ":")+1:] + "/state/0123456789abcdef0123456789abcdef"),
		"no token":         with(func(s *jobs.State) { s.Token = "" }),
		"token with lines": with(func(s *jobs.State) { s.Token = "a\r\nHost: b" }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := client.Fetch(t.Context(), bad, dir, "x-", nil)
			wantFailure(t, err, jobs.FailRefusedURL, bad, dir)
		})
	}
	dir := t.TempDir()
	empty := with(func(s *jobs.State) { s.Bytes = 0 })
	_, err := client.Fetch(t.Context(), empty, dir, "x-", nil)
	wantFailure(t, err, jobs.FailTruncated, empty, dir)

	narrow := newClient(t, ClientConfig{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	_, err = narrow.Fetch(t.Context(), &state, dir, "x-", nil)
	wantFailure(t, err, jobs.FailRefusedURL, &state, dir)
	if !strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "--handover-allow") {
		t.Errorf("%q names neither address nor remedy", err)
	}
}

// A name is judged by the addresses that it has when the connection is made, whatever it had before.
func TestFetchFromANameThatMoves(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, content := offer(t, s, "job", 1000)
	moved := at(&state, "http://127.0.0.1:", "http://prefill.example:")
	names := newNameServer(t, netip.MustParseAddr("127.0.0.1"))
	client := newClient(t, ClientConfig{})
	dialer := &net.Dialer{Timeout: connectLimit, ControlContext: guard(defaultAllow()), Resolver: names.resolver()}
	client.transport.DialContext = dialer.DialContext

	got, err := client.Fetch(t.Context(), moved, t.TempDir(), "x-", nil)
	wantFetched(t, got, err, content)

	names.move(netip.MustParseAddr("198.51.100.7"))
	client.Close() // connections that are there already lead where they were allowed to
	dir := t.TempDir()
	_, err = client.Fetch(t.Context(), moved, dir, "x-", nil)
	wantFailure(t, err, jobs.FailRefusedURL, moved, dir)
	if !strings.Contains(err.Error(), "198.51.100.7") {
		t.Errorf("%q does not name the address", err)
	}

	names.move(netip.Addr{})
	_, err = client.Fetch(t.Context(), moved, dir, "x-", nil)
	wantFailure(t, err, jobs.FailUnreachable, moved, dir)
}

// nameServer answers every question with one IPv4 address, or with "no such name".
type nameServer struct {
	conn net.PacketConn
	done sync.WaitGroup

	mu   sync.Mutex
	addr netip.Addr
}

func newNameServer(t *testing.T, addr netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nameServer{conn: conn, addr: addr}
	n.done.Go(n.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		n.done.Wait()
	})
	return n
}

func (n *nameServer) move(addr netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addr = addr
}

func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

func (n *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = n.conn.WriteTo(n.answer(buf[:size]), from)
	}
}

// answer is a DNS message of RFC 1035: the question again, and an A record if it asks for one.
func (n *nameServer) answer(question []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	end := 12
	for question[end] != 0 {
		end += 1 + int(question[end])
	}
	end += 5 // the name's end, type, class
	wantsA := binary.BigEndian.Uint16(question[end-4:]) == 1
	reply := append([]byte(nil), question[:end]...)
	reply[2], reply[3] = 0x84, 0x00 // an answer, by who knows
	binary.BigEndian.PutUint64(reply[4:], 1<<48)
	switch {
	case !n.addr.IsValid():
		reply[3] = 3 // no such name
	case wantsA:
		reply[7] = 1                                                  // one answer
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // for the name asked, A, IN, valid for no time
		reply = append(reply, n.addr.AsSlice()...)
	}
	return reply
}
