package tap

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// weather is what [Conditions] became; each call of Set begins a new one, with nothing reserved.
type weather struct {
	Conditions
	over               chan struct{} // closed when the next one begins
	toTarget, toClient meter
}

func (w *weather) meter(toTarget bool) *meter {
	if toTarget {
		return &w.toTarget
	}
	return &w.toClient
}

func newWeather(c Conditions) *weather { return &weather{Conditions: c, over: make(chan struct{})} }

// calm reports whether bytes pass at once.
func (w *weather) calm() bool { return w.Delay <= 0 && w.BytesPerSecond <= 0 && !w.Drop }

// meter is one direction of a wire with a limited rate.
type meter struct {
	mu   sync.Mutex
	free time.Time // when all that was reserved has passed
}

// reserve returns when n more bytes will have passed, which were written at the given time: whoever comes late to send them has not made
// the wire slower.
func (m *meter) reserve(at time.Time, n, bytesPerSecond int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.free.Before(at) {
		m.free = at
	}
	m.free = m.free.Add(time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second)))
	return m.free
}

// How much is under way at once in a connection's direction, as in the buffers of a real one.
const (
	pieceBytes  = 16 << 10 // at most, of one piece
	pieceTime   = 20       // at a limited rate, pieces a second
	windowBytes = 1 << 20  // written and not sent, with a delay
	bufferBytes = 64 << 10 // the same without
)

// ending is how a connection ends; each is queued behind the bytes before it.
type ending int

const (
	alive     ending = iota
	halfClose        // nothing more will be written
	fullClose
	reset
)

// piece is some bytes, or an ending, on its way.
type piece struct {
	data   []byte
	ending ending
	at     time.Time // when it was written
}

// conn is one side of a wire under its tap's weather: what is written passes late, slowly or not at all, in order, and so does the end of the connection.
// What is read is held back while the wire drops. It is written by one goroutine at a time.
type conn struct {
	tap      *Tap
	raw      *net.TCPConn
	n        int // of an accepted one: its number, from 1
	toTarget bool
	shut     chan struct{} // closed when nobody on our side reads or writes any more
	gone     chan struct{} // closed when the connection is closed
	held     atomic.Bool   // the wire dropped when something came

	mu       sync.Mutex
	progress *sync.Cond // on mu: the queue became shorter, or the connection is gone
	queue    []piece
	queued   int    // bytes in it
	draining bool   // a goroutine sends what is in the queue
	ending   ending // as asked for; pieces may be before it
	aborted  bool   // gone is closed, or about to be
}

func newConn(t *Tap, raw *net.TCPConn, toTarget bool) *conn {
	c := &conn{tap: t, raw: raw, toTarget: toTarget, shut: make(chan struct{}), gone: make(chan struct{})}
	c.progress = sync.NewCond(&c.mu)
	return c
}

// Read implements net.Conn. While the wire drops, what was read waits, and so does the news that the connection ended.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.raw.Read(b)
	if n == 0 && os.IsTimeout(err) && !closed(c.shut) {
		return 0, err // our own deadline is no news of the wire
	}
	if !c.passable() {
		return 0, net.ErrClosed
	}
	return n, err
}

// passable waits until the wire does not drop, and reports false if the connection was closed on our side.
func (c *conn) passable() bool {
	for {
		w := c.tap.weather.Load()
		if !w.Drop {
			return !closed(c.shut)
		}
		c.held.Store(true)
		select {
		case <-w.over:
		case <-c.shut:
			return false
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Write implements net.Conn. In good weather it is the socket's own; else it returns when the bytes are under way.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	w := c.tap.weather.Load()
	direct := w.calm() && !c.draining && c.ending == alive
	c.mu.Unlock()
	c.carried(len(b))
	if direct {
		return c.raw.Write(b)
	}
	size := pieceBytes
	if w.BytesPerSecond > 0 {
		size = min(size, max(1, w.BytesPerSecond/pieceTime))
	}
	n := 0
	for part := range slices.Chunk(b, size) {
		if err := c.push(slices.Clone(part)); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// carried counts bytes that are about to be passed on.
func (c *conn) carried(n int) {
	if c.toTarget {
		c.tap.toTarget.Add(int64(n))
	} else {
		c.tap.toClient.Add(int64(n))
	}
}

// push puts bytes into the queue when there is room.
func (c *conn) push(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ending == alive && !c.aborted && c.queued >= c.room() {
		c.progress.Wait()
	}
	if c.ending != alive || c.aborted {
		return net.ErrClosed
	}
	c.queued += len(data)
	return c.queueUp(piece{data: data})
}

func (c *conn) room() int {
	if c.tap.weather.Load().Delay > 0 {
		return windowBytes
	}
	return bufferBytes
}

// queueUp appends a piece, and sees to it that somebody sends. mu is held.
func (c *conn) queueUp(p piece) error {
	p.at = time.Now()
	c.queue = append(c.queue, p)
	if !c.draining {
		if !c.tap.start(c.drain) {
			return net.ErrClosed
		}
		c.draining = true
	}
	return nil
}

// Close implements net.Conn: what was written is sent first, as a kernel does, without the caller waiting for it.
func (c *conn) Close() error { return c.end(fullClose) }

// CloseWrite tells the other side that nothing more comes, after what was written.
func (c *conn) CloseWrite() error { return c.end(halfClose) }

// Reset closes with a TCP reset, after what was written.
func (c *conn) Reset() error { return c.end(reset) }

func (c *conn) end(how ending) error {
	c.mu.Lock()
	if c.aborted || c.ending >= min(how, fullClose) {
		c.mu.Unlock()
		return nil
	}
	c.ending = how
	if how >= fullClose {
		close(c.shut)
	}
	c.progress.Broadcast()
	if w := c.tap.weather.Load(); !c.draining && !w.Drop && w.Delay <= 0 {
		c.mu.Unlock()
		c.finish(how)
		return nil
	}
	err := c.queueUp(piece{ending: how})
	c.mu.Unlock()
	if err != nil {
		c.abort(how == reset)
	}
	if how >= fullClose {
		_ = c.raw.SetReadDeadline(time.Unix(1, 0)) // whoever reads is to stop now; it fails only if the socket is closed already
	}
	return nil
}

// finish carries out an ending whose time has come.
func (c *conn) finish(how ending) {
	if how == halfClose {
		_ = c.raw.CloseWrite() // it fails only if the other side has gone, which the reader sees
		return
	}
	c.abort(how == reset)
}

// abort closes now, whatever is under way.
func (c *conn) abort(hard bool) {
	c.mu.Lock()
	if c.aborted {
		c.mu.Unlock()
		return
	}
	c.aborted = true
	if c.ending < fullClose {
		close(c.shut)
	}
	c.ending = fullClose
	if hard {
		c.ending = reset
	}
	close(c.gone)
	c.progress.Broadcast()
	c.mu.Unlock()
	if hard {
		_ = c.raw.SetLinger(0) // it fails only if the other side has gone, and then there is nobody to tell
	}
	_ = c.raw.Close()
	c.tap.forget(c)
}

// endedBy is how the connection ended whose reading gave err: by the other side, or by ours.
func (c *conn) endedBy(err error) ending {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the latter in the middle of a record of TLS
		return fullClose
	case errors.Is(err, net.ErrClosed):
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ending
	default:
		return reset
	}
}

// drain sends what is in the queue until it is empty.
func (c *conn) drain() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 || c.aborted {
			c.queue, c.queued, c.draining = nil, 0, false
			c.mu.Unlock()
			return
		}
		p := c.queue[0]
		c.mu.Unlock()
		if !c.due(p) {
			continue
		}
		if p.data == nil {
			c.finish(p.ending)
		} else if _, err := c.raw.Write(p.data); err != nil {
			c.abort(false)
		}
		c.mu.Lock()
		if !c.aborted {
			c.queue, c.queued = c.queue[1:], c.queued-len(p.data)
		}
		c.progress.Broadcast()
		c.mu.Unlock()
	}
}

// due waits until a piece may be sent, and reports false if the connection is closed before.
func (c *conn) due(p piece) bool {
	for !closed(c.gone) {
		w := c.tap.weather.Load()
		if w.Drop {
			select {
			case <-w.over:
			case <-c.gone:
			}
			continue
		}
		if !c.sleep(p.at.Add(w.Delay), w) {
			continue
		}
		if w.BytesPerSecond <= 0 || len(p.data) == 0 || c.sleep(w.meter(c.toTarget).reserve(p.at, len(p.data), w.BytesPerSecond), w) {
			return true
		}
	}
	return false
}

// sleep waits until then, and reports false if the weather changes or the connection is closed before.
func (c *conn) sleep(then time.Time, w *weather) bool {
	wait := time.Until(then)
	if wait <= 0 {
		return !closed(c.gone)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.over:
		return false
	case <-c.gone:
		return false
	}
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.raw.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// link is a connection through the tap: the two sides of it.
type link struct {
	tap            *Tap
	client, target *conn
	once           sync.Once
	done           chan struct{} // closed when either side has ended
}

// connect makes the link that begins with an accepted connection, or resets that one, as a port would where nobody listens.
func (t *Tap) connect(client *conn) (*link, bool) {
	if !client.passable() {
		return nil, false
	}
	target, err := t.dial(t.ctx)
	if err != nil {
		_ = client.Reset()
		return nil, false
	}
	return &link{tap: t, client: client, target: target, done: make(chan struct{})}, true
}

// over says that a side has ended.
func (l *link) over() { l.once.Do(func() { close(l.done) }) }

// close ends both sides as one of them ended: closed, or reset.
func (l *link) close(how ending) {
	l.over()
	_ = l.client.end(how)
	_ = l.target.end(how)
}
