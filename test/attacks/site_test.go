package attacks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/access"
	"tandem/internal/engine"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

const (
	model   = "qwen3-coder:30b" // of the victim's jobs; it has workers
	other   = "org/gpt.oss:20b"
	alice   = "alice"   // the victim
	mallory = "mallory" // the attacker, if it is a grader
	batch   = "homework"

	enough = 30 * time.Second // for what must happen: far longer than it takes

	// stay begins the prompt of a job that runs until its run is released.
	stay = "stay, "
)

// site is a server with workers of one model and a user whose jobs are attacked. What the attacks do is seen by the operator and that user.
type site struct {
	t        *testing.T
	folder   access.Folder // empty where nobody has a key
	server   *natsembed.Server
	queue    *queue.Conn // the operator's
	root     *nats.Conn  // likewise
	js       jetstream.JetStream
	alice    *nats.Conn
	peer     *nats.Conn  // of a decode worker of the model
	results  *queue.Conn // likewise
	prefill  *engines
	decode   *engines
	now      string    // the attack that is made
	stranger bool      // somebody with a key that nobody gave has tried to connect
	running  *jobs.Job // alice's, at the prefill worker, which has no slot for others
}

// newSite starts a site: with keys, as submitter admin secure makes them, or without.
func newSite(t *testing.T, keys bool) *site {
	t.Helper()
	s := &site{t: t}
	if keys {
		dir := t.TempDir()
		s.folder = access.Folder(filepath.Join(dir, "access"))
		if err := s.folder.Create([]string{"127.0.0.1"}, []string{model, other}); err != nil {
			t.Fatal(err)
		}
		for _, g := range []string{alice, mallory} {
			if err := s.folder.AddGrader(g, s.credential(g)); err != nil {
				t.Fatal(err)
			}
		}
		s.server = natstest.Start(t, natsembed.Options{Include: s.folder.Config(), Log: slog.New(slog.DiscardHandler)})
	} else {
		s.server = natstest.Start(t, natsembed.Options{})
	}
	s.queue = s.connectQueue(s.key(s.folder.Operator()), "operator", "")
	if _, err := s.queue.Init(t.Context(), []string{model, other}, 1, false); err != nil {
		t.Fatal(err)
	}
	if err := s.queue.KeepTrial(t.Context(), queue.Trial{Model: model, Prefill: "prefill", Decode: "decode"}); err != nil {
		t.Fatal(err)
	}
	s.root = s.mustConnect(s.key(s.folder.Operator()), "operator")
	var err error
	if s.js, err = jetstream.New(s.root); err != nil {
		t.Fatal(err)
	}
	s.alice = s.mustConnect(s.key(s.credential(alice)), alice)
	key, inbox := s.key(s.folder.Worker(protocol.RoleDecode, model)), access.WorkerInbox(protocol.RoleDecode, model)
	s.peer, s.results = s.mustConnect(key, inbox), s.connectQueue(key, inbox, model)
	s.prefill, s.decode = newEngines(), newEngines()
	s.work(protocol.RolePrefill, s.prefill, 1)
	s.eventually("the prefill worker is seen", func() bool { return len(s.workers()) == 1 })
	s.work(protocol.RoleDecode, s.decode, 16)
	s.eventually("the decode worker is seen", func() bool { return len(s.workers()) == 2 })
	return s
}

func (s *site) credential(grader string) string {
	return filepath.Join(filepath.Dir(string(s.folder)), grader+".nk")
}

// key is the file, or none where nobody has a key.
func (s *site) key(file string) string {
	if s.folder == "" {
		return ""
	}
	return file
}

// connect connects with a key file if it is given; the inbox is what follows _INBOX. in its prefix.
func (s *site) connect(key, inbox string, opts ...nats.Option) (*nats.Conn, error) {
	opts = append(opts, nats.CustomInboxPrefix("_INBOX."+inbox), nats.NoReconnect(), nats.Timeout(enough), nats.SyncQueueLen(1024),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // refusals are what is looked for
	if s.folder != "" {
		opts = append(opts, nats.RootCAs(s.folder.CA()))
	}
	if key != "" {
		option, err := nats.NkeyOptionFromSeed(key)
		if err != nil {
			return nil, err
		}
		opts = append(opts, option)
	}
	return nats.Connect(s.server.URL(), opts...)
}

func (s *site) mustConnect(key, inbox string) *nats.Conn {
	s.t.Helper()
	nc, err := s.connect(key, inbox)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// connectQueue connects as programs do; the model is that of a worker.
func (s *site) connectQueue(key, inbox, model string) *queue.Conn {
	s.t.Helper()
	timing := queue.DefaultTiming()
	timing.Beat, timing.InProgressEvery = 200*time.Millisecond, 400*time.Millisecond
	cfg := queue.Config{URL: s.server.URL(), Name: "test", NKey: key, Inbox: inbox, Model: model, Timing: timing, Log: slog.New(slog.DiscardHandler)}
	if s.folder != "" {
		cfg.TLSCA = s.folder.CA()
	}
	c, err := queue.Connect(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// work runs a worker of the model with its own key until the test ends.
func (s *site) work(role jobs.Stage, e *engines, slots int) {
	s.t.Helper()
	own := engine.NewSlots(slots)
	c := s.connectQueue(s.key(s.folder.Worker(role, model)), access.WorkerInbox(role, model), model)
	w, err := queue.NewWorker(c, queue.WorkerConfig{
		Role: role, Model: model, ID: jobs.NewID(), Machine: "machine", Run: e.run, Slots: own, Log: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Describe: func() queue.Presence { return queue.Presence{State: queue.StateReady, Slots: slots, Busy: own.Busy()} },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.t.Cleanup(func() {
		c.Close() // what runs, and waits, is in streams that were deleted meanwhile
		w.Abort()
		stop()
		select {
		case <-ended:
		case <-time.After(enough):
			s.t.Error("a worker does not end")
		}
	})
}

func (s *site) workers() []queue.Presence {
	list, err := s.queue.Workers(s.t.Context())
	if err != nil {
		return nil
	}
	return list
}

// eventually waits until ok says so.
func (s *site) eventually(what string, ok func() bool) {
	s.t.Helper()
	if !poll(enough, ok) {
		s.t.Fatalf("%s: did not happen: %s", s.now, what)
	}
}

// poll waits until ok says so, for as long as is given, and returns what it said last.
func poll(limit time.Duration, ok func() bool) bool {
	for end, pause := time.Now().Add(limit), time.Millisecond; !ok(); pause = min(2*pause, 20*time.Millisecond) {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		<-time.After(min(pause, left))
	}
	return true
}

// engines stand in for the engines of a worker, and remember what ran on them.
type engines struct {
	mu   sync.Mutex
	runs map[string]*run // by job
}

type run struct {
	task    *protocol.Task
	release func()
	let     chan struct{} // closed by release
	ended   chan struct{}
}

func newEngines() *engines { return &engines{runs: map[string]*run{}} }

func (e *engines) run(ctx context.Context, t *protocol.Task) (protocol.Outcome, error) {
	r := &run{task: t, let: make(chan struct{}), ended: make(chan struct{})}
	r.release = sync.OnceFunc(func() { close(r.let) })
	e.mu.Lock()
	e.runs[t.Job.ID] = r
	e.mu.Unlock()
	defer close(r.ended)
	t.Expect(time.Hour)
	if strings.HasPrefix(t.Job.Prompt, stay) {
		select {
		case <-r.let:
		case <-ctx.Done():
			return protocol.Outcome{}, context.Cause(ctx)
		}
	}
	res := jobs.NewResult(t.Job, jobs.Succeeded)
	res.Text, res.Method = "done", jobs.MethodLocal
	return protocol.Outcome{Result: res}, nil
}

// of returns the run of a job, nil if it did not run.
func (e *engines) of(id string) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
}

// active reports whether a job runs.
func (e *engines) active(id string) bool {
	r := e.of(id)
	if r == nil {
		return false
	}
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// settle has a job of alice's run, so that all others in the intake wait.
func (s *site) settle() {
	s.t.Helper()
	if s.running != nil {
		if s.prefill.active(s.running.ID) && s.has(queue.StreamIntake, protocol.SubjectOf(s.running, jobs.StagePrefill)) {
			return
		}
		s.free()
	}
	s.run("")
}

// run has another job of alice's run.
func (s *site) run(secret string) {
	s.t.Helper()
	s.running = newJob(alice, model, func(j *jobs.Job) { j.Class, j.Prompt = jobs.Interactive, stay+secret })
	s.submit(s.alice, s.running)
	s.eventually("a job of alice's runs", func() bool { return s.prefill.active(s.running.ID) })
}

// free ends what runs at the prefill worker, which then takes what waits.
func (s *site) free() {
	s.t.Helper()
	if r := s.prefill.of(s.running.ID); r != nil {
		r.release()
		<-r.ended
	}
}

func newJob(user, model string, change ...func(*jobs.Job)) *jobs.Job {
	j := &jobs.Job{V: jobs.Version, ID: jobs.NewID(), User: user, Batch: batch, Class: jobs.Batch, Model: model, Prompt: "say something", SubmittedAt: time.Now().UTC()}
	for _, f := range change {
		f(j)
	}
	return j
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // of records
	}
	return data
}

// submit puts a job into the intake as its user does.
func (s *site) submit(nc *nats.Conn, j *jobs.Job) {
	s.t.Helper()
	msg := &nats.Msg{Subject: protocol.SubjectOf(j, jobs.StagePrefill), Data: encode(j), Header: nats.Header{}}
	msg.Header.Set("Nats-Msg-Id", jobs.EncodeToken(j.User)+"."+j.ID+".prefill")
	answer, err := nc.RequestMsg(msg, enough)
	if err != nil || strings.Contains(string(answer.Data), `"error"`) {
		s.t.Fatalf("submit: %v, %v", answer, err)
	}
}

// get reads the last message of a subject, nil if there is none.
func (s *site) get(stream, subject string) *jetstream.RawStreamMsg {
	msg, err := s.root.Request("$JS.API.STREAM.MSG.GET."+stream, encode(map[string]string{"last_by_subj": subject}), enough)
	if err != nil {
		return nil
	}
	var answer struct {
		Message *struct {
			Subject string `json:"subject"`
			Seq     uint64 `json:"seq"`
			Data    []byte `json:"data"`
		}
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil || answer.Message == nil {
		return nil
	}
	return &jetstream.RawStreamMsg{Subject: answer.Message.Subject, Sequence: answer.Message.Seq, Data: answer.Message.Data}
}

func (s *site) has(stream, subject string) bool { return s.get(stream, subject) != nil }

// holds reports whether the last message of a subject has a text in it.
func (s *site) holds(stream, subject, text string) bool {
	msg := s.get(stream, subject)
	return msg != nil && strings.Contains(string(msg.Data), text)
}

// stream looks at a stream; nil if there is none.
func (s *site) stream(name string) *jetstream.StreamInfo {
	stream, err := s.js.Stream(s.t.Context(), name)
	if err != nil {
		return nil
	}
	return stream.CachedInfo()
}

func (s *site) stored(stream string) int {
	if info := s.stream(stream); info != nil {
		return int(info.State.Bytes)
	}
	return 0
}

// decoy makes a stream whose loss does no harm.
func (s *site) decoy(name string, subjects ...string) string {
	s.t.Helper()
	if _, err := s.js.CreateOrUpdateStream(s.t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects, Storage: jetstream.MemoryStorage}); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// remake makes what was taken away from the streams again.
func (s *site) remake() {
	s.t.Helper()
	if _, err := s.queue.Init(s.t.Context(), []string{model, other}, 1, false); err != nil {
		s.t.Fatal(err)
	}
}

// victim is what alice has while one attack is made.
type victim struct {
	*site
	secret string // in all of it
	heard  []*ear
	stays  []*run
}

func (s *site) victim() *victim {
	return &victim{site: s, secret: fmt.Sprintf("secret-%x", sha256.Sum256([]byte(jobs.NewID())))}
}

// leave ends what the attack was made on.
func (v *victim) leave() {
	for _, e := range v.heard {
		_ = e.sub.Unsubscribe()
	}
	for _, r := range v.stays {
		r.release()
	}
}

// waiting is a job that waits in the intake.
func (v *victim) waiting(change ...func(*jobs.Job)) *jobs.Job { return v.waitingFor(model, change...) }

func (v *victim) waitingFor(model string, change ...func(*jobs.Job)) *jobs.Job {
	v.t.Helper()
	j := newJob(alice, model, append([]func(*jobs.Job){func(j *jobs.Job) { j.Prompt, j.Batch = v.secret, v.secret }}, change...)...)
	v.submit(v.alice, j)
	return j
}

// waits reports whether a job lies in the intake, and has not ended.
func (v *victim) waits(j *jobs.Job) bool {
	return v.has(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)) && !v.has(queue.StreamResults, v.reply(j))
}

func (v *victim) reply(j *jobs.Job) string { return protocol.ResultSubject(j.User, j.Batch, j.ID) }

// finished is a job with a result.
func (v *victim) finished() *jobs.Job {
	v.t.Helper()
	j := newJob(alice, model, func(j *jobs.Job) { j.Batch = v.secret })
	r := jobs.NewResult(j, jobs.Succeeded)
	r.Text, r.Method = v.secret, jobs.MethodLocal
	if _, err := v.results.PublishResult(v.t.Context(), r, ""); err != nil {
		v.t.Fatal(err)
	}
	return j
}

// failed is a job with a dead letter.
func (v *victim) failed() *jobs.Job {
	v.t.Helper()
	j := newJob(alice, model, func(j *jobs.Job) { j.Prompt, j.Batch = v.secret, v.secret })
	d := queue.DeadLetter{Code: jobs.CodeInvalid, Message: "it cannot be done: " + v.secret, Job: *j}
	if err := v.queue.PublishDeadLetter(v.t.Context(), jobs.StagePrefill, model, j.ID, d); err != nil {
		v.t.Fatal(err)
	}
	return j
}

func (v *victim) letter(j *jobs.Job) string {
	return protocol.DLQSubject(jobs.StagePrefill, model, alice, j.ID)
}

// handed is a job that is at a decode worker, with a KV state that the secret opens.
func (v *victim) handed() *jobs.Job {
	v.t.Helper()
	j := newJob(alice, model, func(j *jobs.Job) { j.Prompt = stay })
	if _, err := v.js.Publish(v.t.Context(), hop(j), encode(handover(j, "http://127.0.0.1:1/state/0", v.secret[:40]))); err != nil {
		v.t.Fatal(err)
	}
	v.eventually("a job of alice's runs at decode", func() bool { return v.decode.active(j.ID) })
	v.stays = append(v.stays, v.decode.of(j.ID))
	return j
}

func hop(j *jobs.Job) string { return protocol.SubjectOf(j, jobs.StageDecode) }

func handover(j *jobs.Job, url, token string) *jobs.Handover {
	return &jobs.Handover{
		V: jobs.Version, Stage: jobs.StageDecode, Job: *j, AcceptedAt: time.Now(), Kind: jobs.KindState, Attempts: 1, Prefill: &jobs.Prefill{Server: "machine/p"},
		State: &jobs.State{URL: url, Token: token, Bytes: 1, Tokens: 1, Fingerprint: jobs.Fingerprint{Model: "m", Format: "f"}, First: []jobs.TokenProb{{ID: 1}}},
	}
}

// emits has a piece of alice's text published, and an event of her job.
func (v *victim) emits() {
	v.t.Helper()
	for _, subject := range []string{protocol.TokensSubject(alice, batch, jobs.NewID()), protocol.EventsSubject(alice, batch, jobs.NewID())} {
		if err := v.peer.Publish(subject, []byte(v.secret)); err != nil {
			v.t.Fatal(err)
		}
	}
	if err := v.peer.Flush(); err != nil {
		v.t.Fatal(err)
	}
}

// asks has alice ask for the result of a job, or a worker for something about it.
func (v *victim) asks() {
	v.t.Helper()
	subject := strings.Replace(v.reply(v.finished()), "results.", "result.", 1)
	if v.folder == "" {
		subject = "$JS.API.DIRECT.GET.RESULTS." + strings.Replace(subject, "result.", "results.", 1)
	}
	if _, err := v.alice.Request(subject, nil, enough); err != nil {
		v.t.Fatal(err)
	}
	v.control("find", map[string]any{"jobs": []string{jobs.NewID()}, "batch": v.secret})
}

// control has alice ask the workers.
func (v *victim) control(verb string, request any) string {
	msg, err := v.alice.Request("control."+verb+"."+alice, encode(request), enough)
	if err != nil {
		return err.Error()
	}
	return string(msg.Data)
}

// finds is where alice is told that a job of hers is.
func (v *victim) finds(j *jobs.Job) string {
	return v.control("find", map[string]any{"jobs": []string{j.ID}})
}

// ear is a subscription of somebody who is attacked.
type ear struct {
	sub *nats.Subscription
	got []string
}

// listens has alice listen.
func (v *victim) listens(subject string) *ear { return v.listensAt(v.alice, subject) }

func (v *victim) listensAt(nc *nats.Conn, subject string) *ear {
	v.t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		v.t.Fatal(err)
	}
	e := &ear{sub: sub}
	v.heard = append(v.heard, e)
	return e
}

// hears reports whether something came in which the text is.
func (e *ear) hears(text string) bool {
	for {
		msg, err := e.sub.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		e.got = append(e.got, string(msg.Data))
	}
	for _, got := range e.got {
		if strings.Contains(got, text) {
			return true
		}
	}
	return false
}
