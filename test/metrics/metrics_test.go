// Package metrics reads the metrics of a whole system after real work, by our own eyes and by a real Prometheus with the rules and the dashboard
// of deploy/. It has no code, only the test.
package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/standin"
	"tandem/internal/telemetry"
	"tandem/jobs"
	"tandem/test/logs"
)

// secret stands in all prompts, and in no metric.
const secret = "what a student wrote"

func TestMetrics(t *testing.T) {
	said := &logs.Buffer{}
	door, targets := start(t, slog.New(slog.NewTextHandler(io.MultiWriter(said, t.Output()), nil)))
	p := startPrometheus(t, targets)
	p.sees(t, targets) // before anything happens: a rate is of what was added
	work(t, door, targets)
	texts := map[telemetry.Service]string{}
	for service, url := range targets {
		texts[service] = get(t, url)
	}
	t.Run("are those of the table", func(t *testing.T) {
		for service, text := range texts {
			compare(t, service, text)
		}
	})
	t.Run("logs", func(t *testing.T) {
		done := 0
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("a line holds a prompt: %s", line)
			}
			if strings.Contains(line, " job=") && !strings.Contains(line, "msg=request ") { // which is of the gateway: it knows of no attempts
				done++
				if !strings.Contains(line, " attempt=") {
					t.Errorf("a line about a job has no attempt: %s", line)
				}
			}
		}
		if done < 5 {
			t.Errorf("%d lines are about jobs, want one for each stage of each", done)
		}
	})
	t.Run("promtool", func(t *testing.T) {
		for service, text := range texts {
			run(t, ".", strings.NewReader(text), "promtool", "check", "metrics")
			if strings.Contains(text, secret) {
				t.Errorf("metrics of %s hold a prompt", service)
			}
		}
		const rules = "../../deploy/prometheus"
		run(t, rules, nil, "promtool", "check", "config", "prometheus.yml")
		run(t, rules, nil, "promtool", "check", "rules", "alerts.yml")
		run(t, rules, nil, "promtool", "test", "rules", "alerts_test.yml")
	})
	t.Run("prometheus", func(t *testing.T) { p.asked(t) })
}

// start starts a whole system, and returns where its gateway and its metrics are.
func start(t *testing.T, log *slog.Logger) (door string, targets map[telemetry.Service]string) {
	t.Helper()
	l, err := app.StartLocal(t.Context(), app.LocalOptions{Engine: app.LocalStandIn, Models: []string{standin.CodeModel}, Say: t.Logf, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.Dial(t.Context(), client.Options{URL: l.URL(), User: "program", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	system := admin.New(c)
	g, err := app.StartGateway(t.Context(), app.GatewayAddress{HTTP: "127.0.0.1:0", Metrics: "127.0.0.1:0"}, gateway.Options{System: system, Plan: jobs.PlanDisaggregated, Version: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	targets = map[telemetry.Service]string{telemetry.Gateway: g.MetricsURL()}
	eventually(t, "both engines are checked, so that states are handed over", func() error {
		workers, err := system.Workers(t.Context())
		for _, w := range workers {
			if w.Check == nil {
				return fmt.Errorf("the one of %s is not", w.Role)
			}
			targets[telemetry.Service(w.Role)] = "http://" + w.HTTP + "/metrics"
		}
		return err
	})
	return g.URL(), targets
}

// work has jobs of each kind done, of which some end at prefill and some have their KV states handed over.
func work(t *testing.T, door string, targets map[telemetry.Service]string) {
	t.Helper()
	for _, url := range targets {
		get(t, strings.Replace(url, "/metrics", "/health", 1)) // which workers count
	}
	prompt := strings.Repeat(secret+" in its notebook. ", 40)
	for path, body := range map[string]string{
		"/prefill":             fmt.Sprintf(`{"model": %q, "prompt": %q}`, standin.CodeModel, "0 "+prompt),
		"/api/generate":        fmt.Sprintf(`{"model": %q, "prompt": %q, "stream": false, "options": {"num_predict": 8}}`, standin.CodeModel, "1 "+prompt),
		"/v1/chat/completions": fmt.Sprintf(`{"model": %q, "stream": true, "max_tokens": 8, "messages": [{"role": "user", "content": %q}]}`, standin.CodeModel, "2 "+prompt),
	} {
		resp, err := http.Post(door+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s, %v", path, resp.Status, answer, err)
		}
	}
	eventually(t, "the KV states are counted", func() error {
		text := get(t, targets[telemetry.Decode])
		for _, want := range []string{`tandem_handovers_total{model="qwen3-coder:30b",outcome="used",role="decode"} 2`, `tandem_jobs_total{method="disaggregated",model="qwen3-coder:30b",outcome="succeeded",role="decode"} 2`} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no %s", want)
			}
		}
		return nil
	})
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	suffix     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// compare holds what a service says to the table: all of its metrics are there, no other, and no label or value that the table has not.
func compare(t *testing.T, service telemetry.Service, text string) {
	t.Helper()
	table, want, have := map[string]telemetry.Metric{}, map[string]string{}, map[string]string{}
	for _, m := range telemetry.Metrics() {
		if slices.Contains(m.At, service) {
			table[m.Name], want[m.Name] = m, string(m.Kind)
		}
	}
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[1], "go_") && !strings.HasPrefix(m[1], "process_") {
			have[m[1]] = m[2]
		}
	}
	if !maps.Equal(have, want) {
		t.Errorf("%s has metrics\n%v\nand the table\n%v", service, have, want)
	}
	for _, sample := range sampleLine.FindAllStringSubmatch(text, -1) {
		m, known := table[sample[1]]
		if !known {
			m, known = table[suffix.ReplaceAllString(sample[1], "")]
		}
		if !known {
			continue // Go's own, or it was found above
		}
		allowed := map[string][]string{}
		for name, value := range m.Always(service, standin.CodeModel) {
			allowed[name] = []string{value}
		}
		for _, l := range m.Labels {
			allowed[l.Name] = append(slices.Clone(l.Values), "other")
		}
		for _, l := range labelPair.FindAllStringSubmatch(sample[2], -1) {
			values, there := allowed[l[1]]
			open := slices.ContainsFunc(m.Labels, func(of telemetry.Label) bool { return of.Name == l[1] && of.Values == nil })
			if l[1] != "le" && (!there || !open && !slices.Contains(values, l[2])) {
				t.Errorf("%s of %s has the label %s, which the table has not", sample[1], service, l[0])
			}
		}
	}
}

// run runs a program, which must succeed.
func run(t *testing.T, dir string, stdin io.Reader, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s\n(tools/needs.sh prometheus promtool installs them)", cmd, err, out)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, look func() error) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := look()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
