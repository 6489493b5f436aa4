package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/access"
	"tandem/internal/console"
	"tandem/internal/gateway"
	"tandem/internal/grading"
	"tandem/internal/people"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/telemetry"
	"tandem/jobs"
)

// GatewayFlags are the settings of a gateway.
type GatewayFlags struct {
	HTTP        string        `name:"http" default:"127.0.0.1:11500" env:"TANDEM_GATEWAY_HTTP" placeholder:"ADDR" help:"Where to listen (default ${default}). An address that other machines reach needs --tokens and --tls-cert."`
	HTTPHost    []string      `name:"http-host" env:"TANDEM_GATEWAY_HTTP_HOST" placeholder:"NAME" help:"Name under which it may be asked, beside IP addresses and localhost; may be repeated."`
	Tokens      string        `type:"path" env:"TANDEM_GATEWAY_TOKENS" placeholder:"FILE" help:"Who may ask: the file that gateway token add writes. Read again when it changes. Without it everybody may who reaches the address, as --user."`
	TLSCert     string        `name:"tls-cert" type:"path" env:"TANDEM_GATEWAY_TLS_CERT" placeholder:"FILE" help:"Certificate, with those above it, to answer over TLS."`
	TLSKey      string        `name:"tls-key" type:"path" env:"TANDEM_GATEWAY_TLS_KEY" placeholder:"FILE" help:"Its key."`
	Timeout     time.Duration `default:"30m" env:"TANDEM_GATEWAY_TIMEOUT" placeholder:"TIME" help:"How long a request may wait for its answer (default ${default}); its job is cancelled then."`
	Plan        jobs.Plan     `enum:",disaggregated,local,auto" default:"auto" env:"TANDEM_GATEWAY_PLAN" placeholder:"PLAN" help:"auto (default), what is fastest; disaggregated; or local. The header Tandem-Plan names another."`
	ConsoleRole people.Role   `name:"console-role" enum:",viewer,grader,operator" default:"" env:"TANDEM_GATEWAY_CONSOLE_ROLE" placeholder:"ROLE" help:"What anybody may do in the console at most: viewer, look only; grader, something about jobs of the own user; operator, about those of all. Default: with --tokens what the token says, without them grader."`
	Grading     string        `type:"path" env:"TANDEM_GATEWAY_GRADING" placeholder:"DIR" help:"Folder in which the console keeps and grades classes, readable by you only; no class is graded there without it."`
	NATS        GatewayNATS   `embed:""`

	Metrics      string `env:"TANDEM_GATEWAY_METRICS" placeholder:"ADDR" help:"Where Prometheus reads metrics, as 127.0.0.1:9464, at /metrics; nowhere without it. An address that other machines reach needs --metrics-token-file."`
	MetricsToken string `name:"metrics-token-file" type:"path" env:"TANDEM_GATEWAY_METRICS_TOKEN_FILE" placeholder:"FILE" help:"File with a token that whoever reads them must have, as Authorization: Bearer TOKEN."`
	Pprof        string `env:"TANDEM_GATEWAY_PPROF" placeholder:"ADDR" help:"Where Go's profiler finds this program, as 127.0.0.1:6060, on this machine only; nowhere without it."`

	LogFormat   string          `name:"log-format" env:"TANDEM_LOG_FORMAT" enum:"auto,text,json" default:"auto" placeholder:"FORMAT" help:"Log as text or json; auto is text on a terminal."`
	LogLevel    slog.Level      `name:"log-level" env:"TANDEM_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info (default), warn or error."`
	Config      kong.ConfigFlag `env:"TANDEM_CONFIG" placeholder:"FILE" help:"YAML file with any of these settings."`
	PrintConfig bool            `name:"print-config" help:"Print the settings as a YAML file, and exit."`
}

// GatewayNATS says how a gateway reaches NATS.
type GatewayNATS struct {
	URL   string `name:"nats" env:"TANDEM_NATS" placeholder:"URL" help:"NATS server, several separated by commas (default ${nats})."`
	Creds string `env:"TANDEM_CREDS" placeholder:"FILE" help:"NATS credentials."`
	NKey  string `name:"nkey" env:"TANDEM_NKEY" placeholder:"FILE" help:"NATS nkey seed: gateway.nk of submitter admin secure, or without --tokens a grader's."`
	TLSCA string `name:"tls-ca" env:"TANDEM_TLS_CA" placeholder:"FILE" help:"Certificate authority of the NATS server."`
	User  string `env:"TANDEM_USER" placeholder:"NAME" help:"Whose jobs these are without --tokens (default: as the nkey file says, else the login name)."`
}

func (n GatewayNATS) options(log *slog.Logger) client.Options {
	return client.Options{URL: n.URL, Creds: n.Creds, NKey: n.NKey, CA: n.TLSCA, User: n.User, Name: gatewayName, Log: log}
}

const gatewayName = "tandem-gateway"

// gatewayCLI is the command line.
type gatewayCLI struct {
	Serve   GatewayFlags     `cmd:"" default:"withargs" help:"Answer requests, until it is stopped; what gateway does without a command."`
	Token   gatewayTokenCmd  `cmd:"" help:"Who may ask: add, list or revoke a token."`
	Usage   gatewayUsageCmd  `cmd:"" help:"Print what each token used, by day."`
	Version kong.VersionFlag `name:"version" help:"Print the version."`
}

// GatewayMain is the command gateway; it returns the exit code.
func GatewayMain(args []string, stdout, stderr io.Writer) int {
	const name = "gateway"
	var cli gatewayCLI
	exited := -1
	parser, err := kong.New(&cli, kong.Name(name), kong.Description("Answers programs that speak Ollama's or OpenAI's API: each request becomes a job of the pipeline."), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }), kong.Configuration(YAMLFile), kong.Vars{"nats": queue.DefaultURL, "version": VersionLine(name)})
	if err != nil {
		panic(err) // the flags themselves are wrong: a bug
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // --help or --version said all
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\nTry %s --help.\n", name, protocol.RedactText(err.Error()), name)
		return ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch parsed.Command() {
	case "token add <name>":
		err = cli.Token.Add.run(stdout, stderr)
	case "token list":
		err = cli.Token.List.run(stdout)
	case "token revoke <name>":
		err = gateway.RevokeToken(cli.Token.Revoke.Tokens, cli.Token.Revoke.Name)
	case "usage":
		err = cli.Usage.run(ctx, stdout)
	default:
		if cli.Serve.PrintConfig {
			err = PrintConfig(stdout, parsed)
			break
		}
		err = runGateway(ctx, cli.Serve, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return ExitCode(err)
}

// gatewayTokenCmd is gateway token.
type gatewayTokenCmd struct {
	Add    tokenAdd    `cmd:"" help:"Make a token, and print it: this once."`
	List   tokenList   `cmd:"" help:"List who may ask, and how much."`
	Revoke tokenRevoke `cmd:"" help:"Remove a token; gateways that run refuse it within a second."`
}

type tokensFlag struct {
	Tokens string `type:"path" default:"tokens.json" env:"TANDEM_GATEWAY_TOKENS" placeholder:"FILE" help:"The file (default ${default})."`
}

type tokenAdd struct {
	Name       string      `arg:"" help:"What it is called in lists, logs and usage."`
	User       string      `placeholder:"NAME" help:"Whose jobs these are (default: the token's name)."`
	Model      []string    `placeholder:"MODEL" help:"Model that may be asked; may be repeated. All, if there is none."`
	Class      jobs.Class  `enum:",interactive,batch" default:"" placeholder:"CLASS" help:"batch: no job goes before those of others. interactive (default): each says what it is."`
	PerMinute  int         `name:"requests-per-minute" placeholder:"N" help:"Requests a minute at most."`
	PerDay     int64       `name:"tokens-per-day" placeholder:"N" help:"Tokens a day at most, of prompts and answers."`
	Concurrent int         `placeholder:"N" help:"Requests at the same time at most (default 100)."`
	Role       people.Role `enum:",viewer,grader,operator" default:"" placeholder:"ROLE" help:"In the console: viewer sees what goes on; grader grades, and does what there is to do about jobs of its own user; operator about those of all. Without it the token is for programs alone."`
	tokensFlag
}

func (c *tokenAdd) run(stdout, stderr io.Writer) error {
	secret, err := gateway.AddToken(c.Tokens, gateway.Token{
		Name: c.Name, User: cmp.Or(c.User, c.Name), Models: c.Model, Class: c.Class, PerMinute: c.PerMinute, PerDay: c.PerDay, Concurrent: c.Concurrent, Role: c.Role,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s has its hash. This is shown once; send it as Authorization: Bearer …, or give it to an OpenAI SDK as its key:\n", c.Tokens)
	_, err = fmt.Fprintln(stdout, secret)
	return err
}

type tokenList struct {
	tokensFlag
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *tokenList) run(stdout io.Writer) error {
	list, err := gateway.ReadTokens(c.Tokens)
	if err != nil {
		return err
	}
	if c.JSON {
		out := json.NewEncoder(stdout)
		for _, t := range list {
			if err := out.Encode(t); err != nil {
				return err
			}
		}
		return nil
	}
	limit := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tUSER\tMODELS\tCLASS\tA MINUTE\tTOKENS A DAY\tAT ONCE\tROLE\tCREATED")
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Name, t.User, cmp.Or(strings.Join(t.Models, ","), "all"), cmp.Or(string(t.Class), "any"),
			limit(int64(t.PerMinute)), limit(t.PerDay), limit(int64(t.Concurrent)), cmp.Or(string(t.Role), "-"), t.Created.Format(time.DateOnly))
	}
	return w.Flush()
}

type tokenRevoke struct {
	Name string `arg:"" help:"As gateway token list shows it."`
	tokensFlag
}

// gatewayUsageCmd is gateway usage.
type gatewayUsageCmd struct {
	From string      `placeholder:"DAY" help:"First day, as 2026-11-23."`
	To   string      `placeholder:"DAY" help:"Last day."`
	CSV  bool        `name:"csv" help:"Print CSV."`
	NATS GatewayNATS `embed:""`
}

func (c *gatewayUsageCmd) run(ctx context.Context, stdout io.Writer) error {
	for flag, day := range map[string]string{"--from": c.From, "--to": c.To} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return jobs.Errorf(jobs.CodeInvalid, "%s is %.40q; want a day, as 2026-11-23", flag, day)
		}
	}
	c.NATS.User = access.GatewayInbox
	to, err := client.Dial(ctx, c.NATS.options(nil))
	if err != nil {
		return err
	}
	defer to.Close()
	kv, err := gateway.OpenUsage(ctx, admin.New(to).JetStream())
	if err != nil {
		return err
	}
	list, err := gateway.ListUsage(ctx, kv, c.From, c.To)
	if err != nil {
		return err
	}
	rows := [][]string{{"day", "token", "user", "requests", "failed", "prompt_tokens", "cached_tokens", "generated_tokens"}}
	for _, u := range list {
		row := []string{u.Day, u.Token, u.User}
		for _, n := range []int64{u.Requests, u.Failed, u.Prompt, u.Cached, u.Generated} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	if c.CSV {
		return csv.NewWriter(stdout).WriteAll(rows)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for i, row := range rows {
		line := strings.Join(row, "\t")
		if i == 0 {
			line = strings.ToUpper(strings.ReplaceAll(line, "_", " "))
		}
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// runGateway answers requests until ctx ends.
func runGateway(ctx context.Context, f GatewayFlags, stderr io.Writer) error {
	log, err := telemetry.NewLogger(stderr, f.LogFormat, f.LogLevel)
	if err != nil {
		return err
	}
	defer telemetry.StartTraces("gateway", Version(), log)()
	if f.Tokens != "" {
		f.NATS.User = access.GatewayInbox // its own jobs are nobody's; each token's are of the token's user
	}
	at := GatewayAddress{HTTP: f.HTTP, TLSCert: f.TLSCert, TLSKey: f.TLSKey, Metrics: f.Metrics, Pprof: f.Pprof, Grading: f.Grading}
	if at.MetricsToken, err = readSecret("metrics-token-file", f.MetricsToken, minToken); err != nil {
		return err
	}
	g, err := DialGateway(ctx, at, f.NATS.options(log), "", gateway.Options{Tokens: f.Tokens, Plan: f.Plan, Hosts: f.HTTPHost, Timeout: f.Timeout, MostRole: f.ConsoleRole, Version: Version(), Log: log})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return g.Stop()
}

// DialGateway is [StartGateway] with a connection of its own, which ends with it. Jobs without a token are those of the connection's user, or of another one.
func DialGateway(ctx context.Context, at GatewayAddress, to client.Options, user string, o gateway.Options) (*Gateway, error) {
	c, err := client.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	if o.System = admin.New(c); user != "" {
		o.System = o.System.For(user)
	}
	g, err := StartGateway(ctx, at, o)
	if err != nil {
		c.Close()
		return nil, err
	}
	g.close = c.Close
	if o.Tokens == "" {
		o.Log.Info("the gateway answers; no token is needed, on this machine", "url", g.URL(), "console", g.URL()+"/console/", "user", o.System.User())
	} else {
		o.Log.Info("the gateway answers those who have a token", "url", g.URL())
	}
	return g, nil
}

// GatewayAddress is where a gateway answers, over TLS if there is a certificate.
type GatewayAddress struct {
	HTTP            string // host:port
	TLSCert, TLSKey string // files
	Metrics         string // host:port, for Prometheus; "" for none
	MetricsToken    string // that Prometheus must have; "" for none
	Pprof           string // host:port of this machine alone, for Go's profiler; "" for none
	Grading         string // folder in which the console grades classes; "" for none
	Notice          string // for their reports: what a reader must know of the models
}

// Gateway is a gateway that answers.
type Gateway struct {
	listener net.Listener
	tls      bool
	server   *http.Server
	gateway  *gateway.Gateway
	console  *console.Console
	grading  *grading.Desk // nil if there is none
	metrics  *aside        // nil if there is none
	pprof    *aside        // likewise
	done     chan error
	close    func() // of what is its own; nil if nothing is
}

// StartGateway has a gateway answer at an address. One that other machines reach needs tokens and TLS.
func StartGateway(ctx context.Context, at GatewayAddress, o gateway.Options) (*Gateway, error) {
	if _, _, err := net.SplitHostPort(at.HTTP); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "http: %q is no address; want host:port, as 127.0.0.1:11500", at.HTTP)
	}
	if (at.TLSCert == "") != (at.TLSKey == "") {
		return nil, jobs.Errorf(jobs.CodeInvalid, "--tls-cert is %q and --tls-key %q; want both or none", at.TLSCert, at.TLSKey)
	}
	if !isLoopback(at.HTTP) && (o.Tokens == "" || at.TLSCert == "") {
		return nil, jobs.Errorf(jobs.CodeInvalid, "http: %s is reached from other machines; say who may ask, with --tokens, and answer over TLS, with --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy that does", at.HTTP)
	}
	var secure *tls.Config
	if at.TLSCert != "" {
		certificate, err := tls.LoadX509KeyPair(at.TLSCert, at.TLSKey)
		if err != nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, "--tls-cert %s, --tls-key %s: %w", at.TLSCert, at.TLSKey, err)
		}
		secure = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.HTTP)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "http: %w; name another address with --http", err)
	}
	counts := telemetry.NewGateway(Version())
	o.Observe = counts
	metrics, err := startAside(ctx, asideOptions{"metrics", at.Metrics, o.Hosts, at.MetricsToken, o.Log}, onlyMetrics(counts.Handler()))
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	pprof, err := startAside(ctx, asideOptions{Setting: "pprof", Addr: at.Pprof, Log: o.Log}, profiles())
	if err != nil {
		_ = errors.Join(listener.Close(), metrics.stop())
		return nil, err
	}
	var desk *grading.Desk
	if at.Grading != "" {
		if desk, err = grading.OpenDesk(grading.Options{Dir: at.Grading, System: o.System, Plan: o.Plan, Notice: at.Notice}); err != nil {
			_ = errors.Join(listener.Close(), metrics.stop(), pprof.stop())
			return nil, err
		}
	}
	about := console.Options{System: o.System, Version: o.Version, Grading: desk, Log: o.Log}
	if o.Tokens != "" {
		about.UsedBy = usedBy(o.System)
	}
	pages := console.New(about)
	o.Console = pages
	handler, err := gateway.New(ctx, o)
	if err != nil {
		pages.Close()
		_ = errors.Join(listener.Close(), metrics.stop(), pprof.stop(), desk.Close())
		return nil, err
	}
	g := &Gateway{listener: listener, tls: secure != nil, gateway: handler, console: pages, grading: desk, metrics: metrics, pprof: pprof, done: make(chan error, 1), server: &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, TLSConfig: secure,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}
	go func() {
		if g.tls {
			g.done <- g.server.ServeTLS(listener, "", "")
		} else {
			g.done <- g.server.Serve(listener)
		}
	}()
	return g, nil
}

// usedBy has the console read what the gateways of a queue count.
func usedBy(system *admin.Client) func(context.Context, string) ([]console.Usage, error) {
	return func(ctx context.Context, from string) (list []console.Usage, err error) {
		kv, err := gateway.OpenUsage(ctx, system.JetStream())
		if err != nil {
			return nil, err
		}
		used, err := gateway.ListUsage(ctx, kv, from, "")
		for _, u := range used {
			list = append(list, console.Usage(u))
		}
		return list, err
	}
}

// URL is where it answers.
func (g *Gateway) URL() string {
	scheme := "http"
	if g.tls {
		scheme = "https"
	}
	return scheme + "://" + g.listener.Addr().String()
}

// MetricsURL is where Prometheus reads its metrics, if it does.
func (g *Gateway) MetricsURL() string { return "http://" + g.metrics.addr + "/metrics" }

// ProfilesURL is where Go's profiler finds it, if it does.
func (g *Gateway) ProfilesURL() string { return "http://" + g.pprof.addr + "/debug/pprof/" }

// stopLimit is how long requests that are being answered may take when the gateway stops.
const stopLimit = 10 * time.Second

// Stop ends it, if there is one: requests under way get some seconds, then their jobs are cancelled.
func (g *Gateway) Stop() error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	g.console.Close() // or its pages would wait for news
	err := g.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = g.server.Close()
	}
	if served := <-g.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	g.gateway.Close()
	err = errors.Join(err, g.metrics.stop(), g.pprof.stop(), g.grading.Close())
	if g.close != nil {
		g.close()
	}
	return err
}
