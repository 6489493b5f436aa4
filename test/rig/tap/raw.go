package tap

import (
	"errors"
	"io"
	"sync"
)

// copyBytes is how much a connection reads at once.
const copyBytes = 32 << 10

// ListenRaw opens a tap that carries bytes, whatever they mean. Each side may end its half, or reset.
func ListenRaw(target string) (*Tap, error) {
	t, err := listen(target)
	if err != nil {
		return nil, err
	}
	t.serve(func(client *conn) {
		l, ok := t.connect(client)
		if !ok {
			return
		}
		var both sync.WaitGroup
		both.Go(func() { l.pump(l.client, l.target) })
		both.Go(func() { l.pump(l.target, l.client) })
		both.Wait()
		l.close(fullClose)
	})
	return t, nil
}

// pump carries one direction to its end, and ends the other side's half as this one ended.
func (l *link) pump(from, to *conn) {
	b := make([]byte, copyBytes)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return // that side is gone, as its reader sees as well, who may still have its last bytes to carry
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite()
			return
		default:
			l.close(from.endedBy(err))
			return
		}
	}
}
