package natsembed_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, s *natsembed.Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.URL(), append(opts, nats.Timeout(time.Minute), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func jetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came within a minute")
		panic("unreachable")
	}
}

// A restarted server has the same address and every acknowledged message, and its clients come back by themselves.
func TestRestartKeepsMessages(t *testing.T) {
	dir := t.TempDir()
	s := natstest.Start(t, natsembed.Options{Dir: dir})
	back := make(chan struct{}, 1)
	nc := connect(t, s, nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
	js := jetStream(t, nc)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 5<<20) // more than the server's own default allows
	if _, err := js.Publish(t.Context(), "s.1", body); err != nil {
		t.Fatal(err)
	}

	url := s.URL()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("URL after restart = %s, want %s", s.URL(), url)
	}
	receive(t, back)
	msg, err := stream.GetLastMsgForSubject(t.Context(), "s.1")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(msg.Data, body) {
		t.Errorf("message after restart has %d bytes, want %d", len(msg.Data), len(body))
	}
}

// Another server on the folder of a stopped one has its messages.
func TestStopFreesStoreAndPort(t *testing.T) {
	dir := t.TempDir()
	first := natstest.Start(t, natsembed.Options{Dir: dir})
	js := jetStream(t, connect(t, first))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := natsembed.Start(t.Context(), natsembed.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another server") {
		t.Errorf("second server on the same store: error = %v, want one saying that it is in use", err)
	}
	first.Stop()
	first.Stop() // does nothing

	second := natstest.Start(t, natsembed.Options{Dir: dir})
	if _, err := jetStream(t, connect(t, second)).Stream(t.Context(), "S"); err != nil {
		t.Errorf("stream after the first server stopped: %v", err)
	}
}

func TestStoreIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	natstest.Start(t, natsembed.Options{Dir: dir})
	for _, name := range []string{dir, filepath.Join(dir, "jetstream")} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("mode of %s = %o, want 700", name, got)
		}
	}
}

func TestStartErrors(t *testing.T) {
	if _, err := natsembed.Start(t.Context(), natsembed.Options{}); err == nil || !strings.Contains(err.Error(), "set Dir") {
		t.Errorf("Start without a folder: error = %v, want one that names Dir", err)
	}

	include := filepath.Join(t.TempDir(), "include.conf")
	if err := os.WriteFile(include, []byte("accounts { A { users: [ { nkey: none } ] } }"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := natsembed.Start(t.Context(), natsembed.Options{Dir: t.TempDir(), Include: include}); err == nil || !strings.Contains(err.Error(), "configuration refused") {
		t.Errorf("Start with a wrong configuration: error = %v, want one that says so", err)
	}
	if _, err := natsembed.Start(t.Context(), natsembed.Options{NoJetStream: true, Include: include}); err == nil || !strings.Contains(err.Error(), "Include") {
		t.Errorf("Start with a configuration but no JetStream: error = %v, want one that names Include", err)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := natsembed.Start(t.Context(), natsembed.Options{Dir: file}); err == nil {
		t.Error("Start on a file succeeded")
	}

	taken := natstest.Start(t, natsembed.Options{})
	_, port, err := net.SplitHostPort(connect(t, taken).ConnectedAddr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	_, err = natsembed.Start(t.Context(), natsembed.Options{Dir: t.TempDir(), Port: n})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("Start on a taken port: error = %v, want one that says so", err)
	}

	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if s, err := natsembed.Start(ctx, natsembed.Options{Dir: t.TempDir()}); err == nil {
		s.Stop() // it was quicker than the first look at ctx
	} else if !errors.Is(err, stop) {
		t.Errorf("Start with an ended context: error = %v, want %v", err, stop)
	}
}

func TestUsers(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, natsembed.Options{Users: []natsembed.User{
		{Name: "grader", Password: "secret", DenyPublish: []string{"forbidden.>"}},
		{NKey: public},
	}})

	for _, wrong := range []nats.Option{nats.UserInfo("grader", "wrong"), nats.Name("nobody")} {
		if nc, err := nats.Connect(s.URL(), wrong); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("Connect with wrong credentials: error = %v, want %v", err, nats.ErrAuthorization)
			nc.Close()
		}
	}
	connect(t, s, nats.Nkey(public, pair.Sign))

	denied := make(chan error, 1)
	nc := connect(t, s, nats.UserInfo("grader", "secret"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err := nc.Publish("forbidden.x", nil); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, denied); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("publish to a denied subject: error = %v, want %v", err, nats.ErrPermissionViolation)
	}
}

func TestNoJetStream(t *testing.T) {
	s := natstest.Start(t, natsembed.Options{NoJetStream: true, MaxPayload: 1 << 20})
	nc := connect(t, s)
	if got := nc.MaxPayload(); got != 1<<20 {
		t.Errorf("max_payload = %d, want %d", got, 1<<20)
	}
	if _, err := jetStream(t, nc).AccountInfo(t.Context()); !errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		t.Errorf("AccountInfo error = %v, want %v", err, jetstream.ErrJetStreamNotEnabled)
	}
}

func TestLazySyncWarns(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		var log bytes.Buffer
		s, err := natsembed.Start(t.Context(), natsembed.Options{Dir: t.TempDir(), LazySync: lazy, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if got := strings.Contains(log.String(), "loses acknowledged messages"); got != lazy {
			t.Errorf("LazySync %t: warned = %t\n%s", lazy, got, log.String())
		}
	}
}
