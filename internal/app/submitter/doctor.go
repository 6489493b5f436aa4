package submitter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/sanitize"
	"tandem/internal/units"
	"tandem/jobs"
)

// Bounds of what doctor calls well.
const (
	healthTimeout = 5 * time.Second
	skewLimit     = time.Second // deadlines compare the clocks of two machines
)

// doctorCmd checks the whole installation.
type doctorCmd struct {
	NoJob    bool          `name:"no-job" help:"Do not send a small job through each model."`
	Handover string        `name:"handover" placeholder:"MODEL" help:"Measure the hand-over of KV states between the machines that serve MODEL, and say which plan pays."`
	Tokens   []int         `default:"500,2000,8000" placeholder:"N,…" help:"Lengths of the prompts for --handover (default ${default})."`
	Timeout  time.Duration `default:"2m" placeholder:"TIME" help:"How long each such job may take (default ${default})."`

	HTTPTokenFile string `name:"http-token-file" env:"TANDEM_HTTP_TOKEN_FILE" type:"path" placeholder:"FILE" help:"File with the token that the workers' HTTP APIs ask for (the workers' --http-token-file)."`
}

// Help says what is checked.
func (doctorCmd) Help() string {
	return "Checks NATS, JetStream, the streams, every worker with its engine and clock, and sends a small job through each model. With --handover MODEL it sends prompts of several lengths instead, each once whole to the decode machine and once through prefill and hand-over, has states compared with what the decode machine computes by itself, and prints how far apart the engines' predictions are. Exit code 0: all well; 3: something to fix; 4: no NATS."
}

// finding is what one check came to.
type finding struct {
	Check  string `json:"check"`
	Level  string `json:"level"` // ok, warning or failed
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// The levels of findings.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelFailed  = "failed"
)

// examination collects findings, telling each as it comes.
type examination struct {
	session  *session
	token    string // for workers' HTTP APIs
	findings []finding
}

func (e *examination) add(level, check, detail, remedy string) {
	f := finding{check, level, detail, remedy}
	e.findings = append(e.findings, f)
	if e.session.JSON {
		return
	}
	sign := map[string]string{levelOK: "ok  ", levelWarning: "WARN", levelFailed: "FAIL"}[level]
	fmt.Fprintf(e.session.out, "%s  %s", sign, sanitize.Text(check))
	if detail != "" {
		fmt.Fprintf(e.session.out, ": %s", sanitize.Text(detail))
	}
	fmt.Fprintln(e.session.out)
	if remedy != "" {
		fmt.Fprintf(e.session.out, "      → %s\n", sanitize.Text(remedy))
	}
}

func (e *examination) ok(check, format string, args ...any) {
	e.add(levelOK, check, fmt.Sprintf(format, args...), "")
}

// failed reports whether some check failed.
func (e *examination) failed() bool {
	return slices.ContainsFunc(e.findings, func(f finding) bool { return f.Level == levelFailed })
}

// Run checks link by link.
func (c *doctorCmd) Run(ctx context.Context, s *session) error {
	token, err := app.ReadToken(c.HTTPTokenFile)
	if err != nil {
		return err
	}
	e := &examination{session: s, token: token}
	err = c.examine(ctx, e)
	if interrupted(ctx) {
		return app.ErrInterrupted
	}
	if err != nil {
		e.add(levelFailed, "NATS", err.Error(), "")
	}
	if s.JSON {
		if err := s.print(findings{e.findings}); err != nil {
			return err
		}
	}
	switch {
	case err != nil && jobs.CodeOf(err) == jobs.CodeNATS:
		return &app.ExitError{Code: app.ExitUnreachable}
	case e.failed():
		return &app.ExitError{Code: app.ExitDegraded}
	}
	return nil
}

// examine checks everything; an error is what kept it from going on.
func (c *doctorCmd) examine(ctx context.Context, e *examination) error {
	s := e.session
	if err := s.connect(ctx); err != nil {
		return err
	}
	o, err := s.client.Inspect(ctx)
	if err != nil {
		return err
	}
	e.ok("NATS", "%s at %s answers in %.1f ms; JetStream is on, max_payload %s", o.Server.Version, o.Server.URL, o.Server.RTTSeconds*1000, units.Bytes(uint64(o.Server.MaxPayload)))
	switch o.Server.Sync {
	case queue.SyncAlways:
		e.ok("durability", "every message is on the disk before it is acknowledged")
	case queue.SyncInterval:
		e.add(levelWarning, "durability", "the store is synced now and then only: a crash of the NATS machine loses acknowledged jobs", "set sync_interval: always in the jetstream part of the server's configuration")
	default:
		e.add(levelWarning, "durability", "the server does not tell this user whether acknowledged jobs are on the disk", "see that it has sync_interval: always in the jetstream part of its configuration")
	}
	faults := faultsOf(o)
	for _, f := range faults {
		e.add(levelFailed, "installation", f.What, f.Remedy)
	}
	if len(faults) == 0 {
		e.ok("streams", "all are there, configured as they should be")
	}
	for _, w := range o.Workers {
		checkWorker(ctx, e, w)
	}
	for p, d := range pairs(o) {
		if p.Check == nil || d.Check == nil || engine.Differ(p.Machine, p.Check, d.Machine, d.Check) != "" { // that is a fault of the installation
			continue
		}
		between, _, _ := engine.Between(p.Check, d.Check)
		e.ok("engines for "+p.Model, "%s and %s predict %.4f apart after the same %d prompts, each computed by itself; with and without its cache %.4f and %.4f; KV states are taken: %s",
			p.Machine, d.Machine, between, len(p.Check.Predictions), p.Check.Cached, d.Check.Cached, taken(p, d))
	}
	if c.Handover != "" {
		c.acceptance(ctx, e, c.Handover, o.Workers)
		return nil
	}
	if c.NoJob {
		return nil
	}
	for _, m := range o.Models {
		if serves(o, protocol.RoleDecode, m.Model) {
			embeds := slices.ContainsFunc(o.Workers, func(w queue.Presence) bool {
				return w.Model == m.Model && slices.Contains(w.Capabilities, jobs.CanEmbed) && !slices.Contains(w.Capabilities, jobs.CanComplete)
			})
			c.tryModel(ctx, e, m.Model, serves(o, protocol.RolePrefill, m.Model), embeds)
		}
	}
	return nil
}

// checkWorker looks at a worker's clock and asks its HTTP API how it is.
func checkWorker(ctx context.Context, e *examination, w admin.Presence) {
	check := fmt.Sprintf("%s worker on %s for %s", w.Role, w.Machine, w.Model)
	if w.State != admin.StateDown { // that one is a fault of the installation
		e.ok(check, "%s, %s %s, %d of %d slots busy", w.State, w.Engine, w.EngineVersion, w.Busy, w.Slots)
	}
	if skew := time.Duration(w.SkewSeconds * float64(time.Second)); skew.Abs() > skewLimit {
		e.add(levelWarning, check, fmt.Sprintf("its clock is %v off the NATS server's, and deadlines compare clocks", skew.Round(10*time.Millisecond)), "let NTP set the clocks of "+w.Machine+" and of the NATS machine")
	}
	if w.HTTP == "" {
		return
	}
	host, port, err := net.SplitHostPort(w.HTTP)
	if err != nil {
		e.add(levelFailed, check, "its HTTP address is "+w.HTTP, "give --http host:port")
		return
	}
	ip := net.ParseIP(host)
	if ip != nil && ip.IsUnspecified() { // it listens on all of its addresses
		host = w.Machine
	}
	address := net.JoinHostPort(host, port)
	switch status, err := askHealth(ctx, address, w, e.token); {
	case errors.Is(err, errToken) && e.token == "":
		e.add(levelWarning, check, fmt.Sprintf("http://%s/health asks for a token, and doctor has none", address), "give --http-token-file, with the token of the worker's")
	case errors.Is(err, errToken):
		e.add(levelFailed, check, fmt.Sprintf("http://%s/health refuses the token", address), "give doctor and the worker on "+w.Machine+" the same --http-token-file")
	case err == nil && status == http.StatusOK:
		e.ok(check, "http://%s/health says the same", address)
	case err == nil:
		e.add(levelFailed, check, fmt.Sprintf("http://%s/health answers with status %d", address, status), "see the worker's log on "+w.Machine)
	case ip != nil && ip.IsLoopback():
		e.ok(check, "its HTTP API is for its own machine only (%s)", w.HTTP)
	default:
		e.add(levelFailed, check, fmt.Sprintf("http://%s/health: %v", address, err), "see that the port is open between the machines, and that --http is an address of "+w.Machine)
	}
}

// errToken is the answer of a worker that wants another token.
var errToken = errors.New("it asks for a token")

// askHealth asks a worker's HTTP API for the status of its health. That another answers in its place,
// or nobody, or that it asks for another token is an error.
func askHealth(ctx context.Context, address string, w admin.Presence, token string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	direct := &http.Transport{DisableKeepAlives: true, DisableCompression: true} // without any proxy
	resp, err := direct.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.Header.Get("WWW-Authenticate") != "" {
		return resp.StatusCode, errToken
	}
	var health struct {
		Model   string     `json:"model"`
		Machine string     `json:"machine"`
		Role    jobs.Stage `json:"role"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&health); err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	if health.Model != w.Model || health.Machine != w.Machine || health.Role != w.Role {
		return 0, fmt.Errorf("another answers: %.60s worker on %.60s for %.60s", health.Role, health.Machine, health.Model)
	}
	return resp.StatusCode, nil
}

// tryModel sends a small job through a model, end to end; embeds says that the model makes embeddings only.
func (c *doctorCmd) tryModel(ctx context.Context, e *examination, model string, prefilled, embeds bool) {
	s := e.session
	wait, cancel := s.waitLimit(ctx, c.Timeout)
	defer cancel()
	greedy, tokens := 0.0, 8
	j := &jobs.Job{
		Model:  model,
		Prompt: "Say hello.", Options: jobs.Options{Temperature: &greedy, NumPredict: &tokens}, Plan: s.plan(""),
		Deadline: time.Now().UTC().Add(c.Timeout), Labels: map[string]string{"purpose": "doctor"},
	}
	if embeds {
		j.Prompt, j.Embed, j.Plan = "", &jobs.Embed{Input: []string{j.Prompt}}, jobs.PlanLocal
	}
	r, err := s.client.Run(wait, j)
	switch {
	case err != nil:
		e.add(levelFailed, "job for "+model, err.Error(), "see the logs of the model's workers")
	case r.Status != jobs.Succeeded:
		e.add(levelFailed, "job for "+model, problem(r), "see the logs of the model's workers")
	case r.Method == jobs.MethodFallback && prefilled:
		e.add(levelWarning, "job for "+model, r.Decision, "see the log of the model's prefill worker")
	default:
		e.ok("job for "+model, "%s", summary(r))
	}
}
