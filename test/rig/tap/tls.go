package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// TLS is how a tap stands between a NATS server and clients that speak TLS: it is the server to them, and one of them to it. The weather, cuts and
// resets are those of the encrypted bytes. A client's nkey signs what the server's INFO asks for, and so passes.
type TLS struct {
	Certificate tls.Certificate // shown to clients, as the server's own
	Authority   *x509.CertPool  // by which the server is known
}

// encrypted carries the operations of both directions. NATS begins in the clear, with the server's INFO; then the client begins the handshake.
// Reading goes on all the while, so that the end of either connection is seen.
func (l *link) encrypted(all *sync.WaitGroup, o *TLS, toTarget, toClient *sieve) {
	fromClient, fromTarget := early{l.client, newAhead()}, early{l.target, newAhead()}
	there, gone := context.WithCancel(context.Background())
	all.Go(func() {
		fromClient.in.fill(l.client)
		l.over()
	})
	all.Go(func() {
		fromTarget.in.fill(l.target)
		l.over()
		gone()
	})
	if err := toClient.greet(fromTarget); err != nil {
		l.stopped(l.target, err)
		return
	}
	client := tls.Server(fromClient, &tls.Config{Certificates: []tls.Certificate{o.Certificate}, MinVersion: tls.VersionTLS12})
	if err := client.HandshakeContext(there); err != nil { // the client does not do its part, or the server has given up with it
		l.close(fullClose)
		return
	}
	target := tls.Client(fromTarget, &tls.Config{RootCAs: o.Authority, ServerName: l.target.host(), MinVersion: tls.VersionTLS12})
	if err := target.Handshake(); err != nil {
		if unknown := new(tls.CertificateVerificationError); errors.As(err, &unknown) {
			l.tap.fail(fmt.Errorf("carry NATS connection %d: %w", l.client.n, err))
		}
		l.close(fullClose)
		return
	}
	toTarget.out, toClient.out = target, client
	all.Go(func() { l.stopped(l.client, toTarget.run(client)) })
	all.Go(func() { l.stopped(l.target, toClient.run(target)) })
}

// greet passes on the first operation, before which and after which nothing comes in the clear.
func (s *sieve) greet(in io.Reader) error {
	var b []byte
	chunk := make([]byte, copyBytes)
	for bytes.IndexByte(b, '\n') < 0 && len(b) <= maxLine {
		n, err := in.Read(chunk)
		if err != nil {
			return err
		}
		b = append(b, chunk[:n]...)
	}
	n, err := s.pass(b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("%w: more than an INFO comes before the handshake", errUnparsable)
	}
	return err
}

// early is a connection whose bytes are read before they are asked for.
type early struct {
	*conn
	in *ahead
}

// Read implements net.Conn.
func (e early) Read(b []byte) (int, error) { return e.in.Read(b) }

// host is the name of the other side.
func (c *conn) host() string {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // of TCP, it has both
	return host
}
