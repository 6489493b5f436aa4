package jsclient

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nats-io/nkeys"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/test/npm"
)

// TestSecured has Node take the certificates and the key that deploy/nats/secure.sh makes, as they are.
func TestSecured(t *testing.T) {
	npm.Install(t)
	tools := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(tools, "nk"), "github.com/nats-io/nkeys/nk").CombinedOutput(); err != nil {
		t.Fatalf("build nk: %v\n%s", err, out)
	}
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	keys := filepath.Join(t.TempDir(), "tls")
	if out, err := exec.CommandContext(t.Context(), "../../deploy/nats/secure.sh", keys, "127.0.0.1", "localhost").CombinedOutput(); err != nil {
		t.Fatalf("secure.sh: %v\n%s", err, out)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(keys, "server.pem"), filepath.Join(keys, "server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := nkeys.FromSeed([]byte(read(t, filepath.Join(keys, "grader.nk"))))
	if err != nil {
		t.Fatal(err)
	}
	public, err := seed.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, natsembed.Options{
		NoJetStream: true, Users: []natsembed.User{{NKey: public}},
		TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13},
	})
	cmd := exec.CommandContext(t.Context(), "node", "secured.mjs", keys)
	cmd.Env = append(os.Environ(), "TANDEM_NATS="+s.URL())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("node: %v\n%s", err, out)
	}
}
