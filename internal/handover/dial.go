package handover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// dialer makes the connections of a client.
type dialer struct {
	net.Dialer
	roots  *x509.CertPool // nil: the system's, and keys
	server func(ctx context.Context, base string) (key string, ok bool)
}

var errKey = errors.New("it has another key than the prefill worker has registered")

// dialTLS makes an encrypted connection. The certificate is known by the key that its server has registered, if it has and no authority is asked for.
func (d *dialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: d.roots, ServerName: host, MinVersion: tls.VersionTLS13}
	if key, _ := d.server(ctx, "https://"+address); key != "" && d.roots == nil {
		config.InsecureSkipVerify = true // what is verified instead:
		config.VerifyConnection = func(s tls.ConnectionState) error {
			if keyOf(s.PeerCertificates[0]) != key {
				return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: errKey}
			}
			return nil
		}
	}
	plain, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	c := tls.Client(plain, config)
	if err := c.HandshakeContext(limited); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return c, nil
}
