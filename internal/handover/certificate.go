package handover

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"os"
	"sync"
	"time"

	"tandem/jobs"
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

// ownCertificate makes one for a server that was given none. Nobody has signed it: receivers know it by its key, which they have from the worker's registration.
func ownCertificate() (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tandem"}, NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &certificate{current: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}, nil
}

// own reports whether nobody but the registration vouches for it.
func (c *certificate) own() bool { return c.certFile == "" }

// keyOf names the key of a certificate: the SHA-256 of what it says of it, in hex.
func keyOf(c *x509.Certificate) string {
	return fmt.Sprintf("%x", sha256.Sum256(c.RawSubjectPublicKeyInfo))
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
	if c.own() {
		return c.current, nil
	}
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
