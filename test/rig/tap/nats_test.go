package tap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
)

// testTimeout bounds what a test waits for.
const testTimeout = 30 * time.Second

// sight is what an On saw.
type sight struct {
	mu   sync.Mutex
	all  []Op
	news chan struct{}
}

func newSight() *sight { return &sight{news: make(chan struct{}, 1)} }

func (s *sight) add(o *Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, seen(o))
	offer(s.news)
}

// wait returns the first operation that is meant.
func (s *sight) wait(t *testing.T, what string, meant func(Op) bool) Op {
	t.Helper()
	limit := time.NewTimer(testTimeout)
	defer limit.Stop()
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.all, meant)
		if i >= 0 {
			defer s.mu.Unlock()
			return s.all[i]
		}
		s.mu.Unlock()
		select {
		case <-s.news:
		case <-limit.C:
			t.Fatalf("never saw %s", what)
		}
	}
}

func address(s *natsembed.Server) string { return strings.TrimPrefix(s.URL(), "nats://") }

func listenNATS(t *testing.T, target string, on func(*Op) Verdict) *Tap {
	t.Helper()
	tp, err := ListenNATS(NATSOptions{Target: target, On: on})
	return open(t, tp, err)
}

// client connects, directly or through a tap, and comes back quickly.
func client(t *testing.T, addr string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr, nats.Name("a client"), nats.MaxReconnects(-1), nats.ReconnectWait(5*time.Millisecond), nats.ReconnectJitter(0, 0), nats.Timeout(testTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func stream(t *testing.T, js jetstream.JetStream) jetstream.Consumer {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"jobs.>"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "S", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// one fetches one message, however long that takes.
func one(t *testing.T, c jetstream.Consumer) jetstream.Msg {
	t.Helper()
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		batch, err := c.Fetch(1, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			return m
		}
	}
	t.Fatal("no message came")
	return nil
}

func publish(ctx context.Context, js jetstream.JetStream, id string) (*jetstream.PubAck, error) {
	return js.PublishMsg(ctx, &nats.Msg{Subject: "jobs.a", Data: []byte("a job"), Header: nats.Header{"tandem-Note": {"kept as sent"}}},
		jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
}

func TestJetStreamThroughTap(t *testing.T) {
	s := newSight()
	tp := listenNATS(t, address(natstest.Start(t, natsembed.Options{})), func(o *Op) Verdict { s.add(o); return Pass })
	nc, js := client(t, tp.Addr())
	c := stream(t, js)
	if _, err := publish(t.Context(), js, "id-1"); err != nil {
		t.Fatal(err)
	}
	m := one(t, c)
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch, err := c.FetchNoWait(1)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		t.Errorf("a message of an empty stream on %s", m.Subject())
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	sub, err := nc.SubscribeSync("large")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("large", large); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(testTimeout); err != nil || !bytes.Equal(m.Data, large) {
		t.Errorf("a message of 4 MiB did not come back whole: %v", err)
	}

	for _, tt := range []struct {
		what  string
		meant func(Op) bool
	}{
		{"who the client is", func(o Op) bool { return o.Verb == "CONNECT" && bytes.Contains(o.Payload, []byte("a client")) }},
		{"the job being published", func(o Op) bool {
			return o.FromClient && o.Verb == "HPUB" && o.Subject == "jobs.a" && strings.HasPrefix(o.Reply, "_INBOX.") && string(o.Payload) == "a job" &&
				o.Header["Nats-Msg-Id"][0] == "id-1" && o.Header["tandem-Note"][0] == "kept as sent"
		}},
		{"its acknowledgement", func(o Op) bool {
			var ack struct{ Stream string }
			return !o.FromClient && o.Verb == "MSG" && json.Unmarshal(o.Payload, &ack) == nil && ack.Stream == "S"
		}},
		{"its delivery", func(o Op) bool {
			return !o.FromClient && o.Verb == "HMSG" && o.Subject == "jobs.a" && strings.HasPrefix(o.Reply, "$JS.ACK.S.c.1.") && o.Status == "" && string(o.Payload) == "a job"
		}},
		{"the client's acknowledgement", func(o Op) bool {
			return o.FromClient && o.Verb == "PUB" && o.Subject == m.Reply() && o.Reply != "" && string(o.Payload) == "+ACK"
		}},
		{"that there are no messages", func(o Op) bool { return !o.FromClient && o.Verb == "HMSG" && o.Status == "404" }},
	} {
		if o := s.wait(t, tt.what, tt.meant); o.Conn != 1 {
			t.Errorf("%s: on connection %d, want 1", tt.what, o.Conn)
		}
	}
	if err := tp.Err(); err != nil {
		t.Error(err)
	}
}

// isPubAck reports whether the server says that stream S has a message.
func isPubAck(o *Op) bool {
	return !o.FromClient && o.Verb == "MSG" && bytes.HasPrefix(o.Payload, []byte(`{"stream":"S"`))
}

func TestPubAckHeldAndCut(t *testing.T) {
	for name, verdict := range map[string]Verdict{"cut": Cut, "reset": Reset} {
		t.Run(name, func(t *testing.T) {
			server := natstest.Start(t, natsembed.Options{})
			held, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			tp := listenNATS(t, address(server), func(o *Op) Verdict {
				v := Pass
				if isPubAck(o) {
					once.Do(func() {
						close(held)
						select {
						case <-release:
						case <-o.Done:
						}
						v = verdict
					})
				}
				return v
			})
			nc, js := client(t, tp.Addr())
			_, direct := client(t, address(server))
			stream(t, direct)
			away := make(chan struct{}, 1)
			nc.SetDisconnectErrHandler(func(*nats.Conn, error) { offer(away) })

			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			published := make(chan error, 1)
			go func() {
				_, err := publish(ctx, js, "id-1")
				published <- err
			}()
			<-held
			st, err := direct.Stream(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			if n := st.CachedInfo().State.Msgs; n != 1 {
				t.Errorf("while the acknowledgement is held the stream has %d messages, want 1", n)
			}
			select {
			case err := <-published:
				t.Errorf("the publisher was told before the acknowledgement passed: %v", err)
			default:
			}
			close(release)
			<-away
			cancel() // nats.go waits for an answer that cannot come any more
			if err := <-published; err == nil {
				t.Error("the publisher was told of an acknowledgement that was cut off")
			}
			if ack, err := publish(t.Context(), js, "id-1"); err != nil || !ack.Duplicate {
				t.Errorf("published again: %+v, %v; want a duplicate", ack, err)
			}
			if err := tp.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAckLost(t *testing.T) {
	server := natstest.Start(t, natsembed.Options{})
	var once sync.Once
	tp := listenNATS(t, address(server), func(o *Op) Verdict {
		v := Pass
		if o.FromClient && strings.HasPrefix(o.Subject, "$JS.ACK.") {
			once.Do(func() { v = Lose })
		}
		return v
	})
	_, js := client(t, tp.Addr())
	c := stream(t, js)
	if _, err := publish(t.Context(), js, "id-1"); err != nil {
		t.Fatal(err)
	}
	if err := one(t, c).Ack(); err != nil {
		t.Fatal(err)
	}
	again := one(t, c)
	meta, err := again.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if meta.NumDelivered != 2 || meta.Sequence.Stream != 1 {
		t.Errorf("delivery %d of message %d, want 2 of 1", meta.NumDelivered, meta.Sequence.Stream)
	}
	if err := again.DoubleAck(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHeldSeesTheEnd holds an operation and ends the connection at either side, or closes the tap.
func TestHeldSeesTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*Tap, *nats.Conn, *natsembed.Server)
	}{
		{"client", func(_ *Tap, nc *nats.Conn, _ *natsembed.Server) { nc.Close() }},
		{"server", func(_ *Tap, _ *nats.Conn, s *natsembed.Server) { s.Stop() }},
		{"cut", func(tp *Tap, _ *nats.Conn, _ *natsembed.Server) { tp.Cut() }},
		{"tap", func(tp *Tap, _ *nats.Conn, _ *natsembed.Server) { _ = tp.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := natstest.Start(t, natsembed.Options{NoJetStream: true})
			held, released := make(chan struct{}), make(chan struct{})
			tp := listenNATS(t, address(server), func(o *Op) Verdict {
				if o.Verb == "PUB" {
					close(held)
					<-o.Done
					close(released)
				}
				return Pass
			})
			nc, _ := client(t, tp.Addr())
			if err := nc.Publish("a", nil); err != nil {
				t.Fatal(err)
			}
			<-held
			tt.end(tp, nc, server)
			<-released
		})
	}
}

// TestLastWords makes sure that what a client said before it left arrives, also with a server that is answering it.
func TestLastWords(t *testing.T) {
	server := natstest.Start(t, natsembed.Options{NoJetStream: true})
	tp := listenNATS(t, address(server), func(*Op) Verdict { return Pass })
	listener, _ := client(t, address(server))
	sub, err := listener.SubscribeSync("words")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		raw, err := net.Dial("tcp", tp.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(raw).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(raw, "CONNECT {\"verbose\":true}\r\nPING\r\nSUB words 1\r\nPUB words 4\r\nlast\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := raw.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.NextMsg(testTimeout); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerComesBack(t *testing.T) {
	server := natstest.Start(t, natsembed.Options{NoJetStream: true})
	tp := listenNATS(t, address(server), nil)
	nc, _ := client(t, tp.Addr())
	back := make(chan struct{}, 1)
	nc.SetReconnectHandler(func(*nats.Conn) { offer(back) })
	for range 3 {
		server.Stop()
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-back
		if err := nc.FlushTimeout(testTimeout); err != nil {
			t.Fatal(err)
		}
	}
	if nc.ConnectedAddr() != tp.Addr() {
		t.Errorf("connected to %s, past the tap at %s", nc.ConnectedAddr(), tp.Addr())
	}
}

func TestUnparsableCloses(t *testing.T) {
	server := natstest.Start(t, natsembed.Options{NoJetStream: true})
	tp := listenNATS(t, address(server), func(*Op) Verdict { return Pass })
	c, err := net.Dial("tcp", tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if err := tp.Err(); !errors.Is(err, errUnparsable) || !strings.Contains(err.Error(), `"GET"`) {
		t.Errorf("Err = %v, want what could not be parsed", err)
	}
}
