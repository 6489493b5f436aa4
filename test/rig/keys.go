package rig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tandem/internal/access"
	"tandem/test/rig/tap"
)

// keys are what the programs of a system show to one another.
type keys struct {
	access.Folder
	grader string   // key file of the rig's user
	tls    *tap.TLS // by which a tap is the server to them
}

// newKeys makes them in the folder dir, as submitter admin secure and submitter admin grader add do.
func newKeys(dir string, models []string) (*keys, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	k := &keys{Folder: access.Folder(dir), grader: filepath.Join(dir, user+".nk")}
	if err := k.Create([]string{"127.0.0.1", "localhost"}, models); err != nil {
		return nil, err
	}
	if err := k.AddGrader(user, k.grader); err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"))
	if err != nil {
		return nil, fmt.Errorf("read the server's certificate: %w", err)
	}
	pem, err := os.ReadFile(k.CA())
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(pem) {
		return nil, errors.New("read the authority: no certificate")
	}
	k.tls = &tap.TLS{Certificate: certificate, Authority: authority}
	return k, nil
}

// as is what a program takes to connect with a key file.
func (k *keys) as(key string) []string { return []string{"--nkey", key, "--tls-ca", k.CA()} }
