package metrics

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"tandem/internal/telemetry"
)

// quiet are the panels that show nothing as long as nothing goes wrong.
var quiet = []string{"Jobs that ended with an error, per minute", "Deliveries that were not the first"}

// prometheus is a real one.
type prometheus struct{ url string }

// startPrometheus has one read the targets, by the configuration and the rules of deploy/, but sooner and at other addresses.
func startPrometheus(t *testing.T, targets map[telemetry.Service]string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := read(t, "prometheus/prometheus.yml")
	address := func(s telemetry.Service) string {
		return strings.TrimSuffix(strings.TrimPrefix(targets[s], "http://"), "/metrics")
	}
	for old, now := range map[string]string{
		"15s":                      "200ms",
		"169.254.150.103:8000":     address(telemetry.Prefill),
		`, "169.254.150.104:8000"`: "",
		`"169.254.150.101:8001", `: "",
		"169.254.150.102:8001":     address(telemetry.Decode),
		"127.0.0.1:9464":           address(telemetry.Gateway),
	} {
		if !strings.Contains(config, old) {
			t.Fatalf("deploy/prometheus/prometheus.yml has no %s", old)
		}
		config = strings.ReplaceAll(config, old, now)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(read(t, "prometheus/alerts.yml")), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%v (tools/needs.sh prometheus promtool installs it)", err)
	}
	found, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		listening := regexp.MustCompile(`Listening on"? address=(\S+)`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil && len(found) == 0 {
				found <- "http://" + m[1]
			}
		}
	}()
	t.Cleanup(func() {
		<-ended
		_ = cmd.Wait() // that it was told to end is no news
	})
	select {
	case at := <-found:
		return &prometheus{at}
	case <-ended:
		t.Fatal("prometheus ended")
	case <-time.After(time.Minute):
		t.Fatal("prometheus does not say where it listens")
	}
	return nil
}

// ask sends a request to its HTTP API, and reads the data of the answer.
func (p *prometheus) ask(t *testing.T, path string, query url.Values, data any) error {
	t.Helper()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(get(t, p.url+path+"?"+query.Encode())), &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", query.Get("query"), answer.Error)
	}
	return nil
}

// sees waits until it has read all targets.
func (p *prometheus) sees(t *testing.T, targets map[telemetry.Service]string) {
	t.Helper()
	eventually(t, "prometheus reads all services", func() error {
		var data struct{ Result []any }
		err := p.ask(t, "/api/v1/query", url.Values{"query": {"up == 1"}}, &data)
		if err == nil && len(data.Result) != len(targets) {
			err = fmt.Errorf("it has read %d", len(data.Result))
		}
		return err
	})
}

// asked has each query of the dashboard and of the rules answered.
func (p *prometheus) asked(t *testing.T) {
	named := regexp.MustCompile(`\b(tandem|gen_ai)_\w+_\w+`)
	labels := []string{"gen_ai_request_model", "gen_ai_token_type"}
	known := func(query string) {
		for _, name := range named.FindAllString(query, -1) {
			is := func(m telemetry.Metric) bool { return m.Name == name || m.Name == suffix.ReplaceAllString(name, "") }
			if !slices.Contains(labels, name) && !slices.ContainsFunc(telemetry.Metrics(), is) {
				t.Errorf("a query names %s, which is no metric: %s", name, query)
			}
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/tandem.json")), &board); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			known(target.Expr)
			query := strings.NewReplacer("$model", ".*", "$__rate_interval", "1m").Replace(target.Expr)
			eventually(t, panel.Title+": "+query, func() error {
				var data struct{ Result []any }
				if err := p.ask(t, "/api/v1/query", url.Values{"query": {query}}, &data); err != nil {
					return err
				}
				if len(data.Result) == 0 && !slices.Contains(quiet, panel.Title) {
					return errors.New("there is nothing to show")
				}
				return nil
			})
			asked++
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/alerts.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	var loaded struct {
		Groups []struct {
			Rules []struct{ Name, Health, State, LastError string }
		}
	}
	eventually(t, "the rules are evaluated", func() error {
		if err := p.ask(t, "/api/v1/rules", nil, &loaded); err != nil {
			return err
		}
		for _, g := range loaded.Groups {
			for _, r := range g.Rules {
				if r.Health != "ok" {
					return fmt.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		return nil
	})
	for i, r := range rules.Groups[0].Rules {
		known(r.Expr)
		if got := loaded.Groups[0].Rules[i]; got.Name != r.Alert || got.State != "inactive" {
			t.Errorf("rule %s is loaded as %s and %s; nothing is wrong here", r.Alert, got.Name, got.State)
		}
	}
	if asked < 40 || len(rules.Groups[0].Rules) < 10 {
		t.Errorf("%d queries and %d rules: are they read as they should be?", asked, len(rules.Groups[0].Rules))
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
