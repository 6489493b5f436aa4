package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"tandem/internal/atomicfile"
	"tandem/jobs"
)

const (
	day               = 24 * time.Hour
	authorityLifetime = 3650 * day
	serverLifetime    = 825 * day // Apple's systems take none that lives longer
	renewal           = 90 * day  // before its end a certificate may be made anew
	clocksDiffer      = time.Hour
)

// certify sees to an authority, and to a certificate of the server for these addresses and those that it had. They say all that clients ask for
// that go by the letter of RFC 5280.
func (f Folder) certify(addresses []string) error {
	if _, err := os.Stat(f.CA()); errors.Is(err, fs.ErrNotExist) {
		if err := f.createAuthority(); err != nil {
			return err
		}
	}
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Tandem NATS"}, NotBefore: time.Now().Add(-clocksDiffer), NotAfter: time.Now().Add(serverLifetime),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	good := false
	if block, err := readPEM(f.certificate()); err == nil {
		old, err := x509.ParseCertificate(block)
		if err != nil {
			return jobs.Errorf(jobs.CodeInvalid, "%s holds no certificate: %w; remove it to have another one made", f.certificate(), err)
		}
		server.IPAddresses, server.DNSNames = old.IPAddresses, old.DNSNames
		good = time.Until(old.NotAfter) > renewal
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, a := range addresses {
		ip := net.ParseIP(a)
		switch {
		case ip != nil && !slices.ContainsFunc(server.IPAddresses, ip.Equal):
			server.IPAddresses, good = append(server.IPAddresses, ip), false
		case ip == nil && !slices.Contains(server.DNSNames, a):
			server.DNSNames, good = append(server.DNSNames, a), false
		}
	}
	if good {
		return nil
	}
	ca, signer, err := f.authority()
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeCertificate(f.certificate(), f.key(), server, ca, key, signer)
}

func (f Folder) createAuthority() error {
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Tandem CA"}, NotBefore: time.Now().Add(-clocksDiffer), NotAfter: time.Now().Add(authorityLifetime),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeCertificate(f.CA(), f.authorityKey(), ca, ca, key, key)
}

// authority reads the authority's certificate and key.
func (f Folder) authority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	secret, err := readPEM(f.authorityKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "the server needs another certificate, and ca-key.pem, which signs it, is not in %s; put it there as long as this takes", f)
	}
	if err != nil {
		return nil, nil, err
	}
	block, err := readPEM(f.CA())
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s holds no certificate: %w; put it back", f.CA(), err)
	}
	key, err := x509.ParsePKCS8PrivateKey(secret)
	signer, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s holds no ECDSA key; put it back", f.authorityKey())
	}
	return ca, signer, nil
}

// readPEM returns what the first block of a PEM file holds.
func readPEM(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s holds no PEM block; put it back", file)
	}
	return block.Bytes, nil
}

// writeCertificate signs a certificate for key, and writes both as PEM files.
func writeCertificate(file, keyFile string, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return err
	}
	id := sha1.Sum(point) // a name, as RFC 5280, 4.2.1.2, has it, and no protection
	template.SubjectKeyId = id[:]
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		atomicfile.Replace(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
		atomicfile.Replace(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600), os.Chmod(file, 0o644),
	)
}
