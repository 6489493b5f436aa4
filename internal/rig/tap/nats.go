package tap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ListenNATS opens a tap on the NATS client protocol. Bytes pass unchanged, but for the server's INFO, which loses the addresses by which a client would
// go round the tap. A server that asks for TLS cannot be tapped: its bytes cannot be parsed.
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
		if o.On == nil {
			all.Go(func() { l.pump(l.client, l.target) })
		} else {
			l.relay(&all, l.client, &sieve{out: l.target, fromClient: true, conn: client.n, on: o.On, done: l.done})
		}
		l.relay(&all, l.target, &sieve{out: l.client, conn: client.n, on: o.On, done: l.done})
		all.Wait()
		l.close(fullClose)
	})
	return t, nil
}

// relay carries the operations of one direction. Reading goes on while one of them is held, so that the end of the connection is seen.
func (l *link) relay(all *sync.WaitGroup, from *conn, s *sieve) {
	in := &ahead{filled: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	all.Go(func() {
		in.fill(from)
		l.over()
	})
	all.Go(func() {
		switch err := s.run(in); {
		case errors.Is(err, errCut):
			l.close(fullClose)
		case errors.Is(err, errReset):
			l.close(reset)
		case errors.Is(err, errUnparsable):
			l.tap.fail(fmt.Errorf("carry NATS connection %d: %w", s.conn, err))
			l.close(fullClose)
		case errors.Is(err, errWrite):
			// That side is gone, as its reader sees as well, who may still have its last operations to carry.
		default:
			l.close(from.endedBy(err))
		}
	})
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
func (s *sieve) run(in *ahead) error {
	var b []byte
	for {
		var err error
		if b, err = in.more(b); err != nil {
			return err
		}
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

// more waits for bytes and appends them to b, whose memory it may take. It fails when there will be no more.
func (a *ahead) more(b []byte) ([]byte, error) {
	for {
		a.mu.Lock()
		had, err := len(a.b) > 0, a.err
		if had && len(b) == 0 {
			b, a.b = a.b, b[:0]
		} else if had {
			b = append(b, a.b...)
			a.b = a.b[:0]
		}
		a.mu.Unlock()
		switch {
		case had:
			offer(a.room)
			return b, nil
		case err != nil:
			return b, err
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
