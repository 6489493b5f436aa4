package queue

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// link is a network between a worker and its server that can fail.
type link struct {
	url      string
	listener net.Listener
	target   string

	mu    sync.Mutex
	cond  *sync.Cond
	down  bool // connections break
	still bool // connections stay, and nothing comes through
	conns []net.Conn
	all   sync.WaitGroup
}

func newLink(t testing.TB, server string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{url: "nats://" + listener.Addr().String(), listener: listener, target: strings.TrimPrefix(server, "nats://")}
	l.cond = sync.NewCond(&l.mu)
	l.all.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true, false)
		l.all.Wait()
	})
	return l
}

func (l *link) cut()     { l.set(true, false) }
func (l *link) freeze()  { l.set(false, true) }
func (l *link) restore() { l.set(false, false) }

func (l *link) set(down, still bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.still = down, still
	if down {
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
	l.cond.Broadcast()
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		l.mu.Lock()
		if l.down {
			_, _ = near.Close(), far.Close()
		} else {
			l.conns = append(l.conns, near, far)
			l.all.Go(func() { l.pass(near, far) })
			l.all.Go(func() { l.pass(far, near) })
		}
		l.mu.Unlock()
	}
}

// pass passes on what it reads, when the link is not still.
func (l *link) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		for l.still {
			l.cond.Wait()
		}
		l.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
