package handover

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	defaultStall = 5 * time.Second
	connectLimit = 5 * time.Second  // for a connection, and again for TLS; briefLimit where the last one failed
	keepIdle     = 30 * time.Second // connections between fetches
)

// ClientConfig describes a [Client].
type ClientConfig struct {
	Allow  []netip.Prefix // where states may be fetched from; empty: loopback, link-local, private and shared (100.64.0.0/10) addresses
	CAFile string         // PEM; only HTTPS with a certificate that it has signed is used. Empty: certificates are known by their servers' keys, or to the system
	// Server says of an address, as in https://10.0.0.1:8100, whether a prefill worker offers states there that may be fetched, and the key of its certificate, empty
	// if others vouch for that. Nil: every address is one.
	Server func(ctx context.Context, base string) (key string, ok bool)
	Stall  time.Duration // silence after which a transfer is abandoned; default 5 s
	Bases  int64         // bytes of disk space for rows of shared prefixes, which are not fetched again; 0: none are kept
	Log    *slog.Logger  // may be nil
}

// Client fetches states. It is safe for concurrent use.
type Client struct {
	transport *http.Transport
	stall     time.Duration
	log       *slog.Logger
	server    func(ctx context.Context, base string) (key string, ok bool)
	strict    bool // HTTPS only
	absences  absences
	bases     *bases

	write func(*os.File, []byte) (int, error) // tests fail here as a disk does
}

// NewClient returns a client. Close it when it is not used any more.
func NewClient(c ClientConfig) (*Client, error) {
	if c.Stall <= 0 {
		c.Stall = defaultStall
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if len(c.Allow) == 0 {
		c.Allow = defaultAllow()
	}
	var roots *x509.CertPool
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, "read the certificate authority of KV state transfers: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "%s holds no certificate in PEM form", c.CAFile)
		}
	}
	if c.Server == nil {
		c.Server = func(context.Context, string) (string, bool) { return "", true }
	}
	d := &dialer{Dialer: net.Dialer{Timeout: connectLimit, ControlContext: guard(c.Allow)}, roots: roots, server: c.Server}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &Client{
		// The transport is used by itself: an http.Client would follow redirects, and put the URL into its errors.
		transport: &http.Transport{
			DialContext:            d.DialContext,
			DialTLSContext:         d.dialTLS,
			Protocols:              protocols,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        keepIdle,
			MaxResponseHeaderBytes: maxHeader,
		},
		server: c.Server, strict: roots != nil,
		stall: c.Stall, log: c.Log, bases: newBases(c.Bases, baseAge, c.Log), write: (*os.File).Write,
	}, nil
}

// Close closes connections that are kept for further fetches, and forgets the rows of prefixes. Nothing may be fetched any more.
func (c *Client) Close() {
	c.bases.close()
	c.transport.CloseIdleConnections()
}

// Fetched is a state that has arrived, whole and verified.
type Fetched struct {
	Path     string
	Bytes    int64
	Moved    int64         // bytes that went over the network for it
	Rows     string        // name of its rows that others have too; empty if it is not known, or has none
	Rebuilt  bool          // it was put together from these, which were here, and the rest
	Failed   bool          // that failed, and the whole was fetched
	Duration time.Duration // of the transfer, until the digest was compared
	Waited   time.Duration // of that, for the next bytes to come
	Resumed  int           // times that it was broken and went on
}

// Fetch fetches a state into a file of dir whose name begins with prefix. The file can be read by its owner only,
// and by the group of a folder in which the group may write. Progress, which may be nil, is called for every
// piece. An error is a *protocol.HandoverError, or the context's cause; no file is left then.
func (c *Client) Fetch(ctx context.Context, s *jobs.State, dir, prefix string, progress func()) (Fetched, error) {
	start := time.Now()
	u, err := c.address(ctx, s)
	if err != nil {
		return Fetched{}, err
	}
	target, err := newTarget(dir, prefix, s.Bytes, c.write)
	if err != nil && c.bases.clear() { // states come first on a full disk
		target, err = newTarget(dir, prefix, s.Bytes, c.write)
	}
	if err != nil {
		return Fetched{}, err
	}
	if progress == nil {
		progress = func() {}
	}
	t := &transfer{client: c, state: s, url: u, target: target, progress: progress}
	err = t.run(ctx)
	if err == nil {
		err = target.keep()
	}
	if h, ok := errors.AsType[*protocol.HandoverError](err); ok && h.Failure == jobs.FailDisk {
		c.bases.clear() // so that the next one has more room
	}
	if err != nil {
		target.discard()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Fetched{}, err
	}
	return Fetched{
		Path: target.path(), Bytes: s.Bytes, Moved: t.moved, Rows: t.name, Rebuilt: t.base != nil, Failed: t.failed,
		Duration: time.Since(start), Waited: t.waited, Resumed: t.resumed,
	}, nil
}

// Holds reports whether the rows of this name are here, or come with a state that is being fetched.
func (c *Client) Holds(rows string) bool { return c.bases.holds(rows) }

// Done tells the prefill worker that a state is not needed any more. It is only a courtesy: the lease ends
// anyway when the job's message is gone.
func (c *Client) Done(ctx context.Context, s *jobs.State) error {
	u, err := c.address(ctx, s)
	if err != nil {
		return err
	}
	answer, err := c.call(ctx, request{method: http.MethodDelete, url: u, token: s.Token, limit: c.stall})
	if err == nil {
		answer.close()
		err = answer.failure()
	}
	if h, ok := errors.AsType[*protocol.HandoverError](err); ok && h.Failure == jobs.FailNotFound {
		return nil // which is what was asked for
	}
	return err
}
