package handover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	defaultEvery = 5 * time.Second

	headerLimit = 10 * time.Second // for a request to arrive
	idleLimit   = 2 * time.Minute  // of a connection between requests; longer than the client's
	maxHeader   = 16 << 10         // bytes
)

// ServerConfig describes a [Server].
type ServerConfig struct {
	Listen   string // address, such as 127.0.0.1:0
	URL      string // under which others reach it; empty: made from the address it listens on
	CertFile string // PEM; with KeyFile it serves HTTPS with this certificate, and notices when the files are renewed. Empty: with one of its own, and on loopback HTTP
	KeyFile  string
	Budget   int64 // bytes of states held at once
	// Alive returns, of these jobs, those whose decode message still exists. If it is nil, leases of
	// published states end with Release only.
	Alive func(ctx context.Context, ids []string) (map[string]bool, error)
	Every time.Duration // how often Alive is asked while states are held; default 5 s
	Log   *slog.Logger  // may be nil

	encrypted bool // also on loopback: tests
}

// Server offers the states of one prefill worker. It is safe for concurrent use.
type Server struct {
	leases *leases
	url    string
	key    string
	http   *http.Server
	serve  sync.WaitGroup
	close  func() error
}

// Serve starts a server, which goes on until it is closed; ctx bounds the start only.
func Serve(ctx context.Context, c ServerConfig) (*Server, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Every <= 0 {
		c.Every = defaultEvery
	}
	if c.Budget <= 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "the budget for KV states is %d bytes; give some disk space, or serve none", c.Budget)
	}
	cert, err := loadCertificate(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	if err := checkListen(c.Listen, c.URL); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for KV state transfers on %s: %w", c.Listen, err)
	}
	if cert == nil && !strings.HasPrefix(c.URL, "http:") && (c.encrypted || !loopback(listener.Addr())) {
		if cert, err = ownCertificate(); err != nil {
			return nil, errors.Join(fmt.Errorf("make a certificate for KV state transfers: %w", err), listener.Close())
		}
	}
	base, err := baseURL(c, listener.Addr(), cert)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}

	s := &Server{leases: newLeases(c.Budget, c.Alive, c.Every, c.Log), url: base}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 would copy every byte once more, and its flow control is slower
	s.http = &http.Server{
		Handler:                      &handler{s.leases, c.Log},
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true, // every path is answered alike
		ReadHeaderTimeout:            headerLimit,
		WriteTimeout:                 sendLimit, // of a piece: see sending
		IdleTimeout:                  idleLimit,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	if cert != nil && cert.own() {
		s.key = keyOf(cert.current.Leaf)
	}
	if cert != nil {
		s.http.TLSConfig = &tls.Config{GetCertificate: cert.get}
	}
	s.serve.Go(func() {
		err := serve(s.http, listener)
		if !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("KV states are not served any more; restart the worker", "error", err)
		}
	})
	s.close = sync.OnceValue(func() error {
		err := s.http.Close() // and all connections, of which none is worth waiting for
		s.leases.close()
		s.serve.Wait()
		return err
	})
	return s, nil
}

func serve(s *http.Server, l net.Listener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(l, "", "")
	}
	return s.Serve(l)
}

// loopback reports whether an address is reached from this machine only.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// URL is where the states are offered.
func (s *Server) URL() string { return s.url }

// Key names the key of a certificate that the server has made itself, by which receivers know it; empty if it has another one, or none.
func (s *Server) Key() string { return s.key }

// Fits reports whether so many bytes are within the budget at all.
func (s *Server) Fits(bytes int64) bool { return bytes <= s.leases.budget }

// Room waits until so many bytes may be held beside what is held already. A room that is there is given
// even if ctx has ended. It reserves nothing: states that are prefilled at once may exceed the budget
// together. More bytes than ever fit are an error at once, of [jobs.FailBudget].
func (s *Server) Room(ctx context.Context, bytes int64) error { return s.leases.room(ctx, bytes) }

// Offer takes over a file and makes it available for one job: URL, Token and Bytes of the state are set.
// A job may have several states, if it was prefilled more than once. The file must not change any more. Rows
// are the parts of it that states of other jobs have too, in its order: a receiver that has them need not fetch them.
// On an error the file remains the caller's.
func (s *Server) Offer(jobID, path string, rows ...protocol.Span) (jobs.State, error) {
	l, token, err := s.leases.offer(jobID, path, rows...)
	if err != nil {
		return jobs.State{}, err
	}
	return jobs.State{URL: s.url + statePath + l.id, Token: token, Bytes: l.bytes}, nil
}

// Published says that the job's decode message exists now: the lease lasts as long as it does.
func (s *Server) Published(jobID string) { s.leases.published(jobID) }

// Pass makes the states of a job, which were not published, those of another one, and reports whether there are any.
func (s *Server) Pass(from, to string) bool { return s.leases.pass(from, to) }

// Release ends a job's leases and removes the files.
func (s *Server) Release(jobID string) { s.leases.release(jobID) }

// Held is what is held now.
func (s *Server) Held() (states int, bytes int64) {
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	return len(s.leases.held), s.leases.bytes
}

// Close stops serving, also what is being fetched, and removes all files.
func (s *Server) Close() error { return s.close() }

// checkListen reports an address of which no URL can be made that others reach.
func checkListen(listen, given string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "the listen address %q is not host:port", listen)
	}
	ip, err := netip.ParseAddr(host)
	if given != "" || host != "" && err != nil { // a name stands for itself
		return nil
	}
	if host == "" || ip.IsUnspecified() {
		return jobs.Errorf(jobs.CodeInvalid, "KV states are offered on %q, which is all addresses of this machine; give the one by which the decode machines reach it, or --handover-url", listen)
	}
	if ip.Zone() != "" {
		return jobs.Errorf(jobs.CodeInvalid, "KV states are offered on %q, an address with a zone, which means nothing to other machines; give another, or --handover-url", listen)
	}
	return nil
}

// baseURL is the given URL, or one made of the address that the server listens on.
func baseURL(c ServerConfig, addr net.Addr, cert *certificate) (string, error) {
	base := c.URL
	if base == "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return "", err
		}
		tcp, ok := addr.(*net.TCPAddr)
		if !ok {
			return "", fmt.Errorf("listen for KV state transfers: %v is no TCP address", addr)
		}
		base = "http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
		if cert != nil {
			base = "https" + strings.TrimPrefix(base, "http")
		}
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", jobs.Errorf(jobs.CodeInvalid, "--handover-url %q is not of the form http://host:port or https://host:port", protocol.RedactURL(base))
	case cert != nil && u.Scheme != "https":
		return "", jobs.Errorf(jobs.CodeInvalid, "--handover-url %q begins with http, but there is a certificate; give https", protocol.RedactURL(base))
	case cert != nil && !cert.own():
		if err := cert.covers(u.Hostname()); err != nil {
			return "", jobs.Errorf(jobs.CodeInvalid, "the certificate %s is not for %q, where KV states are offered; give --handover-url with a name that it has: %w", c.CertFile, u.Hostname(), err)
		}
	}
	return strings.TrimSuffix(base, "/"), nil
}
