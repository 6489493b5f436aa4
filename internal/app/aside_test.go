package app_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/protocol"
	"tandem/jobs"
	"tandem/test/logs"
)

// Metrics and profiles of a gateway are for this machine, or for who has the token, and for no page.
func TestMetricsAndProfilesOfAGateway(t *testing.T) {
	s := newSystem(t)
	c, err := client.Dial(t.Context(), client.Options{URL: s.nats.URL(), NKey: s.access.Gateway(), CA: s.access.CA(), User: access.GatewayInbox})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	start := func(at app.GatewayAddress) (*app.Gateway, error) {
		at.HTTP = "127.0.0.1:0"
		g, err := app.StartGateway(t.Context(), at, gateway.Options{System: admin.New(c), Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			t.Cleanup(func() { _ = g.Stop() })
		}
		return g, err
	}
	for want, at := range map[string]app.GatewayAddress{
		"or say who may read them, with --metrics-token-file": {Metrics: "0.0.0.0:0"},
		`pprof: "0.0.0.0:0" is no address of this machine`:    {Pprof: "0.0.0.0:0", Metrics: "127.0.0.1:0"},
		`pprof: ":6060" is no address of this machine`:        {Pprof: ":6060"},
		`metrics: "9464" is no address of this machine`:       {Metrics: "9464"},
	} {
		if _, err := start(at); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", at, err, want)
		}
	}
	const token = "0123456789abcdef-token"
	open, err := start(app.GatewayAddress{Metrics: "127.0.0.1:0", Pprof: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := start(app.GatewayAddress{Metrics: "0.0.0.0:0", MetricsToken: token})
	if err != nil {
		t.Fatal(err)
	}
	far := strings.Replace(bound.MetricsURL(), "[::]", "127.0.0.1", 1)
	for _, tt := range []struct {
		method, url, host string
		header            map[string]string
		want              int
	}{
		{"GET", open.MetricsURL(), "", nil, 200},
		{"GET", open.MetricsURL(), "localhost:1", nil, 200},
		{"GET", open.MetricsURL(), "evil.example", nil, 421},
		{"GET", open.MetricsURL(), "", map[string]string{"Origin": "http://evil.example"}, 403},
		{"POST", open.MetricsURL(), "", nil, 405},
		{"GET", open.URL() + "/metrics", "", nil, 404},
		{"GET", open.ProfilesURL(), "", nil, 200},
		{"GET", open.ProfilesURL(), "evil.example", nil, 421},
		{"GET", far, "", nil, 401},
		{"GET", far, "", map[string]string{"Authorization": "Bearer " + token + "x"}, 401},
		{"GET", far, "", map[string]string{"Authorization": "Bearer " + token}, 200},
	} {
		if code, body := ask(t, tt.method, tt.url, tt.host, tt.header); code != tt.want {
			t.Errorf("%s %s with Host %q, %v: %d, want %d: %.200s", tt.method, tt.url, tt.host, tt.header, code, tt.want, body)
		}
	}
}

func TestProfilesOfAWorker(t *testing.T) {
	s := newSystem(t)
	flags := s.flags(protocol.RoleDecode)
	flags.EngineURL, flags.Pprof, flags.StateDir = fake(t).URL(), "0.0.0.0:6060", filepath.Join(t.TempDir(), "state")
	if _, err := app.StartWorker(t.Context(), app.WorkerConfig{Role: protocol.RoleDecode, Flags: flags, Timing: quick, Log: logTo(t)}); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "listen on 127.0.0.1") {
		t.Errorf("a worker that would show profiles to others: %v", err)
	}
	var log logs.Buffer
	flags.Pprof = "127.0.0.1:0"
	w, err := app.StartWorker(t.Context(), app.WorkerConfig{Role: protocol.RoleDecode, Flags: flags, Timing: quick, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(log.String(), "setting=pprof url=")
	url, _, _ := strings.Cut(rest, " ")
	if code, body := ask(t, http.MethodGet, strings.TrimSpace(url)+"/debug/pprof/goroutine?debug=1", "", nil); code != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("%s: %d %.200s", url, code, body)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Run(stopped); err != nil {
		t.Error(err)
	}
}
