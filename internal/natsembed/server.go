// Package natsembed runs a NATS server inside this process, for local mode, development and tests.
//
// It guarantees that an acknowledged message is on the disk (unless LazySync is set), that the store
// is readable by its owner only and used by one server at a time, and that Stop returns when
// the server is gone. It is not a singleton and knows nothing of jobs.
package natsembed

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// DefaultMaxPayload is the size, in bytes, of the largest message that a server takes by default.
const DefaultMaxPayload = 8 << 20

// Options say how a server runs. The zero value of each field but Dir is usable.
type Options struct {
	Dir         string       // folder of the JetStream store, created if missing; must be given unless NoJetStream
	Host        string       // address to listen on; default 127.0.0.1
	Port        int          // TCP port; 0 takes a free one, which the server keeps over [Server.Restart]
	LazySync    bool         // fsync every two minutes, not at every write: faster, and a crash of the machine loses acknowledged messages
	MaxPayload  int          // bytes of a message; default [DefaultMaxPayload]
	MaxStore    int64        // bytes of all streams on the disk; 0 is three quarters of what is free there, or what the streams reserve if that is more
	NoJetStream bool         // core NATS only
	Cluster     *Cluster     // nil: a server by itself
	Users       []User       // who may connect; everybody if empty
	TLS         *tls.Config  // nil: plain TCP
	Include     string       // file of NATS' configuration with TLS, accounts and users, in place of Users and TLS; read again when the system account asks for it
	Log         *slog.Logger // nil: nothing is logged
}

// Cluster makes a server one of several that keep streams together.
type Cluster struct {
	Server string   // the server's name, unique in the cluster
	Port   int      // of Host, where the others reach it
	Peers  []string // the addresses of all of them, host:port; its own may be among them
}

// User may connect, by Name and Password or by NKey.
type User struct {
	Name, Password string
	NKey           string   // public nkey ("U…")
	DenyPublish    []string // subjects that this user may not publish to
	DenySubscribe  []string // nor subscribe to
}

// Server is a running, or stopped, NATS server.
type Server struct {
	opts Options // Port is the one that was taken

	mu      sync.Mutex
	running *server.Server // nil when stopped
	lock    *storeLock     // nil without a store
}

// Start starts a server and returns when it takes connections. ctx bounds the start only.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Dir == "" && !opts.NoJetStream {
		return nil, errors.New("start NATS server: no folder for the JetStream store; set Dir")
	}
	if opts.Include != "" && (opts.NoJetStream || opts.Cluster != nil) {
		return nil, errors.New("start NATS server: Include is for a server by itself with JetStream")
	}
	if opts.Host == "" {
		opts.Host = "127.0.0.1"
	}
	if opts.MaxPayload == 0 {
		opts.MaxPayload = DefaultMaxPayload
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// URL is where clients connect. It stays the same over [Server.Restart].
func (s *Server) URL() string {
	scheme := "nats://"
	if s.opts.TLS != nil || s.opts.Include != "" {
		scheme = "tls://"
	}
	return scheme + net.JoinHostPort(s.opts.Host, strconv.Itoa(s.opts.Port))
}

// Restart stops the server if it is running and starts it on the same store and port.
// ctx bounds the start only.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	if err := s.start(ctx); err != nil {
		s.stop()
		return fmt.Errorf("start NATS server: %w", err)
	}
	return nil
}

// Stop shuts the server down and returns when all of it has ended; messages stay on the disk.
// Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
	if s.lock != nil {
		s.lock.release()
		s.lock = nil
	}
}

func (s *Server) start(ctx context.Context) (err error) {
	if !s.opts.NoJetStream {
		if s.lock, err = lockStore(s.opts.Dir); err != nil {
			return err
		}
		if s.opts.LazySync {
			s.opts.Log.Warn("NATS store is synced to the disk every two minutes only: a crash of this machine loses acknowledged messages", "dir", s.opts.Dir)
		}
	}
	opts := s.serverOptions()
	if s.opts.Include != "" {
		if opts, err = s.withInclude(opts); err != nil {
			return err
		}
	}
	if s.running, err = server.NewServer(opts); err != nil {
		return err
	}
	failed := make(chan error, 1)
	s.running.SetLoggerV2(&logger{log: s.opts.Log, failed: failed}, false, false, false)
	s.running.Start()

	const poll = 10 * time.Millisecond // the server tells nobody when it is ready
	for !s.running.ReadyForConnections(poll) {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
	}
	s.opts.Port = s.running.Addr().(*net.TCPAddr).Port
	if s.opts.NoJetStream || s.opts.Include != "" {
		return nil
	}
	return s.tellSettings()
}

// tellSettings lets users ask for the settings of JetStream, which only the system account may otherwise:
// a client wants to know whether what is acknowledged is on the disk.
func (s *Server) tellSettings() error {
	ask := "$SYS.REQ.SERVER." + s.running.ID() + ".JSZ"
	system := s.running.SystemAccount()
	if err := system.AddServiceExport(ask, nil); err != nil {
		return fmt.Errorf("export the settings of JetStream: %w", err)
	}
	if err := s.running.GlobalAccount().AddServiceImport(system, ask, ask); err != nil {
		return fmt.Errorf("import the settings of JetStream: %w", err)
	}
	return nil
}

func (s *Server) serverOptions() *server.Options {
	o := &server.Options{
		ServerName:            "tandem-embedded",
		Host:                  s.opts.Host,
		Port:                  s.opts.Port,
		MaxPayload:            int32(s.opts.MaxPayload),
		JetStreamMaxStore:     cmp.Or(s.opts.MaxStore, storeLimit(s.opts.Dir)),
		MaxPending:            max(server.MAX_PENDING_SIZE, int64(s.opts.MaxPayload)),
		JetStream:             !s.opts.NoJetStream,
		StoreDir:              s.opts.Dir,
		SyncAlways:            !s.opts.LazySync,
		TLSConfig:             s.opts.TLS,
		NoSigs:                true, // the process belongs to our caller
		NoLog:                 true, // we set our own logger
		DisableShortFirstPing: true,
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if c := s.opts.Cluster; c != nil {
		o.ServerName = c.Server
		o.Cluster = server.ClusterOpts{Name: "tandem", Host: s.opts.Host, Port: c.Port}
		for _, peer := range c.Peers {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: peer})
		}
	}
	for _, u := range s.opts.Users {
		may := &server.Permissions{
			Publish:   &server.SubjectPermission{Deny: u.DenyPublish},
			Subscribe: &server.SubjectPermission{Deny: u.DenySubscribe},
		}
		if u.NKey != "" {
			o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: u.NKey, Permissions: may})
		} else {
			o.Users = append(o.Users, &server.User{Username: u.Name, Password: u.Password, Permissions: may})
		}
	}
	return o
}
