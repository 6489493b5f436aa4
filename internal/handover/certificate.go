package handover

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"tandem/internal/jobs"
)

// certificate is a certificate and its key in two files, read again when they have changed.
type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex
	current  *tls.Certificate
	modified [2]time.Time // of the files that current was read from
}

// loadCertificate returns nil if neither file is named.
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	switch {
	case certFile == "" && keyFile == "":
		return nil, nil
	case certFile == "" || keyFile == "":
		return nil, jobs.Errorf(jobs.CodeInvalid, "HTTPS for KV states needs both a certificate and its key; one of them is missing")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if err := c.load(); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "read certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return c, nil
}

// load reads the files if they are others than before. What was read before stays in use on an error.
func (c *certificate) load() error {
	var modified [2]time.Time
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		modified[i] = info.ModTime()
	}
	if c.current != nil && modified == c.modified {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current, c.modified = &pair, modified
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.load() // files that are just being replaced: the next handshake looks again
	return c.current, nil
}

// covers reports a host for which the certificate is not valid.
func (c *certificate) covers(host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Leaf.VerifyHostname(host)
}
