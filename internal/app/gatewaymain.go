package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/gateway"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/telemetry"
	"tandem/jobs"
)

// GatewayFlags are the settings of a gateway.
type GatewayFlags struct {
	HTTP     string        `name:"http" default:"127.0.0.1:11500" env:"TANDEM_GATEWAY_HTTP" placeholder:"ADDR" help:"Where to listen (default ${default}); of this machine alone, since whoever reaches it may ask."`
	HTTPHost []string      `name:"http-host" env:"TANDEM_GATEWAY_HTTP_HOST" placeholder:"NAME" help:"Name under which it may be asked, beside IP addresses and localhost; may be repeated."`
	Timeout  time.Duration `default:"30m" env:"TANDEM_GATEWAY_TIMEOUT" placeholder:"TIME" help:"How long a request may wait for its answer (default ${default}); its job is cancelled then."`
	Plan     jobs.Plan     `enum:",disaggregated,local,auto" default:"auto" env:"TANDEM_GATEWAY_PLAN" placeholder:"PLAN" help:"auto (default), what is fastest; disaggregated; or local. The header Tandem-Plan names another."`

	NATS  string `name:"nats" env:"TANDEM_NATS" placeholder:"URL" help:"NATS server, several separated by commas (default ${nats})."`
	Creds string `env:"TANDEM_CREDS" placeholder:"FILE" help:"NATS credentials."`
	NKey  string `name:"nkey" env:"TANDEM_NKEY" placeholder:"FILE" help:"NATS nkey seed."`
	TLSCA string `name:"tls-ca" env:"TANDEM_TLS_CA" placeholder:"FILE" help:"Certificate authority of the NATS server."`
	User  string `env:"TANDEM_USER" placeholder:"NAME" help:"Whose jobs these are (default: as the nkey file says, else the login name)."`

	LogFormat   string           `name:"log-format" env:"TANDEM_LOG_FORMAT" enum:"auto,text,json" default:"auto" placeholder:"FORMAT" help:"Log as text or json; auto is text on a terminal."`
	LogLevel    slog.Level       `name:"log-level" env:"TANDEM_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info (default), warn or error."`
	Config      kong.ConfigFlag  `env:"TANDEM_CONFIG" placeholder:"FILE" help:"YAML file with any of these settings."`
	PrintConfig bool             `name:"print-config" help:"Print the settings as a YAML file, and exit."`
	Version     kong.VersionFlag `name:"version" help:"Print the version."`
}

// GatewayMain is the command gateway; it returns the exit code.
func GatewayMain(args []string, stdout, stderr io.Writer) int {
	const name = "gateway"
	var flags GatewayFlags
	exited := -1
	parser, err := kong.New(&flags, kong.Name(name), kong.Description("Answers programs that speak Ollama's or OpenAI's API: each request becomes a job of the pipeline."), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }), kong.Configuration(YAMLFile), kong.Vars{"nats": queue.DefaultURL, "version": VersionLine(name)})
	if err != nil {
		panic(err) // the flags themselves are wrong: a bug
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help or --version said all
		return exited
	case err != nil:
		fmt.Fprintf(stderr, "%s: %s\nTry %s --help.\n", name, protocol.RedactText(err.Error()), name)
		return ExitUsage
	case flags.PrintConfig:
		err = PrintConfig(stdout, parsed)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = runGateway(ctx, flags, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return ExitCode(err)
}

// runGateway answers requests until ctx ends.
func runGateway(ctx context.Context, f GatewayFlags, stderr io.Writer) error {
	log, err := telemetry.NewLogger(stderr, f.LogFormat, f.LogLevel)
	if err != nil {
		return err
	}
	g, err := DialGateway(ctx, f.HTTP, client.Options{URL: f.NATS, Creds: f.Creds, NKey: f.NKey, CA: f.TLSCA, User: f.User, Name: "tandem-gateway", Log: log},
		gateway.Options{Plan: f.Plan, Hosts: f.HTTPHost, Timeout: f.Timeout, Version: Version(), Log: log})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return g.Stop()
}

// DialGateway is [StartGateway] with a connection of its own, which ends with it.
func DialGateway(ctx context.Context, addr string, to client.Options, o gateway.Options) (*Gateway, error) {
	c, err := client.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	o.System = admin.New(c)
	g, err := StartGateway(ctx, addr, o)
	if err != nil {
		c.Close()
		return nil, err
	}
	g.close = c.Close
	o.Log.Info("the gateway answers; on this machine no token is needed", "url", "http://"+g.Addr(), "user", c.User())
	return g, nil
}

// Gateway is a gateway that answers.
type Gateway struct {
	listener net.Listener
	server   *http.Server
	done     chan error
	close    func() // of what is its own; nil if nothing is
}

// StartGateway has a gateway answer at an address of this machine.
func StartGateway(ctx context.Context, addr string, o gateway.Options) (*Gateway, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "http: %q is no address; want host:port, as 127.0.0.1:11500", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, jobs.Errorf(jobs.CodeInvalid, "http: %s is reached from other machines, and the gateway knows no tokens yet; listen on 127.0.0.1, behind a proxy that asks who comes", addr)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "http: %w; name another address with --http", err)
	}
	g := &Gateway{listener: listener, done: make(chan error, 1), server: &http.Server{
		Handler: gateway.New(o), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}
	go func() { g.done <- g.server.Serve(listener) }()
	return g, nil
}

// Addr is where it listens.
func (g *Gateway) Addr() string { return g.listener.Addr().String() }

// stopLimit is how long requests that are being answered may take when the gateway stops.
const stopLimit = 10 * time.Second

// Stop ends it, if there is one: requests under way get some seconds, then their jobs are cancelled.
func (g *Gateway) Stop() error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := g.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = g.server.Close()
	}
	if served := <-g.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if g.close != nil {
		g.close()
	}
	return err
}
