package deploy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/access"
	"tandem/internal/protocol"
)

// start runs a server with a configuration file of this folder, but on loopback and with a store of its own.
func start(t *testing.T, config, store string) *server.Server {
	t.Helper()
	opts, err := server.ProcessConfigFile(config)
	if err != nil {
		t.Fatalf("configuration refused: %v", err)
	}
	opts.Host, opts.Port = "127.0.0.1", server.RANDOM_PORT
	opts.StoreDir, opts.NoSigs = store, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatalf("configuration refused: %v", err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not become ready within 10 s")
	}
	return s
}

// run runs a script of this folder and returns what it printed.
func run(ctx context.Context, env []string, script string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, script, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNATSConfiguration(t *testing.T) {
	opts, err := server.ProcessConfigFile("nats/nats-server.conf")
	if err != nil {
		t.Fatalf("configuration refused: %v", err)
	}
	if opts.MaxPayload != 8<<20 {
		t.Errorf("max_payload is %d bytes, want 8 MiB", opts.MaxPayload)
	}
	if !opts.JetStream || !opts.SyncAlways {
		t.Errorf("JetStream %t, sync always %t; want both", opts.JetStream, opts.SyncAlways)
	}
	if opts.HTTPPort != 0 || opts.HTTPSPort != 0 || opts.ProfPort != 0 {
		t.Errorf("monitoring on ports %d and %d, profiling on %d; want none, since web pages may read NATS' monitoring", opts.HTTPPort, opts.HTTPSPort, opts.ProfPort)
	}
	if opts.StoreDir != "/var/lib/tandem/nats" {
		t.Errorf("store is %s; backup.sh, restore.sh and the services expect /var/lib/tandem/nats", opts.StoreDir)
	}
}

func TestBackupAndRestore(t *testing.T) {
	const config, messages = "nats/nats-server.conf", 50
	store, file := t.TempDir(), filepath.Join(t.TempDir(), "store.tar.gz")

	s := start(t, config, store)
	stream := openStream(t, s)
	for i := range messages {
		if _, err := stream.js.Publish(t.Context(), "results.test", fmt.Appendf(nil, "result %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Shutdown()
	s.WaitForShutdown()

	if out, err := run(t.Context(), nil, "nats/backup.sh", file, store); err != nil {
		t.Fatalf("backup.sh: %v\n%s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup must be readable by its owner only: %v, %v", info.Mode(), err)
	}
	if out, err := run(t.Context(), nil, "nats/backup.sh", file, store); err == nil {
		t.Errorf("a second backup wrote over the first:\n%s", out)
	}

	restored := t.TempDir()
	if out, err := run(t.Context(), nil, "nats/restore.sh", file, restored); err != nil {
		t.Fatalf("restore.sh: %v\n%s", err, out)
	}
	info, err := openStream(t, start(t, config, restored)).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != messages {
		t.Errorf("the restored stream holds %d messages, want %d", info.State.Msgs, messages)
	}
}

func TestRestoreRefusesBeforeItMoves(t *testing.T) {
	store := t.TempDir()
	mark := filepath.Join(store, "jetstream", "mark")
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign.tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "-czf", foreign, "nats").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	whole := filepath.Join(t.TempDir(), "whole.tar.gz")
	if out, err := run(t.Context(), nil, "nats/backup.sh", whole, store); err != nil {
		t.Fatalf("backup.sh: %v\n%s", err, out)
	}
	cut := filepath.Join(t.TempDir(), "cut.tar.gz")
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{foreign, cut} {
		if out, err := run(t.Context(), nil, "nats/restore.sh", file, store); err == nil {
			t.Errorf("restore.sh took %s:\n%s", filepath.Base(file), out)
		}
		if _, err := os.Stat(mark); err != nil {
			t.Errorf("restore.sh touched the store before it refused %s: %v", filepath.Base(file), err)
		}
	}
}

func TestSecurityCanBeSwitchedOn(t *testing.T) {
	etc := t.TempDir()
	folder := access.Folder(filepath.Join(etc, "access"))
	if err := folder.Create([]string{"127.0.0.1", "localhost"}, []string{"qwen3-coder:30b"}); err != nil {
		t.Fatal(err)
	}
	strict := exec.CommandContext(t.Context(), "openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", folder.CA(), filepath.Join(string(folder), "server.pem"))
	if out, err := strict.CombinedOutput(); err != nil {
		t.Errorf("openssl takes the certificates for wrong: %v\n%s", err, out)
	}
	grader := filepath.Join(etc, "alice.nk")
	if err := folder.AddGrader("alice", grader); err != nil {
		t.Fatal(err)
	}

	// As in /etc/tandem, with the include switched on.
	rewrite(t, "nats/nats-server.conf", filepath.Join(etc, "nats-server.conf"), "# include", "include")
	s := start(t, filepath.Join(etc, "nats-server.conf"), t.TempDir())
	url := strings.Replace(s.ClientURL(), "nats://", "tls://", 1)

	ca := nats.RootCAs(folder.CA())
	for _, who := range []struct {
		key, inbox string
		jetStream  bool
	}{
		{folder.Operator(), "operator", true},
		{folder.Worker(protocol.RolePrefill, "qwen3-coder:30b"), access.WorkerInbox(protocol.RolePrefill, "qwen3-coder:30b"), true},
		{folder.Worker(protocol.RoleDecode, "qwen3-coder:30b"), access.WorkerInbox(protocol.RoleDecode, "qwen3-coder:30b"), true},
		{grader, "alice", false},
	} {
		key, err := nats.NkeyOptionFromSeed(who.key)
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(url, ca, key, nats.CustomInboxPrefix("_INBOX."+who.inbox), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Errorf("%s is refused: %v", who.key, err)
			continue
		}
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.AccountInfo(t.Context()); (err == nil) != who.jetStream {
			t.Errorf("%s asks for JetStream: %v; want an answer: %t", who.key, err, who.jetStream)
		}
		nc.Close()
	}
	if nc, err := nats.Connect(url, ca); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("connecting without a key gives %v, want %v", err, nats.ErrAuthorization)
		nc.Close()
	}
	var unknown *tls.CertificateVerificationError
	if nc, err := nats.Connect(url); !errors.As(err, &unknown) {
		t.Errorf("connecting without the CA gives %v, want an unknown authority", err)
		nc.Close()
	}
}

// results is a stream and the connection to it.
type results struct {
	jetstream.Stream
	js jetstream.JetStream
}

// openStream creates or opens the stream that the backup is tried on.
func openStream(t *testing.T, s *server.Server) results {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "RESULTS", Subjects: []string{"results.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return results{stream, js}
}

// rewrite copies a file with one string replaced, which must be there.
func rewrite(t *testing.T, from, to, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not hold %q", from, old)
	}
	if err := os.WriteFile(to, []byte(strings.ReplaceAll(string(text), old, replacement)), 0o600); err != nil {
		t.Fatal(err)
	}
}
