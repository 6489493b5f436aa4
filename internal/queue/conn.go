package queue

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// minPayload is the max_payload, in bytes, that a server needs to take every valid record.
const minPayload = 8 << 20

// DefaultURL is where NATS is if nobody says otherwise.
const DefaultURL = "nats://127.0.0.1:4222"

// Config says how to reach NATS.
type Config struct {
	URL   string // nats://host:4222, tls:// for TLS; several separated by commas; may hold user:password@; [DefaultURL] if empty
	Creds string // file with a user's JWT and nkey seed, as made by nsc
	NKey  string // file with an nkey seed ("SU…")
	TLSCA string // PEM file of the authority that signed the server's certificate; the system's if empty
	// Options are more options of the connection, and Context is the name of the nats CLI's context that URL and Options are of, if they are, for errors.
	Options []nats.Option
	Context string

	Name  string // shown by `nats server report connections`
	Model string // that a worker serves; errors say how to make it known
	Inbox string // what follows _INBOX. in the names of inboxes, so that permissions can tell users apart; the first word of Name if empty
	// Replicas is on how many servers of a cluster each stream is kept that is created over this connection: 1, 3 or 5; 1 if 0.
	// With 3 one server may fail, with 5 two.
	Replicas int
	Timing   Timing // what is zero is as in [DefaultTiming]
	Log      *slog.Logger
}

// Timing holds the durations of the protocol. All programs on one server must agree on AckWait and
// PresenceTTL, which are part of what is stored there. Tests shorten them.
type Timing struct {
	AckWait         time.Duration // a delivery without a sign of life for so long goes to another worker
	InProgressEvery time.Duration // between signs of life
	Beat            time.Duration // between presences
	PresenceTTL     time.Duration // a worker that was silent for so long is gone
	DeadlineGrace   time.Duration // how long after its deadline a job without result is left to the workers
	CancelWait      time.Duration // how long a cancel waits for workers to stop their engines, which may take 2 s
}

// DefaultTiming is what every program uses unless told otherwise.
func DefaultTiming() Timing {
	return Timing{
		AckWait: 12 * time.Second, InProgressEvery: 4 * time.Second, Beat: 3 * time.Second, PresenceTTL: 10 * time.Second,
		DeadlineGrace: time.Second, CancelWait: 5 * time.Second,
	}
}

// filled has the defaults where t is zero.
func (t Timing) filled() Timing {
	d := DefaultTiming()
	return Timing{
		AckWait: cmp.Or(t.AckWait, d.AckWait), InProgressEvery: cmp.Or(t.InProgressEvery, d.InProgressEvery),
		Beat: cmp.Or(t.Beat, d.Beat), PresenceTTL: cmp.Or(t.PresenceTTL, d.PresenceTTL),
		DeadlineGrace: cmp.Or(t.DeadlineGrace, d.DeadlineGrace), CancelWait: cmp.Or(t.CancelWait, d.CancelWait),
	}
}

// Conn is a connection to the queue. It reconnects for ever.
type Conn struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *slog.Logger
	timing   Timing
	replicas int
	model    string
	letters  letterBound
	grader   bool                   // the account has no JetStream, only what others export to it: see deploy/README.md
	denied   atomic.Pointer[denial] // the last refused permission
	asking   sync.Map               // of requests that may be refused, see ask
	refused  sync.Map               // subjects of those that were
	copies   atomic.Int32           // what became of the copies of results: none was sent yet, some were, none may be
	opened   sync.Map               // name → jetstream.Stream, so that a read is one round trip
	observe  protocol.Observer      // of the worker whose connection it is; else nil

	back                  atomic.Int64 // when the connection came back last; Unix time in ns
	letterSizes, jobSizes sizes        // of the dead letters, and of the intake
}

// stream returns a handle to read a stream by. It is asked for once.
func (c *Conn) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if s, ok := c.opened.Load(name); ok {
		return s.(jetstream.Stream), nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	s, err := c.js.Stream(ctx, name)
	if err != nil {
		return nil, c.failed(ctx, err, "open stream %s", name)
	}
	c.opened.Store(name, s)
	return s, nil
}

// denial is a permission that the server refused. It tells so apart from the call that failed, which only times out.
type denial struct {
	err error
	at  time.Time
}

// denialAge is how long a refused permission is taken for the cause of a time-out.
const denialAge = 10 * time.Second

// Connect connects to NATS and makes sure that the server can do the work. Every failure is of code
// [jobs.CodeNATS], or [jobs.CodeInvalid] for a file of ours, and names the setting, its value and the remedy.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{log: cfg.Log, timing: cfg.Timing.filled(), replicas: cmp.Or(cfg.Replicas, 1), model: cfg.Model, letters: defaultLetters()}
	if err := checkReplicas(c.replicas); err != nil {
		return nil, err
	}
	cfg.URL = cmp.Or(cfg.URL, DefaultURL)
	opts, err := cfg.options(ctx, c.asyncError, c.reconnected)
	if err != nil {
		return nil, err
	}
	if err := checkURL(cfg.URL); err != nil {
		return nil, err
	}
	if c.nc, err = nats.Connect(cfg.URL, append(opts, cfg.Options...)...); err != nil {
		return nil, cfg.connectError(err)
	}
	if err := c.check(ctx, cfg); err != nil {
		c.nc.Close()
		return nil, err
	}
	return c, nil
}

// checkReplicas checks on how many servers a stream is to be kept.
func checkReplicas(n int) error {
	if n != 1 && n != 3 && n != 5 {
		return jobs.Errorf(jobs.CodeInvalid, "replicas is %d; want 1, 3 or 5: an even number bears no more failures than the one below", n)
	}
	return nil
}

// Connected reports whether the connection stands now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// JetStream is that of the connection.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// url is the server's address, to be shown.
func (c *Conn) url() string { return protocol.RedactURL(c.nc.ConnectedUrl()) }

// Close closes the connection. What was published is sent first.
func (c *Conn) Close() {
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(time.Second) // best effort: the connection is going away anyhow
	}
	c.nc.Close()
}

// options makes the options of the connection. The files that the settings name are read here.
func (cfg Config) options(ctx context.Context, onError nats.ErrHandler, onReconnect nats.ConnHandler) ([]nats.Option, error) {
	role, _, _ := strings.Cut(cfg.Name, " ")
	inbox := cmp.Or(cfg.Inbox, jobs.EncodeToken(cmp.Or(role, "tandem")))
	log := cfg.Log
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.CustomInboxPrefix(nats.InboxPrefix + inbox),
		nats.Timeout(connectTimeout(ctx)),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, 500*time.Millisecond),
		nats.PingInterval(10 * time.Second),
		nats.ErrorHandler(onError), nats.ReconnectHandler(onReconnect),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection to NATS lost", "error", err)
			}
		}),
	}
	if err := readable("creds", cfg.Creds); err != nil {
		return nil, err
	}
	if err := readable("nkey", cfg.NKey); err != nil {
		return nil, err
	}
	if cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	}
	if cfg.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(cfg.NKey)
		if err != nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, "nkey: %s holds no nkey seed, which begins with SU: %w", cfg.NKey, err)
		}
		opts = append(opts, nkey)
	}
	if cfg.TLSCA != "" {
		pem, err := os.ReadFile(cfg.TLSCA)
		if err != nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, "tls-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "tls-ca: %s holds no PEM certificate", cfg.TLSCA)
		}
		opts = append(opts, nats.RootCAs(cfg.TLSCA))
	}
	return opts, nil
}

// connectTimeout bounds one attempt to connect, which knows no context.
func connectTimeout(ctx context.Context) time.Duration {
	limit := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(min(limit, time.Until(deadline)), time.Millisecond)
	}
	return limit
}

// check makes sure that the server has JetStream and takes messages that are large enough.
func (c *Conn) check(ctx context.Context, cfg Config) (err error) {
	if have := c.nc.MaxPayload(); have < minPayload {
		return jobs.Errorf(jobs.CodeNATS, "NATS at %s: max_payload is %d bytes, and jobs need %d; set max_payload: 8MB in the server's configuration",
			c.url(), have, minPayload)
	}
	if c.js, err = jetstream.New(c.nc); err != nil {
		return jobs.Errorf(jobs.CodeNATS, "use JetStream: %w", err)
	}
	err = retryUnavailable(ctx, absentLimit, func() error {
		unknown := errRefused
		if cfg.Model == "" {
			if unknown = c.looksUpModels(ctx); unknown == nil {
				c.grader = true
				return nil
			}
			if errors.Is(unknown, errInbox) {
				return unknown
			}
		}
		asking, cancel := context.WithTimeout(ctx, lookUpLimit)
		defer cancel()
		err := c.ask(asking, "$JS.API.INFO", func(ctx context.Context) error {
			_, err := c.js.AccountInfo(ctx)
			return err
		})
		if errors.Is(err, errRefused) && !errors.Is(unknown, errRefused) {
			return unknown // a grader, whom nobody answers at this moment
		}
		return err
	})
	switch {
	case errors.Is(err, errInbox):
		return jobs.Errorf(jobs.CodeNATS, "NATS at %s refuses this user the inboxes %s.>: the key is one of another role, model or user; give the one that was made for this: %w", c.url(), c.nc.Opts.InboxPrefix, err)
	case errors.Is(err, errRefused):
		return jobs.Errorf(jobs.CodeNATS, "NATS at %s lets this user neither use JetStream nor look up models as graders do; have the streams made (submitter admin init), or use another key: %w", c.url(), err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return jobs.Errorf(jobs.CodeNATS, "NATS at %s has no JetStream; start the server with -js, or add jetstream {} to its configuration",
			c.url())
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return jobs.Errorf(jobs.CodeNATS, "NATS at %s has JetStream, but not for this account; enable it for the account in the server's configuration",
			c.url())
	case err != nil:
		return c.failed(ctx, err, "ask NATS at %s for JetStream", c.url())
	}
	return nil
}

// looksUpModels fails unless the account is one of graders, where models have a subject of their own.
func (c *Conn) looksUpModels(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookUpLimit)
	defer cancel()
	return c.ask(ctx, modelPrefix, func(ctx context.Context) error {
		_, err := c.nc.RequestWithContext(ctx, modelPrefix+"none", nil)
		return err
	})
}

// reconnected notes that the connection is back.
func (c *Conn) reconnected(nc *nats.Conn) {
	c.back.Store(time.Now().UnixNano())
	c.log.Info("connected to NATS again", "url", protocol.RedactURL(nc.ConnectedUrl()))
}

// asyncError takes the errors that belong to no call of ours.
func (c *Conn) asyncError(nc *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		if strings.Contains(err.Error(), `Publish to "events.`) {
			c.log.Debug("NATS does not let this user tell of events", "error", err)
			return
		}
		if c.refusesCopies(err) || c.interrupt(err, nc.Opts.InboxPrefix) {
			return
		}
		if isAnswer(err) {
			c.log.Warn("NATS does not take an answer: its request is older than a minute, or came over an earlier connection; who waits asks again", "error", err)
			return
		}
		c.denied.Store(&denial{err, time.Now()})
		c.log.Error("NATS refuses a permission", "error", err)
		return
	}
	c.log.Warn("NATS connection", "error", err)
}

// explain names the permission that was refused a moment ago as the cause of a time-out, which is
// all that the caller gets to see of it.
func (c *Conn) explain(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
		return err
	}
	if d := c.denied.Load(); d != nil && time.Since(d.at) < denialAge {
		return jobs.Errorf(jobs.CodeNATS, "the server refuses a permission, which its configuration must give to this user: %w", d.err)
	}
	return err
}

// failed is the error of a call that NATS did not answer as it should: the cause of ctx if that was
// cancelled, else one of code nats_unavailable that says what could not be done.
func (c *Conn) failed(ctx context.Context, err error, what string, args ...any) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &jobs.Error{Code: jobs.CodeNATS, Message: fmt.Sprintf(what, args...), Err: c.explain(err)}
}
