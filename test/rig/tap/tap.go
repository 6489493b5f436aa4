// Package tap sits on a wire between two processes: it shows what passes, can stop it at an exact step, and makes the network as bad as asked for.
//
// A NATS tap understands the client protocol, an HTTP tap requests and answers, a raw one only bytes. All listen on a
// loopback port that stays the same until Close, also while nobody listens at the target. Only a NATS tap can speak TLS: a raw tap carries it unread.
package tap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Conditions is the weather on a wire, in both directions. The zero value is a good day.
type Conditions struct {
	Delay          time.Duration // added to every piece, which keep their order
	BytesPerSecond int           // 0: no limit; else what all connections share in each direction
	Drop           bool          // nothing passes any more, and nobody is told, as behind a firewall that drops; it passes late when this ends, as TCP sends again
	Refuse         bool          // new connections are reset at once
}

// Op is one operation of a NATS connection, about to be passed on.
type Op struct {
	Conn       int                  // counts the connections of this tap, from 1
	FromClient bool                 // PUB, HPUB, SUB, … of the client; else MSG, HMSG, INFO, … of the server
	Verb       string               // upper case
	Subject    string               // of PUB, HPUB, MSG, HMSG, SUB
	Reply      string               // of the first four, if there is one
	Header     textproto.MIMEHeader // of HPUB and HMSG; keys exactly as sent
	Status     string               // of an HMSG that is a status: "404", "408", "100", …
	Payload    []byte               // of a message, without its header; of CONNECT, INFO and -ERR their text; not to be kept or changed
	Done       <-chan struct{}      // closed when either side, or the tap, closes the connection; a Pass still reaches the other side if that one is there
}

// Verdict says what becomes of an operation or request.
type Verdict int

// The verdicts. What was passed on before still arrives, but for what the other side's kernel had no room for when a Reset came.
const (
	Pass  Verdict = iota // on to the other side
	Cut                  // not passed on: both connections are closed
	Reset                // the same with a TCP reset to both
	Lose                 // not passed on, and the connection goes on
)

// NATSOptions describe a NATS tap.
type NATSOptions struct {
	Target string // host:port of the server
	// On is asked about each operation, one at a time for each direction of a connection, and may take its time: that direction
	// waits meanwhile. It may be nil. If it waits it must also wait for Op.Done, else Close waits for it.
	On func(*Op) Verdict
	// TLS is for a server that asks for it; nil is for one that does not.
	TLS *TLS
}

// Exchange is one HTTP request on its way.
type Exchange struct {
	Request *http.Request   // its Body was read into Body; context ends when the client goes away
	Body    []byte          // at most 64 MiB; not to be changed
	Late    bool            // the wire dropped when it came: nobody knows when it was sent
	Done    <-chan struct{} // closed when the client goes away or the tap closes
}

// Answer is what an HTTP tap does with a request. The zero value passes it on.
type Answer struct {
	Verdict  Verdict                    // Lose: it is never answered, until the client goes away. Nothing but Pass reaches the target
	Status   int                        // not 0: answered with this, by the tap itself
	Text     string                     // its body
	Cut      int                        // not 0: the target's answer is cut off, by closing the connection, after so many bytes of body
	Hang     int                        // not 0: it stops after so many bytes, and never ends until the client goes away
	Append   string                     // written after so many bytes (Cut), or after all, instead of closing with an error: the answer ends regularly then
	Alter    func(at int, piece []byte) // changes a piece of the body in place, which begins at this offset; may be nil
	Answered func()                     // called when the answer has begun to come, before its first byte (status line) is passed on; may be nil, may wait
	Ended    func()                     // called when the exchange is over; may be nil
}

// HTTPOptions describe an HTTP tap.
type HTTPOptions struct {
	Target string                 // host:port of the server, which may change: see SetTarget
	On     func(*Exchange) Answer // asked about each request; may be nil, may wait, but not beyond Exchange.Done
}

// Tap is a wire with somebody on it.
type Tap struct {
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	stop     func() // ends what listens, for an HTTP tap; may be nil
	weather  atomic.Pointer[weather]
	tasks    sync.WaitGroup // every goroutine of the tap

	toTarget, toClient atomic.Int64 // bytes carried

	mu     sync.Mutex
	target string
	conns  map[*conn]struct{} // both sides, all that are not closed
	count  int                // connections accepted so far
	closed bool
	err    error
}

// listen opens a tap that nobody serves yet.
func listen(target string) (*Tap, error) {
	_, port, err := net.SplitHostPort(target)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("open tap: target %q is not host:port: %w", target, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open tap: %w", err)
	}
	t := &Tap{listener: l, target: target, conns: map[*conn]struct{}{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.weather.Store(newWeather(Conditions{}))
	return t, nil
}

// Addr is where the tap listens, host:port.
func (t *Tap) Addr() string { return t.listener.Addr().String() }

// Set changes the weather from now on, for existing connections as well, and for what is under way.
func (t *Tap) Set(c Conditions) {
	close(t.weather.Swap(newWeather(c)).over)
}

// Cut closes every connection that exists. What is under way is lost.
func (t *Tap) Cut() { t.abortAll(false) }

// Reset does the same as Cut with a TCP reset.
func (t *Tap) Reset() { t.abortAll(true) }

// SetTarget says where connections lead from now on, and requests also those of connections that exist.
func (t *Tap) SetTarget(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.target = addr
}

// Carried is how many bytes the tap has passed on so far, or was about to, in each direction.
func (t *Tap) Carried() (toTarget, toClient int64) { return t.toTarget.Load(), t.toClient.Load() }

// Err is the first thing that the tap could not carry, such as an operation that it could not parse, whose connection was closed; nil if there was none.
func (t *Tap) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Close closes the port and all connections, and returns when all the tap's goroutines have ended: an On that waits must
// return when the Done of its operation or request is closed.
func (t *Tap) Close() error {
	t.mu.Lock()
	again := t.closed
	t.closed = true
	t.mu.Unlock()
	var err error
	if !again {
		err = t.listener.Close()
	}
	t.cancel()
	t.abortAll(false)
	if t.stop != nil {
		t.stop()
	}
	t.tasks.Wait()
	if err != nil {
		return fmt.Errorf("close tap: %w", err)
	}
	return nil
}

// fail remembers the first error.
func (t *Tap) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

// start runs a task that Close waits for. It reports false, and runs nothing, if the tap is closed.
func (t *Tap) start(task func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.tasks.Go(task)
	return true
}

func (t *Tap) abortAll(reset bool) {
	t.mu.Lock()
	all := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		all = append(all, c)
	}
	t.mu.Unlock()
	for _, c := range all {
		c.abort(reset)
	}
}

// adopt makes a connection one of the tap's.
func (t *Tap) adopt(raw net.Conn, toTarget bool) (*conn, error) {
	c := newConn(t, raw.(*net.TCPConn), toTarget)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errors.Join(net.ErrClosed, raw.Close())
	}
	t.conns[c] = struct{}{}
	if !toTarget {
		t.count++
		c.n = t.count
	}
	return c, nil
}

func (t *Tap) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// acceptPause is how long the tap waits when a connection cannot be accepted, as without free file descriptors, until it tries again.
const acceptPause = 10 * time.Millisecond

// accept waits for the next connection that the weather lets in. It fails when the tap is closed, and only then.
func (t *Tap) accept() (*conn, error) {
	for {
		raw, err := t.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
			t.fail(fmt.Errorf("accept connection: %w", err))
			if !pause(t.ctx, acceptPause) {
				return nil, net.ErrClosed
			}
			continue
		}
		c, err := t.adopt(raw, false)
		if err != nil {
			return nil, err
		}
		if !t.weather.Load().Refuse {
			return c, nil
		}
		c.abort(true)
	}
}

// serve gives every connection that comes to carry, each in its own goroutine.
func (t *Tap) serve(carry func(*conn)) {
	t.start(func() {
		for {
			c, err := t.accept()
			if err != nil {
				return
			}
			if !t.start(func() { carry(c) }) {
				c.abort(false)
			}
		}
	})
}

// dialTimeout bounds a connection to the target, which may be in another network namespace.
const dialTimeout = 10 * time.Second

// dial connects to the target, when the weather lets it.
func (t *Tap) dial(ctx context.Context) (*conn, error) {
	for w := t.weather.Load(); w.Drop; w = t.weather.Load() {
		select {
		case <-w.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	t.mu.Lock()
	target := t.target
	t.mu.Unlock()
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, fmt.Errorf("connect to target %s: %w", target, err)
	}
	return t.adopt(raw, true)
}

// pause waits for d, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
