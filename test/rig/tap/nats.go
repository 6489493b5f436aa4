package tap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// ListenNATS opens a tap on the NATS client protocol. Bytes pass unchanged, but for the server's INFO, which loses the addresses by which a client would
// go round the tap. A server that asks for TLS is tapped with [NATSOptions].TLS only: else its bytes cannot be parsed.
func ListenNATS(o NATSOptions) (*Tap, error) {
	t, err := listen(o.Target)
	if err != nil {
		return nil, err
	}
	t.serve(func(client *conn) {
		l, ok := t.connect(client)
		if !ok {
			return
		}
		var all sync.WaitGroup
		toTarget := &sieve{out: l.target, fromClient: true, conn: client.n, on: o.On, done: l.done}
		toClient := &sieve{out: l.client, conn: client.n, on: o.On, done: l.done}
		switch {
		case o.TLS != nil:
			l.encrypted(&all, o.TLS, toTarget, toClient)
		case o.On == nil:
			all.Go(func() { l.pump(l.client, l.target) })
			l.relay(&all, l.target, toClient)
		default:
			l.relay(&all, l.client, toTarget)
			l.relay(&all, l.target, toClient)
		}
		all.Wait()
		l.close(fullClose)
	})
	return t, nil
}

// relay carries the operations of one direction. Reading goes on while one of them is held, so that the end of the connection is seen.
func (l *link) relay(all *sync.WaitGroup, from *conn, s *sieve) {
	in := newAhead()
	all.Go(func() {
		in.fill(from)
		l.over()
	})
	all.Go(func() { l.stopped(from, s.run(in)) })
}

// stopped ends the link as the sieve of what comes from one side has ended.
func (l *link) stopped(from *conn, err error) {
	switch {
	case errors.Is(err, errCut):
		l.close(fullClose)
	case errors.Is(err, errReset):
		l.close(reset)
	case errors.Is(err, errUnparsable):
		l.tap.fail(fmt.Errorf("carry NATS connection %d: %w", l.client.n, err))
		l.close(fullClose)
	case errors.Is(err, errWrite):
		// That side is gone, as its reader sees as well, who may still have its last operations to carry.
	default:
		l.close(from.endedBy(err))
	}
}

// Why a sieve stops, beside the end of its input.
var (
	errCut   = errors.New("cut by verdict")
	errReset = errors.New("reset by verdict")
	errWrite = errors.New("the other side is gone")
)

// sieve passes on what comes from one side of a connection, operation by operation.
type sieve struct {
	out        io.Writer
	fromClient bool
	conn       int
	on         func(*Op) Verdict // may be nil
	done       <-chan struct{}
}

// run passes on whole operations until the input ends or a verdict ends the connection. A part of an operation before the end is not passed on.
func (s *sieve) run(in io.Reader) error {
	var b []byte
	for {
		b = slices.Grow(b, copyBytes)
		got, err := in.Read(b[len(b):cap(b)])
		if got == 0 && err != nil {
			return err
		}
		b = b[:len(b)+got]
		n, err := s.pass(b)
		if err != nil {
			return err
		}
		switch {
		case n == len(b) && cap(b) > keepBytes:
			b = nil // after a large operation
		case n > 0:
			b = b[:copy(b, b[n:])]
		}
	}
}

// pass handles the whole operations at the start of b, and returns how many bytes they were.
// Each is offered only when all before it are sent; without anybody to ask they are sent together.
func (s *sieve) pass(b []byte) (int, error) {
	sent, at := 0, 0 // b[sent:at] may pass
	flush := func() error {
		if sent == at {
			return nil
		}
		if _, err := s.out.Write(b[sent:at]); err != nil {
			return errors.Join(errWrite, err)
		}
		sent = at
		return nil
	}
	for {
		f, err := scan(b[at:], s.fromClient)
		if err != nil {
			return at, errors.Join(err, flush())
		}
		if f.size == 0 {
			return at, flush()
		}
		verdict, changed := Pass, []byte(nil)
		if f.verb == "INFO" {
			if changed, err = shutIn(f.args[0]); err != nil {
				return at, errors.Join(err, flush())
			}
		}
		if s.on != nil {
			if err := flush(); err != nil {
				return at, err
			}
			op, err := f.op()
			if err != nil {
				return at, err
			}
			op.Conn, op.FromClient, op.Done = s.conn, s.fromClient, s.done
			verdict = s.on(op)
		}
		switch {
		case verdict == Cut:
			return at, errCut
		case verdict == Reset:
			return at, errReset
		case verdict == Lose:
			at += f.size
			sent = at
		case changed != nil:
			if err := flush(); err != nil {
				return at, err
			}
			if _, err := s.out.Write(changed); err != nil {
				return at, errors.Join(errWrite, err)
			}
			at += f.size
			sent = at
		default:
			at += f.size
		}
	}
}

// shutIn removes from an INFO what leads a client past the tap, and returns the operation to send instead; nil if it need not change.
func shutIn(text []byte) ([]byte, error) {
	var info map[string]json.RawMessage
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("%w: INFO: %w", errUnparsable, err)
	}
	n := len(info)
	for _, key := range []string{"connect_urls", "ws_connect_urls", "client_ip"} {
		delete(info, key)
	}
	if len(info) == n {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteString("INFO ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(info); err != nil {
		return nil, fmt.Errorf("%w: INFO: %w", errUnparsable, err)
	}
	b.Truncate(b.Len() - 1)
	b.WriteString("\r\n")
	return b.Bytes(), nil
}

// How much is kept of one direction.
const (
	aheadBytes = 1 << 20 // read while an operation is held
	keepBytes  = 1 << 20 // of a buffer, after a larger operation has passed
)

// ahead is what was read and not yet looked at.
type ahead struct {
	filled, room chan struct{} // each holds a token when there is something new to look at

	mu  sync.Mutex
	b   []byte
	err error // why there will be no more
}

func newAhead() *ahead { return &ahead{filled: make(chan struct{}, 1), room: make(chan struct{}, 1)} }

// fill reads until the connection ends.
func (a *ahead) fill(from *conn) {
	chunk := make([]byte, copyBytes)
	for {
		n, err := from.Read(chunk)
		a.mu.Lock()
		a.b, a.err = append(a.b, chunk[:n]...), err
		full := len(a.b) >= aheadBytes
		a.mu.Unlock()
		offer(a.filled)
		if err != nil {
			return
		}
		for full {
			select {
			case <-a.room:
			case <-from.shut:
				return // whoever shut it looks no more
			}
			a.mu.Lock()
			full = len(a.b) >= aheadBytes
			a.mu.Unlock()
		}
	}
}

// Read takes what there is, or waits for it. It fails when there will be no more.
func (a *ahead) Read(b []byte) (int, error) {
	for {
		a.mu.Lock()
		n, err := copy(b, a.b), a.err
		a.b = a.b[n:]
		a.mu.Unlock()
		switch {
		case n > 0:
			offer(a.room)
			return n, nil
		case err != nil:
			return 0, err
		}
		<-a.filled
	}
}

func offer(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}
