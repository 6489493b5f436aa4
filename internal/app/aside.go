package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"tandem/internal/httphost"
	"tandem/jobs"
)

// aside answers beside a service's own address: with metrics, or with profiles.
type aside struct {
	server *http.Server
	addr   string
	done   chan struct{}
}

// asideOptions say where, and who may ask.
type asideOptions struct {
	Setting string   // that names the address
	Addr    string   // host:port; only this machine's own without a token
	Hosts   []string // names under which it may be asked, beside IP addresses and localhost
	Token   string
	Log     *slog.Logger
}

// startAside has a handler answer; nothing if there is no address.
func startAside(ctx context.Context, o asideOptions, h http.Handler) (*aside, error) {
	if o.Addr == "" {
		return nil, nil
	}
	if o.Token == "" && !isLoopback(o.Addr) {
		remedy := "listen on 127.0.0.1"
		if o.Setting == "metrics" {
			remedy += ", or say who may read them, with --metrics-token-file"
		}
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s: %q is no address of this machine alone, as 127.0.0.1:6060; %s", o.Setting, o.Addr, remedy)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s: %w; name another address with --%s", o.Setting, err, o.Setting)
	}
	a := &aside{addr: l.Addr().String(), done: make(chan struct{}), server: &http.Server{Handler: o.guard(h), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute}}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("http server stopped", "setting", o.Setting, "err", err)
		}
	}()
	o.Log.Info("http server started", "setting", o.Setting, "url", "http://"+a.addr)
	return a, nil
}

// stop ends it at once, if there is one: who reads it asks again.
func (a *aside) stop() error {
	if a == nil {
		return nil
	}
	err := a.server.Close()
	<-a.done
	return err
}

// guard keeps out web pages, under whatever name they have this address, and who lacks the token.
func (o asideOptions) guard(h http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	want := sha256.Sum256([]byte(o.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		given := sha256.Sum256([]byte(token))
		switch {
		case !httphost.Ours(r.Host, append([]string{"localhost"}, o.Hosts...)...):
			http.Error(w, "this server has another name; ask for it by its IP address, or allow the name with --http-host", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet:
			http.Error(w, "send a GET", http.StatusMethodNotAllowed)
		case origins.Check(&http.Request{Method: http.MethodPost, Host: r.Host, Header: r.Header, URL: r.URL}) != nil: // a GET passes always
			http.Error(w, "web pages of other origins cannot read this", http.StatusForbidden)
		case o.Token != "" && (!strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(given[:], want[:]) != 1):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the token as Authorization: Bearer TOKEN", http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether only this machine reaches an address, host:port.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// onlyMetrics answers at /metrics, where Prometheus looks.
func onlyMetrics(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", h)
	return mux
}

// profiles answers as Go's own tools expect: go tool pprof http://ADDR/debug/pprof/profile.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
