package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"tandem/internal/access"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	model = "qwen3-coder:30b"
	other = "org/gpt.oss:20b"
	odd   = "a.b *>"
)

// secured is a server with least rights.
type secured struct {
	t      *testing.T
	folder access.Folder
	server *natsembed.Server
}

// start starts a server with the streams, workers' consumers and graders that the tests use.
func start(t *testing.T, graders ...string) *secured {
	t.Helper()
	s := &secured{t: t, folder: access.Folder(filepath.Join(t.TempDir(), "access"))}
	if err := s.folder.Create([]string{"127.0.0.1", "localhost"}, []string{model, other}); err != nil {
		t.Fatal(err)
	}
	for _, g := range graders {
		if err := s.folder.AddGrader(g, s.credential(g)); err != nil {
			t.Fatal(err)
		}
	}
	s.server = natstest.Start(t, natsembed.Options{Include: s.folder.Config()})
	return s
}

func (s *secured) credential(grader string) string {
	return filepath.Join(filepath.Dir(string(s.folder)), jobs.EncodeToken(grader)+".nk")
}

// connect connects with a key file; the inbox is what follows _INBOX. in its prefix.
func (s *secured) connect(key, inbox string, opts ...nats.Option) *nats.Conn {
	s.t.Helper()
	option, err := nats.NkeyOptionFromSeed(key)
	if err != nil {
		s.t.Fatal(err)
	}
	opts = append([]nats.Option{option, nats.RootCAs(s.folder.CA()), nats.CustomInboxPrefix("_INBOX." + inbox), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, opts...)
	nc, err := nats.Connect(s.server.URL(), opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

func (s *secured) operator() *nats.Conn { return s.connect(s.folder.Operator(), "operator") }

func (s *secured) grader(name string, opts ...nats.Option) *nats.Conn {
	return s.connect(s.credential(name), jobs.EncodeToken(name), opts...)
}

func (s *secured) worker(role jobs.Stage, model string) *nats.Conn {
	return s.connect(s.folder.Worker(role, model), access.WorkerInbox(role, model))
}

// streams has the operator make what workers and graders use.
func (s *secured) streams() {
	s.t.Helper()
	c, err := queue.Connect(s.t.Context(), queue.Config{URL: s.server.URL(), NKey: s.folder.Operator(), TLSCA: s.folder.CA(), Inbox: "operator"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := c.EnsureStreams(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for _, m := range []string{model, other} {
		for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
			if err := c.EnsureConsumers(s.t.Context(), role, m); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	if sync := c.Sync(s.t.Context()); sync == queue.SyncUnknown {
		s.t.Error("the operator is not told whether the store is synced")
	}
	nc := s.operator()
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	stream, err := js.Stream(s.t.Context(), "CONTROL")
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := stream.CreateOrUpdateConsumer(s.t.Context(), jetstream.ConsumerConfig{Durable: "kept", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		s.t.Fatal(err)
	}
}

// denied reports whether the server refuses that a new connection publishes to a subject, or subscribes to it.
func denied(t *testing.T, nc *nats.Conn, subscribe bool, subject string) bool {
	t.Helper()
	defer nc.Close()
	var err error
	if subscribe {
		_, err = nc.SubscribeSync(subject)
	} else {
		err = nc.Publish(subject, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // the server has answered by then
		t.Fatal(err)
	}
	return errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

func TestRights(t *testing.T) {
	s := start(t, "alice", "bob", odd)
	s.streams()
	m, o, om := jobs.EncodeToken(model), jobs.EncodeToken(odd), jobs.EncodeToken(other)
	key, okey := protocol.KeyToken(model), protocol.KeyToken(other)
	prefill := func() *nats.Conn { return s.worker(protocol.RolePrefill, model) }
	decode := func() *nats.Conn { return s.worker(protocol.RoleDecode, model) }
	graders := []string{
		"$JS.API.INFO", "$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.DELETE.INTAKE", "$JS.API.STREAM.PURGE.INTAKE", "$JS.API.CONSUMER.CREATE.INTAKE",
		"$JS.API.CONSUMER.MSG.NEXT.INTAKE." + protocol.ConsumerName(protocol.RolePrefill, model, jobs.Batch), "$JS.API.DIRECT.GET.RESULTS", "$JS.API.DIRECT.GET.RESULTS.results.alice.b.j",
		"jobs.decode." + m + ".batch.u.j", "jobs.fallback." + m + ".batch.u.j", "dlq.prefill." + m + ".u.j", "ctl.cancel.u.j", "ctl.worker.prefill." + key + ".w",
		"results.alice.b.j", "tokens.alice.b.j", "$KV.workers.prefill." + key + ".w", "$KV.handbacks.u.j.prefill", "operator.cancel", "$SRV.PING", "$SYS.REQ.SERVER.PING",
	}
	for _, tt := range []struct {
		who           string
		connect       func() *nats.Conn
		may, not      []string // publish
		hear, notHear []string // subscribe; may not
	}{
		{
			"grader", func() *nats.Conn { return s.grader("alice") },
			[]string{"jobs.prefill." + m + ".batch.alice.j", "result.alice.b.j", "result.alice.*.j", "control.cancel.alice", "control.find.alice", "kept.alice.job.j", "kept.alice.batch.b", "model.x"},
			append([]string{
				"jobs.prefill." + m + ".batch.bob.j", "jobs.prefill." + m + ".batch.*.j", "jobs.prefill." + m + ".batch.>", "jobs.prefill." + m + ".batch.alice", "jobs.prefill.>",
				"result.bob.b.j", "result.*.b.j", "result.*.*.j", "result.>", "result.alice.>", "control.cancel.bob", "control.cancel.*", "control.cancel.>", "control.>", "kept.bob.job.j", "kept.*.job.j", "kept.>",
				"control.cancel." + o, "_INBOX.bob.x",
			}, graders...),
			[]string{"results.alice.>", "results.alice.b.j", "results.alice.*.*", "tokens.alice.b.*", "_INBOX.alice.x.*"},
			[]string{"results.>", "results.*.b.j", "results.bob.>", "tokens.>", "tokens.*.*.*", "_INBOX.>", "_INBOX.bob.>", "_INBOX.*.x", "jobs.>", ">", "*", "control.*.alice", "ctl.cancel.*", "$KV.>", "$SRV.>", "dlq.>"},
		},
		{
			"grader of an odd name", func() *nats.Conn { return s.grader(odd) },
			[]string{"jobs.prefill." + m + ".batch." + o + ".j", "result." + o + ".*.j", "control.cancel." + o},
			[]string{"jobs.prefill." + m + ".batch.alice.j", "jobs.prefill." + m + ".batch.a.j", "control.cancel.a", "result.*.b.j", "result.a.b.j"},
			[]string{"results." + o + ".>", "_INBOX." + o + ".>"}, []string{"results.a.>", "results.>", "_INBOX.a.>"},
		},
		{
			"prefill worker", prefill,
			[]string{
				"jobs.decode." + m + ".batch.u.j", "jobs.fallback." + m + ".batch.u.j", "jobs.decode.ended.u.j", "jobs.fallback.ended.u.j", "results.u.b.j", "tokens.u.b.j", "dlq.prefill." + m + ".u.j",
				"$KV.workers.prefill." + key + ".w", "$KV.handbacks.u.j.prefill", "ctl.cancel.u.j", "ctl.worker.prefill." + key + ".w", "$JS.API.STREAM.MSG.GET.DLQ", "$JS.API.STREAM.PURGE.RESULTS",
				"$JS.API.CONSUMER.MSG.NEXT.INTAKE." + protocol.ConsumerName(protocol.RolePrefill, model, protocol.Lane(3)), "$JS.API.CONSUMER.MSG.NEXT.CONTROL.kept", "$JS.ACK.CONTROL.kept.1.1.1.1.0",
			},
			[]string{
				"jobs.prefill." + m + ".batch.u.j", "jobs.decode." + om + ".batch.u.j", "jobs.fallback." + om + ".batch.u.j", "dlq.prefill." + om + ".u.j",
				"$KV.workers.prefill." + okey + ".w", "$KV.workers.decode." + key + ".w", "$KV.handbacks.u.j.decode", "ctl.worker.decode." + key + ".w",
				"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.UPDATE.INTAKE", "$JS.API.STREAM.DELETE.INTAKE", "$JS.API.CONSUMER.CREATE.INTAKE.x.y", "$JS.API.CONSUMER.DURABLE.CREATE.INTAKE.x", "$JS.API.CONSUMER.DELETE.INTAKE.x",
				"$JS.API.CONSUMER.MSG.NEXT.RELAY." + protocol.ConsumerName(protocol.RoleDecode, model, jobs.Batch), "$JS.API.CONSUMER.MSG.NEXT.INTAKE." + protocol.ConsumerName(protocol.RolePrefill, other, jobs.Batch),
				"$JS.API.STREAM.MSG.DELETE.INTAKE", "$JS.API.STREAM.PURGE.KV_workers", "$JS.API.STREAM.MSG.GET.CONTROL", "kept.u.job.j", "_INBOX.alice.x", "_INBOX.x", "_R_.x", "control.cancel.u", "operator.cancel", "$SYS.REQ.SERVER.PING",
			},
			[]string{"results.*.*.*", "ctl.cancel.u.j", "ctl.worker.*." + key + ".*", "$KV.workers.*." + key + ".*", "control.*.*", "operator.*", "$SRV.PING", "_INBOX.tandem-prefill." + m + ".>"},
			[]string{"jobs.>", "dlq.>", "tokens.>", "tokens.*.*.*", "_INBOX.>", "_INBOX.tandem-prefill.>", "_INBOX.tandem-prefill." + om + ".>", "_INBOX.tandem-decode." + m + ".>", "_INBOX.operator.>", "$KV.workers.*." + okey + ".*", "$KV.>", "$JS.>", ">", "kept.>"},
		},
		{
			"decode worker", decode,
			[]string{
				"jobs.fallback." + m + ".batch.u.j", "jobs.decode.ended.u.j", "results.u.b.j", "dlq.decode." + m + ".u.j", "$KV.workers.decode." + key + ".w", "$KV.handbacks.u.j.decode", "$KV.handbacks.u.j.prefill",
				"$JS.API.CONSUMER.MSG.NEXT.RELAY." + protocol.ConsumerName(protocol.RoleDecode, model, jobs.Batch), "$JS.API.CONSUMER.MSG.NEXT.INTAKE." + protocol.ConsumerName(protocol.RolePrefill, model, jobs.Batch),
			},
			[]string{
				"jobs.decode." + m + ".batch.u.j", "jobs.prefill." + m + ".batch.u.j", "$KV.workers.prefill." + key + ".w", "ctl.worker.prefill." + key + ".w",
				"$JS.API.CONSUMER.MSG.NEXT.RELAY." + protocol.ConsumerName(protocol.RoleDecode, other, jobs.Batch), "$JS.API.CONSUMER.CREATE.RELAY.x.y",
			},
			[]string{"_INBOX.tandem-decode." + m + ".>"}, []string{"_INBOX.tandem-prefill." + m + ".>", "jobs.>"},
		},
		{
			"gateway", func() *nats.Conn { return s.connect(s.folder.Gateway(), access.GatewayInbox) },
			[]string{"jobs.prefill." + m + ".batch.u.j", "control.cancel.u", "kept.u.job.j", "$KV.gateway_usage.x", "$O.gateway_files.M.x", "$JS.API.STREAM.CREATE.KV_gateway_batches", "$JS.API.CONSUMER.CREATE.OBJ_gateway_files.x", "$JS.API.DIRECT.GET.KV_handover_trials"},
			[]string{
				"$KV.handover_trials.m.p.d",
				"jobs.decode." + m + ".batch.u.j", "results.u.b.j", "tokens.u.b.j", "dlq.prefill." + m + ".u.j", "operator.cancel", "ctl.worker.decode." + key + ".w", "$KV.workers.prefill." + key + ".w", "$KV.handbacks.u.j.decode",
				"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.PURGE.INTAKE", "$JS.API.STREAM.DELETE.RESULTS", "$JS.API.STREAM.MSG.GET.CONTROL", "$JS.API.CONSUMER.CREATE.INTAKE.x", "$JS.API.CONSUMER.MSG.NEXT.INTAKE.x", "$SRV.PING", "_INBOX.u.x", "$SYS.REQ.SERVER.PING",
			},
			[]string{"results.*.*.*", "tokens.*.*.*", "events.*.*.*", "_INBOX.gateway.>"}, []string{">", "jobs.>", "dlq.>", "_INBOX.>", "ctl.>", "$KV.>", "control.*.*"},
		},
		{"operator", s.operator, []string{"$JS.API.STREAM.PURGE.INTAKE", "operator.cancel", "$SRV.PING"}, nil, []string{">"}, nil},
		{"SYS", func() *nats.Conn { return s.connect(filepath.Join(string(s.folder), "sys.nk"), "sys") }, []string{"$SYS.REQ.SERVER.PING"}, nil, []string{"$SYS.>"}, nil},
	} {
		t.Run(tt.who, func(t *testing.T) {
			for _, c := range []struct {
				subscribe, denied bool
				subjects          []string
			}{{false, false, tt.may}, {false, true, tt.not}, {true, false, tt.hear}, {true, true, tt.notHear}} {
				for _, subject := range c.subjects {
					if got := denied(t, tt.connect(), c.subscribe, subject); got != c.denied {
						t.Errorf("subscribe %t, %s: denied %t, want %t", c.subscribe, subject, got, c.denied)
					}
				}
			}
		})
	}
}

// The queue's connections have the inboxes that the rights are for.
func TestQueueConnects(t *testing.T) {
	s := start(t)
	s.streams()
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		c, err := queue.Connect(t.Context(), queue.Config{
			URL: s.server.URL(), Name: "tandem-" + string(role) + " w", NKey: s.folder.Worker(role, other), TLSCA: s.folder.CA(), Inbox: access.WorkerInbox(role, other),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.EnsureStreams(t.Context()); err != nil {
			t.Errorf("a %s worker looks at the streams: %v", role, err)
		}
		if _, err := c.Workers(t.Context()); err != nil {
			t.Errorf("a %s worker looks at the others: %v", role, err)
		}
		c.Close()
	}
}

// ask requests an answer.
func ask(t *testing.T, nc *nats.Conn, subject, body string) (*nats.Msg, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return nc.RequestWithContext(ctx, subject, []byte(body))
}

// What a grader and a worker do for one another reaches the other account, and the answers come back.
func TestGraderIsServed(t *testing.T) {
	s := start(t, "alice", "bob")
	s.streams()
	alice, prefill := s.grader("alice"), s.worker(protocol.RolePrefill, model)
	heard, err := alice.SubscribeSync("results.alice.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := alice.Flush(); err != nil {
		t.Fatal(err)
	}
	id := jobs.NewID()
	var ack struct{ Stream string }
	msg, err := ask(t, alice, protocol.JobSubject(jobs.StagePrefill, model, jobs.Batch, "alice", id), "{}")
	if err != nil || json.Unmarshal(msg.Data, &ack) != nil || ack.Stream != queue.StreamIntake {
		t.Fatalf("a submit is answered %v, %v", msg, err)
	}

	js, err := jetstream.New(prefill)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), queue.StreamIntake, protocol.ConsumerName(protocol.RolePrefill, model, jobs.Batch))
	if err != nil {
		t.Fatal(err)
	}
	got, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
	if err != nil {
		t.Fatalf("a worker does not get the job: %v", err)
	}
	if _, err := js.Publish(t.Context(), protocol.ResultSubject("alice", "b", id), []byte("done")); err != nil {
		t.Fatal(err)
	}
	if err := got.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if msg, err := heard.NextMsg(10 * time.Second); err != nil || string(msg.Data) != "done" {
		t.Errorf("the grader hears %v, %v", msg, err)
	}
	for subject, want := range map[string]string{"result.alice.b." + id: "", "result.alice.*." + id: "", "result.alice.b." + jobs.NewID(): "404"} {
		msg, err := ask(t, alice, subject, "")
		if err != nil || msg.Header.Get("Status") != want || want == "" && string(msg.Data) != "done" {
			t.Errorf("%s is answered %v, %v; want status %q", subject, msg, err, want)
		}
	}
	for m, found := range map[string]bool{model: true, "absent:1": false} {
		msg, err := ask(t, alice, "model."+protocol.ConsumerName(protocol.RolePrefill, m, jobs.Batch), "")
		if err != nil || strings.Contains(string(msg.Data), `"error"`) == found {
			t.Errorf("whether %s is known is answered %s, %v", m, msg.Data, err)
		}
	}
	if msg, err := ask(t, alice, "kept.alice.job."+id, "{}"); err != nil || !strings.Contains(string(msg.Data), "CONTROL") {
		t.Errorf("a kept cancel is answered %v, %v", msg, err)
	}
	if _, err := ask(t, alice, "control.cancel.alice", ""); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("with no worker a cancel gives %v, want %v", err, nats.ErrNoResponders)
	}
	_, err = prefill.QueueSubscribe("control.*.*", "q", func(m *nats.Msg) { _ = m.Respond([]byte(m.Subject)) })
	if err == nil {
		err = prefill.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if msg, err := ask(t, alice, "control.cancel.alice", ""); err != nil || string(msg.Data) != "control.cancel.alice" {
		t.Errorf("a cancel is answered %v, %v", msg, err)
	}
}

// A request names the subject of its answer, which no permission covers. What a grader names there stays in the graders' account.
func TestAnswersGoNoFurther(t *testing.T) {
	s := start(t, "alice", "bob")
	s.streams()
	m := jobs.EncodeToken(model)
	js, err := jetstream.New(s.operator())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "results.alice.b.j", []byte("chosen by alice")); err != nil {
		t.Fatal(err)
	}
	prefill := s.worker(protocol.RolePrefill, model)
	var heard []*nats.Subscription
	for _, subject := range []string{"control.*.*", "ctl.cancel.*", "results.*.*.*"} {
		sub, err := prefill.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, sub)
	}
	if err := prefill.Flush(); err != nil {
		t.Fatal(err)
	}
	alice := s.grader("alice")
	for _, reply := range []string{
		"jobs.prefill." + m + ".batch.bob.j", "jobs.decode." + m + ".batch.u.j", "kept.bob.job.j", "control.cancel.bob", "ctl.cancel.u.j", "results.bob.b.j",
		"$JS.API.STREAM.DELETE.DLQ", "result.bob.b.j", "_R_.x.y",
	} {
		if err := alice.PublishRequest("result.alice.b.j", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(t, alice, "result.alice.b.j", ""); err != nil { // by then the others are answered, too
		t.Fatal(err)
	}
	if err := prefill.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, sub := range heard {
		if n, _, err := sub.Pending(); err != nil || n > 0 {
			t.Errorf("a worker hears %d answers to a grader at %s, %v", n, sub.Subject, err)
		}
	}
	for _, name := range []string{queue.StreamIntake, queue.StreamRelay, queue.StreamDLQ, "CONTROL"} {
		if stream, err := js.Stream(t.Context(), name); err != nil || stream.CachedInfo().State.LastSeq != 0 {
			t.Errorf("stream %s has got an answer to a grader, or is gone: %v", name, err)
		}
	}
}

// Others stay connected, and are served, while graders come and go.
func TestAddListRevoke(t *testing.T) {
	s := start(t)
	s.streams()
	s.operator()
	prefill := s.worker(protocol.RolePrefill, model)
	lost := make(chan struct{}, 1)
	prefill.SetDisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} })
	names := []string{"alice", "bob", odd}
	var adding sync.WaitGroup
	for _, name := range names {
		adding.Go(func() {
			if err := s.folder.AddGrader(name, s.credential(name)); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	if err := s.folder.Reload(t.Context(), s.server.URL()); err != nil {
		t.Fatal(err)
	}
	list, err := s.folder.Graders()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(g access.Grader) bool { return g.Name == name }) {
			t.Errorf("%q is not in the list %v", name, list)
		}
		if user := access.CredentialUser(s.credential(name)); user != name {
			t.Errorf("the credential file names %q, want %q", user, name)
		}
	}

	bob := s.grader("bob", nats.NoReconnect())
	revoked := make(chan struct{})
	alice := s.grader("alice", nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(revoked) }))
	if err := s.folder.RevokeGrader("alice"); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.Reload(t.Context(), s.server.URL()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-revoked:
	case <-time.After(time.Minute):
		t.Errorf("a revoked grader is still connected: %v", alice.IsConnected())
	}
	key, err := nats.NkeyOptionFromSeed(s.credential("alice"))
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := nats.Connect(s.server.URL(), key, nats.RootCAs(s.folder.CA())); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a revoked grader who connects gets %v, want %v", err, nats.ErrAuthorization)
		nc.Close()
	}
	if msg, err := ask(t, bob, protocol.JobSubject(jobs.StagePrefill, model, jobs.Batch, "bob", jobs.NewID()), "{}"); err != nil || !strings.Contains(string(msg.Data), queue.StreamIntake) {
		t.Errorf("after a reload a submit is answered %v, %v", msg, err)
	}
	select {
	case <-lost:
		t.Error("a reload ended a worker's connection")
	default:
	}
	if list, err := s.folder.Graders(); err != nil || len(list) != 2 {
		t.Errorf("after revoking one of three graders the list is %v, %v", list, err)
	}
	if err := s.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.grader(odd)
}

// A model and an address that come later need no new keys for those who have theirs, nor a restart of the server; and a key that was lost is made anew.
func TestAddModelAndAddress(t *testing.T) {
	const later = "later:1b"
	s := start(t)
	s.streams()
	if err := s.folder.AddGrader("alice", s.credential("alice")); err != nil {
		t.Fatal(err)
	}
	s.reload()
	prefill, alice := s.worker(protocol.RolePrefill, model), s.grader("alice")
	lost := make(chan struct{}, 2)
	for _, nc := range []*nats.Conn{prefill, alice} {
		nc.SetDisconnectErrHandler(func(*nats.Conn, error) { lost <- struct{}{} })
	}
	before := s.certificate()
	if err := s.folder.Create([]string{"localhost"}, []string{model}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.certificate().Raw, before.Raw) {
		t.Error("the certificate was made anew, and is good")
	}
	job := func() string { return protocol.JobSubject(jobs.StagePrefill, later, jobs.Batch, "alice", jobs.NewID()) }
	if msg, err := ask(t, alice, job(), "{}"); err == nil {
		t.Errorf("a job for a model that is not served is answered %s", msg.Data)
	}

	if err := s.folder.Create([]string{"tandem.example", "::1"}, []string{later}); err != nil {
		t.Fatal(err)
	}
	s.reload()
	s.worker(protocol.RoleDecode, later)
	s.worker(protocol.RoleDecode, other)
	if msg, err := ask(t, alice, job(), "{}"); err != nil || !strings.Contains(string(msg.Data), queue.StreamIntake) {
		t.Errorf("a job for the new model is answered %v, %v", msg, err)
	}
	after := s.certificate()
	if want := []string{"localhost", "tandem.example"}; !slices.Equal(after.DNSNames, want) || len(after.IPAddresses) != 2 {
		t.Errorf("the certificate is for %q and %v, want %q and the two addresses", after.DNSNames, after.IPAddresses, want)
	}
	s.connect(s.folder.Operator(), "operator", nats.Secure(&tls.Config{ServerName: "tandem.example"})) // by the new certificate
	select {
	case <-lost:
		t.Error("a change ended the connection of somebody whom it was not about")
	default:
	}

	stolen := s.folder.Worker(protocol.RolePrefill, model)
	aside := filepath.Join(t.TempDir(), "stolen.nk")
	if err := os.Rename(stolen, aside); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.Create([]string{"localhost"}, []string{model}); err != nil {
		t.Fatal(err)
	}
	s.reload()
	select {
	case <-lost:
	case <-time.After(time.Minute):
		t.Error("who has a key that was replaced is still connected")
	}
	s.worker(protocol.RolePrefill, model)
	key, err := nats.NkeyOptionFromSeed(aside)
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := nats.Connect(s.server.URL(), key, nats.RootCAs(s.folder.CA())); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("who connects with a key that was replaced gets %v, want %v", err, nats.ErrAuthorization)
		nc.Close()
	}

	if err := os.Remove(filepath.Join(string(s.folder), "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.Create([]string{"localhost"}, []string{"fourth:1b"}); err != nil {
		t.Errorf("without the authority's key, which nothing needs: %v", err)
	}
	if err := s.folder.Create([]string{"elsewhere"}, []string{model}); err == nil || !strings.Contains(err.Error(), "put it there as long as this takes") {
		t.Errorf("without the authority's key another address gives %v", err)
	}
}

// reload has the server take the change of the folder.
func (s *secured) reload() {
	s.t.Helper()
	if err := s.folder.Reload(s.t.Context(), s.server.URL()); err != nil {
		s.t.Fatal(err)
	}
}

// certificate is that of the server, as it lies in the folder.
func (s *secured) certificate() *x509.Certificate {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(string(s.folder), "server.pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	made := access.Folder(filepath.Join(dir, "made"))
	if err := made.Create([]string{"127.0.0.1"}, []string{model}); err != nil {
		t.Fatal(err)
	}
	fresh, taken := access.Folder(filepath.Join(dir, "fresh")), filepath.Join(dir, "taken.nk")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := made.AddGrader("alice", filepath.Join(dir, "alice.nk")); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"holds no graders.conf; name the":    access.Folder(dir).Create([]string{"127.0.0.1"}, []string{model}),
		"no address; name each":              fresh.Create(nil, []string{model}),
		`address is "tls://h:1"; want`:       fresh.Create([]string{"tls://h:1"}, []string{model}),
		"no model; name each":                fresh.Create([]string{"h"}, nil),
		"lacks a part":                       fresh.Create([]string{"h"}, []string{":"}),
		"user is empty":                      made.AddGrader("", filepath.Join(dir, "x.nk")),
		"characters that cannot be printed":  made.AddGrader("a\nb", filepath.Join(dir, "x.nk")),
		`grader "alice" exists; for a new`:   made.AddGrader("alice", filepath.Join(dir, "x.nk")),
		"taken.nk exists, and keys are":      made.AddGrader("bob", taken),
		`grader "bob" is unknown; submitter`: made.RevokeGrader("bob"),
		"graders.conf; name the folder that": fresh.RevokeGrader("bob"),
		"NATS at tls://u:xxxxx@127.0.0.1:1":  made.Reload(t.Context(), "tls://u:secret@127.0.0.1:1"),
		"NATS at nats://xxxxx@127.0.0.1:1":   made.Reload(t.Context(), "nats://u:%zzsecret@127.0.0.1:1"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	if _, err := os.Stat(string(fresh)); err == nil {
		t.Error("what failed left a folder")
	}
	if _, err := os.Stat(filepath.Join(dir, "x.nk")); err == nil {
		t.Error("what failed left a key")
	}
	if list, err := made.Graders(); err != nil || len(list) != 1 {
		t.Errorf("after refusals the graders are %v, %v; want alice only", list, err)
	}
}

// Seeds are their owner's, and a change of the list leaves it readable by whom it was.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := access.Folder(filepath.Join(dir, "made"))
	if err := f.Create([]string{"127.0.0.1", "::1", "tandem.example"}, []string{model, model}); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(string(f), "graders.conf")
	if err := os.Chmod(list, 0o640); err != nil {
		t.Fatal(err)
	}
	credential := filepath.Join(dir, "alice.nk")
	if err := f.AddGrader("alice", credential); err != nil {
		t.Fatal(err)
	}
	seeds := []string{f.Operator(), filepath.Join(string(f), "sys.nk"), f.Worker(protocol.RolePrefill, model), f.Worker(protocol.RoleDecode, model), credential}
	modes := map[string]os.FileMode{f.CA(): 0o644, list: 0o640, filepath.Join(string(f), "ca-key.pem"): 0o600, filepath.Join(string(f), "server-key.pem"): 0o600}
	for _, seed := range seeds {
		modes[seed] = 0o600
		text, err := os.ReadFile(seed)
		if err != nil {
			t.Fatal(err)
		}
		if pair, err := nkeys.ParseDecoratedNKey(text); err != nil || strings.HasSuffix(string(text), "\n") {
			t.Errorf("%s holds no seed alone: %v, %v", seed, pair, err)
		}
	}
	for file, want := range modes {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", file, info.Mode(), err, want)
		}
	}
	for file, want := range map[string]x509.Certificate{
		"ca.pem":     {KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, IsCA: true, MaxPathLenZero: true},
		"server.pem": {KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"tandem.example"}},
	} {
		text, err := os.ReadFile(filepath.Join(string(f), file))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if c.KeyUsage != want.KeyUsage || c.IsCA != want.IsCA || c.MaxPathLenZero != want.MaxPathLenZero || !c.BasicConstraintsValid ||
			!slices.Equal(c.ExtKeyUsage, want.ExtKeyUsage) || !slices.Equal(c.DNSNames, want.DNSNames) || !c.IsCA && len(c.IPAddresses) != 2 {
			t.Errorf("%s is for uses %b and %v, an authority: %t, for %q and %v", file, c.KeyUsage, c.ExtKeyUsage, c.IsCA, c.DNSNames, c.IPAddresses)
		}
		if len(c.SubjectKeyId) == 0 || !c.IsCA && len(c.AuthorityKeyId) == 0 {
			t.Errorf("%s does not name its key (%x) or the one that signed it (%x)", file, c.SubjectKeyId, c.AuthorityKeyId)
		}
	}
}
