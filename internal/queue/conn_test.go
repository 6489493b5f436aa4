package queue

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/jobs"
)

// refusedWith connects and wants an error of the code that holds all the texts.
func refusedWith(t *testing.T, cfg Config, code jobs.Code, texts ...string) {
	t.Helper()
	c, err := Connect(t.Context(), cfg)
	if err == nil {
		c.Close()
		t.Fatal("Connect succeeded")
	}
	if jobs.CodeOf(err) != code {
		t.Errorf("error %q has code %s, want %s", err, jobs.CodeOf(err), code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error = %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %q shows a password", err)
	}
}

func connects(t testing.TB, cfg Config) *Conn {
	t.Helper()
	c, err := Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// userKey makes an nkey: its public key, and a file with its seed.
func userKey(t *testing.T) (public, seedFile string, seed []byte) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	if seed, err = pair.Seed(); err != nil {
		t.Fatal(err)
	}
	return public, writeFile(t, seed), seed
}

func TestConnectUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	refusedWith(t, Config{URL: "nats://user:s3cret@" + addr}, jobs.CodeNATS, addr, "cannot be reached", "--nats")
}

func TestConnectBadSettings(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, natsembed.Options{})
	missing := filepath.Join(t.TempDir(), "missing")
	junk := writeFile(t, []byte("junk"))
	refusedWith(t, Config{URL: s.URL(), Creds: missing}, jobs.CodeInvalid, "creds", missing)
	refusedWith(t, Config{URL: s.URL(), NKey: missing}, jobs.CodeInvalid, "nkey", missing)
	refusedWith(t, Config{URL: s.URL(), NKey: junk}, jobs.CodeInvalid, "nkey", junk, "SU")
	refusedWith(t, Config{URL: s.URL(), TLSCA: missing}, jobs.CodeInvalid, "tls-ca", missing)
	refusedWith(t, Config{URL: s.URL(), TLSCA: junk}, jobs.CodeInvalid, "tls-ca", junk)
	for _, url := range []string{"nats://u:s3cret@[::1", "nats://s3cret/x@h", "nats://s3cret,x@h", "u:1/s3cret@h"} {
		refusedWith(t, Config{URL: url}, jobs.CodeInvalid, "nats:", "no address", "%2F")
	}
}

func TestConnectNoJetStream(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, natsembed.Options{NoJetStream: true})
	refusedWith(t, Config{URL: s.URL()}, jobs.CodeNATS, "no JetStream", "-js", strings.TrimPrefix(s.URL(), "nats://"))
}

func TestConnectSmallPayload(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, natsembed.Options{MaxPayload: 1 << 20})
	refusedWith(t, Config{URL: s.URL()}, jobs.CodeNATS, "max_payload is 1048576", "max_payload: 8MB")
}

func TestConnectCredentials(t *testing.T) {
	t.Parallel()
	public, seedFile, _ := userKey(t)
	_, otherSeed, seed := userKey(t)
	s := natstest.Start(t, natsembed.Options{Users: []natsembed.User{{Name: "grader", Password: "right"}, {NKey: public}}})
	withUser := func(user string) string { return strings.Replace(s.URL(), "nats://", "nats://"+user+"@", 1) }

	connects(t, Config{URL: withUser("grader:right")})
	connects(t, Config{URL: s.URL(), NKey: seedFile})
	refusedWith(t, Config{URL: withUser("grader:s3cret")}, jobs.CodeNATS, "refuses the credentials", "user and password")
	refusedWith(t, Config{URL: s.URL()}, jobs.CodeNATS, "refuses the credentials", "none were given", "--creds")
	refusedWith(t, Config{URL: s.URL(), NKey: otherSeed}, jobs.CodeNATS, "refuses the credentials", "nkey: "+otherSeed)

	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	creds := credsFile(t, account, seed)
	refusedWith(t, Config{URL: s.URL(), Creds: creds}, jobs.CodeNATS, "refuses the credentials", "creds: "+creds)
}

// credsFile makes the credentials of a user of the account.
func credsFile(t *testing.T, account nkeys.KeyPair, seed []byte) string {
	t.Helper()
	user, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewUserClaims(public).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, file)
}

// A server that trusts an operator takes the credentials of its accounts' users and no others.
func TestConnectCreds(t *testing.T) {
	t.Parallel()
	operator, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	operatorKey, err := operator.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	account, _ := newAccount(t, operator, resolver, jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1})
	_, system := newAccount(t, operator, resolver, jwt.JetStreamLimits{})
	url := runServer(t, &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), MaxPayload: minPayload, NoSigs: true, NoLog: true,
		TrustedKeys: []string{operatorKey}, AccountResolver: resolver, SystemAccount: system,
	})
	_, _, seed := userKey(t)
	c := connects(t, Config{URL: url, Creds: credsFile(t, account, seed)})
	if err := c.EnsureStreams(t.Context()); err != nil {
		t.Error(err)
	}
	other, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	wrong := credsFile(t, other, seed)
	refusedWith(t, Config{URL: url, Creds: wrong}, jobs.CodeNATS, "refuses the credentials", "creds: "+wrong)
}

func TestConnectTLS(t *testing.T) {
	t.Parallel()
	cert, ca := selfSigned(t)
	s := natstest.Start(t, natsembed.Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	plain := natstest.Start(t, natsembed.Options{})
	connects(t, Config{URL: s.URL(), TLSCA: ca})
	refusedWith(t, Config{URL: s.URL()}, jobs.CodeNATS, "unknown authority", "--tls-ca")
	refusedWith(t, Config{URL: strings.Replace(plain.URL(), "nats://", "tls://", 1), TLSCA: ca}, jobs.CodeNATS, "has no TLS")
}

// selfSigned makes a certificate for this machine, and the file that vouches for it.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca := writeFile(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca
}

// newAccount makes an account that the operator vouches for.
func newAccount(t *testing.T, operator nkeys.KeyPair, resolver *server.MemAccResolver, limits jwt.JetStreamLimits) (nkeys.KeyPair, string) {
	t.Helper()
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	public, err := account.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewAccountClaims(public)
	claims.Limits.JetStreamLimits = limits
	token, err := claims.Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	if err := resolver.Store(public, token); err != nil {
		t.Fatal(err)
	}
	return account, public
}

// runServer starts a server that natsembed cannot make.
func runServer(t *testing.T, opts *server.Options) (url string) {
	t.Helper()
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(enough) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

// A refused permission shows as a time-out only; the error names it all the same.
func TestDeniedPermission(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, natsembed.Options{Users: []natsembed.User{{Name: "u", Password: "p", DenyPublish: []string{"$JS.API.STREAM.CREATE.>"}}}})
	c := connects(t, Config{URL: strings.Replace(s.URL(), "nats://", "nats://u:p@", 1)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := c.EnsureStreams(ctx)
	if jobs.CodeOf(err) != jobs.CodeNATS || !strings.Contains(err.Error(), `$JS.API.STREAM.CREATE.INTAKE`) || !strings.Contains(err.Error(), "permission") {
		t.Errorf("EnsureStreams error = %v, want one that names the permission", err)
	}
}

// Each role has inboxes of its own, so that permissions can keep the roles apart.
func TestInboxPrefix(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, natsembed.Options{})
	c := connects(t, Config{URL: s.URL(), Name: "tandem-decode worker.1"})
	if inbox := c.nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX.tandem-decode.") {
		t.Errorf("inbox = %q", inbox)
	}
}
