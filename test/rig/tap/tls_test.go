package tap

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/access"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
)

// secured is a server that asks for TLS and keys.
type secured struct {
	*natsembed.Server
	folder access.Folder
}

func startSecured(t *testing.T) secured {
	t.Helper()
	s := secured{folder: access.Folder(filepath.Join(t.TempDir(), "access"))}
	if err := s.folder.Create([]string{"127.0.0.1"}, []string{"m"}); err != nil {
		t.Fatal(err)
	}
	s.Server = natstest.Start(t, natsembed.Options{Include: s.folder.Config()})
	return s
}

// addr is where it listens.
func (s secured) addr() string {
	_, addr, _ := strings.Cut(s.URL(), "://")
	return addr
}

// tls is what a tap before it needs.
func (s secured) tls(t *testing.T) *TLS {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(string(s.folder), "server.pem"), filepath.Join(string(s.folder), "server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(s.folder.CA())
	if err != nil {
		t.Fatal(err)
	}
	o := &TLS{Certificate: certificate, Authority: x509.NewCertPool()}
	o.Authority.AppendCertsFromPEM(pem)
	return o
}

// tap opens one before it.
func (s secured) tap(t *testing.T, on func(*Op) Verdict) *Tap {
	t.Helper()
	tp, err := ListenNATS(NATSOptions{Target: s.addr(), On: on, TLS: s.tls(t)})
	return open(t, tp, err)
}

// operator connects with the operator's key, and comes back quickly.
func (s secured) operator(t *testing.T, addr string) *nats.Conn {
	t.Helper()
	key, err := nats.NkeyOptionFromSeed(s.folder.Operator())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("tls://"+addr, key, nats.RootCAs(s.folder.CA()), nats.Name("an operator"), nats.MaxReconnects(-1),
		nats.ReconnectWait(5*time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(testTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// listening subscribes, past any tap.
func (s secured) listening(t *testing.T, subject string) *nats.Subscription {
	t.Helper()
	nc := s.operator(t, s.addr())
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.FlushTimeout(testTimeout)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func TestTLSThroughTap(t *testing.T) {
	server, s := startSecured(t), newSight()
	for name, on := range map[string]func(*Op) Verdict{"seen": func(o *Op) Verdict { s.add(o); return Pass }, "unseen": nil} {
		t.Run(name, func(t *testing.T) {
			nc := server.operator(t, server.tap(t, on).Addr())
			sub, err := nc.SubscribeSync("large")
			if err != nil {
				t.Fatal(err)
			}
			large := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
			for range 3 {
				if err := nc.Publish("large", large); err != nil {
					t.Fatal(err)
				}
				if m, err := sub.NextMsg(testTimeout); err != nil || !bytes.Equal(m.Data, large) {
					t.Errorf("a message of 4 MiB did not come back whole: %v", err)
				}
			}
		})
	}
	s.wait(t, "the greeting", func(o Op) bool { return o.Verb == "INFO" && bytes.Contains(o.Payload, []byte(`"nonce"`)) })
	s.wait(t, "who the client is", func(o Op) bool { return o.Verb == "CONNECT" && bytes.Contains(o.Payload, []byte("an operator")) })
	s.wait(t, "a message on its way", func(o Op) bool { return o.FromClient && o.Subject == "large" && len(o.Payload) == 4<<20 })
	s.wait(t, "a message on its way back", func(o Op) bool { return !o.FromClient && o.Subject == "large" && len(o.Payload) == 4<<20 })
}

// TestTLSHeldAndCut holds an operation, and does not pass it on; the client connects again, and what it says then arrives.
func TestTLSHeldAndCut(t *testing.T) {
	server := startSecured(t)
	for name, verdict := range map[string]Verdict{"cut": Cut, "reset": Reset} {
		t.Run(name, func(t *testing.T) {
			held, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			tp := server.tap(t, func(o *Op) Verdict {
				v := Pass
				if o.Verb == "PUB" {
					once.Do(func() {
						close(held)
						<-release
						v = verdict
					})
				}
				return v
			})
			heard := server.listening(t, "words")
			nc := server.operator(t, tp.Addr())
			back := make(chan struct{}, 1)
			nc.SetReconnectHandler(func(*nats.Conn) { offer(back) })
			if err := nc.Publish("words", []byte("first")); err != nil {
				t.Fatal(err)
			}
			<-held
			close(release)
			<-back
			if err := nc.Publish("words", []byte("second")); err != nil {
				t.Fatal(err)
			}
			if m, err := heard.NextMsg(testTimeout); err != nil || string(m.Data) != "second" {
				t.Errorf("heard %v, %v; want what was said after the first connection ended", m, err)
			}
			for _, end := range []func(){tp.Cut, tp.Reset} {
				end()
				<-back
			}
			if err := nc.FlushTimeout(testTimeout); err != nil {
				t.Error(err)
			}
			if err := tp.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTLSWeather: what is said while the wire drops passes late, also the handshake.
func TestTLSWeather(t *testing.T) {
	server := startSecured(t)
	tp := server.tap(t, func(*Op) Verdict { return Pass })
	heard := server.listening(t, "words")
	nc := server.operator(t, tp.Addr())
	tp.Set(Conditions{Drop: true})
	if err := nc.Publish("words", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := heard.NextMsg(100 * time.Millisecond); err == nil {
		t.Error("a message passed a wire that drops")
	}
	later := make(chan *nats.Conn)
	go func() { later <- server.operator(t, tp.Addr()) }()
	tp.Set(Conditions{Delay: 20 * time.Millisecond, BytesPerSecond: 100_000})
	if _, err := heard.NextMsg(testTimeout); err != nil {
		t.Error(err)
	}
	if err := (<-later).FlushTimeout(testTimeout); err != nil {
		t.Error(err)
	}
}

// TestTLSSeesTheEnd holds the server's greeting or what a client says, and ends the connection at either side, or closes the tap.
func TestTLSSeesTheEnd(t *testing.T) {
	server := startSecured(t)
	for _, verb := range []string{"INFO", "PUB"} {
		for name, end := range map[string]func(*Tap, net.Conn){
			"client": func(_ *Tap, c net.Conn) { _ = c.Close() },
			"cut":    func(tp *Tap, _ net.Conn) { tp.Cut() },
			"tap":    func(tp *Tap, _ net.Conn) { _ = tp.Close() },
		} {
			t.Run(verb+", "+name, func(t *testing.T) {
				held, released := make(chan struct{}), make(chan struct{})
				tp := server.tap(t, func(o *Op) Verdict {
					if o.Verb == verb {
						close(held)
						<-o.Done
						close(released)
					}
					return Pass
				})
				c, err := net.Dial("tcp", tp.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				if verb == "PUB" {
					if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
						t.Fatal(err)
					}
					c = tls.Client(c, &tls.Config{RootCAs: server.tls(t).Authority, ServerName: "127.0.0.1"})
					if _, err := io.WriteString(c, "PUB words 0\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
				}
				<-held
				end(tp, c)
				<-released
			})
		}
	}
}

// TestTLSSilentClient: a client that does nothing for its handshake, or not all, holds up neither the end of its connection, for which the server
// sees, nor the tap's.
func TestTLSSilentClient(t *testing.T) {
	server := startSecured(t)
	for name, words := range map[string]string{"silent": "", "half a hello": "\x16\x03\x01\x02\x00", "not TLS": "CONNECT {}\r\n"} {
		for _, waits := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // the server has enough after 2 s
				tp := server.tap(t, func(*Op) Verdict { return Pass })
				c, err := net.Dial("tcp", tp.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				greeting, err := bufio.NewReader(c).ReadString('\n')
				if err != nil || !strings.HasPrefix(greeting, "INFO {") {
					t.Fatalf("greeted by %q, %v", greeting, err)
				}
				if _, err := io.WriteString(c, words); err != nil {
					t.Fatal(err)
				}
				if waits {
					_, _ = io.Copy(io.Discard, c) // until the server has had enough
				}
				if err := errors.Join(tp.Close(), tp.Err()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestTLSOtherServer: a server that another authority vouches for is not the target.
func TestTLSOtherServer(t *testing.T) {
	tp, err := ListenNATS(NATSOptions{Target: startSecured(t).addr(), TLS: startSecured(t).tls(t)})
	open(t, tp, err)
	c, err := net.Dial("tcp", tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, tls.Client(c, &tls.Config{InsecureSkipVerify: true})) // until the tap closes; whom the client speaks with is not the question
	if err := tp.Err(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Err = %v, want one about the certificate", err)
	}
}
