package handover

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem/jobs"
)

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func testCA(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert: cert, key: key, file: filepath.Join(t.TempDir(), name+".pem")}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate for these names and addresses, and its key.
func (a *authority) issue(t testing.TB, names ...string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: a.cert.Subject.CommonName}}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", private)
	return certFile, keyFile
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHTTPS(t *testing.T) {
	first, second := testCA(t, "first"), testCA(t, "second")
	cert, key := first.issue(t, "127.0.0.1")
	s := newServer(t, ServerConfig{CertFile: cert, KeyFile: key})
	trusting := newClient(t, ClientConfig{CAFile: first.file})
	state, content := offer(t, s, "job", 1<<20)
	dir := t.TempDir()

	got, err := trusting.Fetch(t.Context(), &state, dir, "x-", nil)
	wantFetched(t, got, err, content)
	if err := os.Remove(got.Path); err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]ClientConfig{"the system's authorities": {}, "another authority": {CAFile: second.file}} {
		_, err := newClient(t, c).Fetch(t.Context(), &state, dir, "x-", nil)
		wantFailure(t, err, jobs.FailUnreachable, &state, dir)
		if !strings.Contains(err.Error(), "--handover-ca") {
			t.Errorf("with %s: %q names no remedy", name, err)
		}
	}
	plain := state
	plain.URL = strings.Replace(state.URL, "https", "http", 1)
	_, err = trusting.Fetch(t.Context(), &plain, dir, "x-", nil)
	wantFailure(t, err, jobs.FailRefusedURL, &plain, dir)

	// Renewed files are served from the next connection on.
	newCert, newKey := second.issue(t, "127.0.0.1")
	later := time.Now().Add(time.Minute)
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Chtimes(from, later, later); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	got, err = newClient(t, ClientConfig{CAFile: second.file}).Fetch(t.Context(), &state, dir, "x-", nil)
	wantFetched(t, got, err, content)

	// Files that cannot be read leave the last ones in use.
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	got, err = newClient(t, ClientConfig{CAFile: second.file}).Fetch(t.Context(), &state, dir, "x-", nil)
	wantFetched(t, got, err, content)
}

// A server that was given no certificate makes one, by whose key those know it who have that from its registration.
func TestOwnCertificate(t *testing.T) {
	s := newServer(t, ServerConfig{encrypted: true})
	state, content := offer(t, s, "job", 1<<20)
	dir := t.TempDir()
	if !strings.HasPrefix(state.URL, "https://127.0.0.1:") || len(s.Key()) != 64 {
		t.Fatalf("URL %s, key %s", state.URL, s.Key())
	}
	registered := func(key string) ClientConfig {
		return ClientConfig{Server: func(_ context.Context, base string) (string, bool) { return key, base == s.URL() }}
	}
	got, err := newClient(t, registered(s.Key())).Fetch(t.Context(), &state, dir, "x-", nil)
	wantFetched(t, got, err, content)
	if err := os.Remove(got.Path); err != nil {
		t.Fatal(err)
	}
	authority := registered(s.Key())
	authority.CAFile = testCA(t, "first").file
	for name, c := range map[string]ClientConfig{"another key": registered(strings.Repeat("0", 64)), "no key": registered(""), "an authority": authority} {
		_, err := newClient(t, c).Fetch(t.Context(), &state, dir, "x-", nil)
		if wantFailure(t, err, jobs.FailUnreachable, &state, dir); !strings.Contains(err.Error(), "no certificate that is trusted here") {
			t.Errorf("with %s: %v", name, err)
		}
	}
}

// A record that names another address than a prefill worker has registered makes nobody ask there.
func TestStatesComeFromRegisteredServersOnly(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	c := newClient(t, ClientConfig{Server: func(_ context.Context, base string) (string, bool) { return "", base == "http://192.0.2.1:8100" }})
	state := &jobs.State{URL: other.URL + statePath + newID(), Token: "secret", Bytes: 10}
	dir := t.TempDir()
	_, err := c.Fetch(t.Context(), state, dir, "x-", nil)
	if wantFailure(t, err, jobs.FailUnreachable, state, dir); !strings.Contains(err.Error(), "no prefill worker of the model offers any") {
		t.Error(err)
	}
	if err := c.Done(t.Context(), state); err == nil || asked > 0 {
		t.Errorf("Done: %v; asked %d times", err, asked)
	}
}

func TestServerSpeaksNoTLS(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 100)
	state.URL = strings.Replace(state.URL, "http", "https", 1)
	dir := t.TempDir()
	_, err := newClient(t, ClientConfig{}).Fetch(t.Context(), &state, dir, "x-", nil)
	wantFailure(t, err, jobs.FailUnreachable, &state, dir)
}

func TestClientRefusesAuthorities(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(none, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{none, none + "x"} {
		if _, err := NewClient(ClientConfig{CAFile: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v does not name %s", err, file)
		}
	}
}
