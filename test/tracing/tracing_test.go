// Package tracing reads whole traces back, as a collector gets them of the real programs, each a process of its own. It has no code, only the test.
package tracing

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/jobs"
	"tandem/test/rig/host"
)

const (
	model  = standin.CodeModel
	user   = "kwyjibo-grader" // of all jobs
	secret = "zyzzyva wrote this"
)

// programs are the real ones.
var programs *host.Programs

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "tandem-tracing-")
	if err == nil {
		info, _ := debug.ReadBuildInfo()
		programs, err = host.Build(context.Background(), dir, host.BuildOptions{
			Race: slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}), Only: []string{"gateway", "submitter", "prefill-worker", "decode-worker"},
		})
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// system is a NATS server with programs around it.
type system struct {
	t    *testing.T
	url  string
	env  []string
	nc   *nats.Conn
	seen *admin.Client
}

// newSystem starts a NATS server. The programs have the variables given.
func newSystem(t *testing.T, env ...string) *system {
	t.Helper()
	url := natstest.Start(t, natsembed.Options{}).URL()
	home := t.TempDir()
	s := &system{t: t, url: url, env: append(env, "HOME="+home, "XDG_CACHE_HOME="+home, "TANDEM_NATS="+url, "TANDEM_USER="+user, "TANDEM_LOG_FORMAT=json", "TANDEM_MEASURE=never")}
	var err error
	if s.nc, err = nats.Connect(url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.nc.Close)
	c, err := client.Dial(t.Context(), client.Options{URL: url, User: user})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s.seen = admin.New(c)
	return s
}

// start starts a program that ends with the test.
func (s *system) start(name string, args ...string) *host.Process {
	s.t.Helper()
	p, err := host.Start(host.Spec{Name: name, Program: programs.Path(name), Args: args, Env: s.env})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.Kill()
		if out := p.Output(); s.t.Failed() || strings.Contains(out, "DATA RACE") || strings.Contains(out, "panic:") {
			s.t.Errorf("%s printed:\n%s", name, out)
		}
	})
	return p
}

// workers starts one of each role, with the engines that the flags name, and waits until both take jobs.
func (s *system) workers(flags func(role jobs.Stage) []string, ready func(queue.Presence) bool) (started []*host.Process) {
	s.t.Helper()
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		started = append(started, s.start(string(role)+"-worker", append([]string{"--model", model, "--machine", string(role), "--http", "127.0.0.1:0", "--num-ctx", "4096"}, flags(role)...)...))
	}
	s.eventually("both workers are ready", func() error {
		workers, err := s.seen.Workers(s.t.Context())
		if workers = slices.DeleteFunc(workers, func(w queue.Presence) bool { return !ready(w) }); len(workers) < 2 {
			err = cmp.Or(err, fmt.Errorf("%d are", len(workers)))
		}
		return err
	})
	return started
}

// realWorkers have llama-servers between which KV states move.
func (s *system) realWorkers() {
	s.t.Helper()
	program, file := standintest.Engines(s.t).LlamaServer, standintest.ModelFile(s.t, standin.Models()[model])
	s.workers(func(jobs.Stage) []string {
		return []string{"--engine", "llamacpp", "--llama-server", program, "--model-file", file, "--state-dir", s.t.TempDir()}
	}, func(w queue.Presence) bool { return w.Check != nil })
}

// fakeWorkers have engines that are fake.
func (s *system) fakeWorkers() []*host.Process {
	s.t.Helper()
	return s.workers(func(jobs.Stage) []string {
		return []string{"--engine-url", ollamatest.Start(s.t, ollamatest.Options{Model: model}).URL()}
	}, func(queue.Presence) bool { return true })
}

// gateway starts one and returns its URL.
func (s *system) gateway() string {
	s.t.Helper()
	p := s.start("gateway", "--http", "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	if err := p.Says(ctx, `"console":`); err != nil {
		s.t.Fatal(err)
	}
	return regexp.MustCompile(`"url":"([^"]+)"`).FindStringSubmatch(p.Output())[1]
}

// ask has a gateway answer a chat, and returns the text.
func (s *system) ask(door string, header http.Header) string {
	s.t.Helper()
	body := fmt.Sprintf(`{"model": %q, "max_tokens": 24, "temperature": 0, "messages": [{"role": "user", "content": %q}]}`, model, prompt("asked"))
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, door+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	header.Set("Content-Type", "application/json")
	header.Set("Tandem-Plan", "disaggregated")
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err != nil || json.Unmarshal(data, &answer) != nil || len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" {
		s.t.Fatalf("%s: %s, %v", resp.Status, data, err)
	}
	return answer.Choices[0].Message.Content
}

// prompt is long enough for a KV state.
func prompt(first string) string { return first + strings.Repeat(" "+secret+" in its notebook.", 40) }

// submit has the submitter run a job, and returns its result.
func (s *system) submit() *jobs.Result {
	s.t.Helper()
	p := s.start("submitter", "submit", "--json", "--quiet", "--model", model, "--plan", "disaggregated", "--temperature", "0", "--num-predict", "24", prompt("submitted"))
	s.exits(p)
	return s.result(regexp.MustCompile(`"job_id":"([^"]+)"`).FindStringSubmatch(p.Output())[1])
}

// exits waits for the end of a program, which must be a good one.
func (s *system) exits(p *host.Process) {
	s.t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(limit):
		s.t.Fatalf("%s does not end", p.Name())
	}
	if p.Code() != 0 {
		s.t.Fatalf("%s: exit code %d", p.Name(), p.Code())
	}
}

// result is that of a job, which succeeded on two machines.
func (s *system) result(id string) *jobs.Result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	r, err := s.seen.Await(ctx, id)
	if err != nil || r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated {
		s.t.Fatalf("result %+v, %v", r, err)
	}
	return r
}

// publish puts a job into the intake as a program of others would, with one header more.
func (s *system) publish(header, value string) (id string) {
	s.t.Helper()
	few := 24
	j := &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: user, Batch: jobs.SingleBatch, Class: jobs.Interactive, Model: model, Prompt: prompt("published"),
		Options: jobs.Options{NumPredict: &few}, SubmittedAt: time.Now(),
	}
	data, err := jobs.Encode(j)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.nc.RequestMsg(&nats.Msg{Subject: protocol.SubjectOf(j, jobs.StagePrefill), Data: data, Header: nats.Header{header: []string{value}}}, limit)
	if err != nil {
		s.t.Fatal(err)
	}
	return j.ID
}

// eventually asks until there is no error.
func (s *system) eventually(what string, check func() error) {
	s.t.Helper()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(limit)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("did not happen: %s: %v", what, err)
		}
	}
}

// What a worker of each role adds to a trace, below the publishing of the job.
const handedOver = `
tandem-prefill-worker CONSUMER process INTAKE
  tandem-prefill-worker CLIENT prefill
  tandem-prefill-worker INTERNAL save
  tandem-prefill-worker PRODUCER publish RELAY
    tandem-decode-worker CONSUMER process RELAY
      tandem-decode-worker INTERNAL fetch
      tandem-decode-worker INTERNAL restore
      tandem-decode-worker CLIENT %[1]s qwen3-coder:30b
      tandem-decode-worker PRODUCER publish RESULTS
`

// below is handedOver under other spans.
func below(operation string, parents ...string) string {
	all, indent := "", ""
	for _, p := range parents {
		all += indent + p + "\n"
		indent += "  "
	}
	for line := range strings.Lines(strings.TrimPrefix(fmt.Sprintf(handedOver, operation), "\n")) {
		all += indent + line
	}
	return all
}

func TestTrace(t *testing.T) {
	c := startCollector(t)
	s := newSystem(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_BSP_SCHEDULE_DELAY=20")
	s.realWorkers()

	t.Run("of a request to the gateway, in the trace of who asked", func(t *testing.T) {
		s.t = t
		const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		said := s.ask(s.gateway(), http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}, "Tracestate": {"vendor=1"}})
		spans := c.await(t, trace, 12)
		want := below("chat", "tandem-gateway SERVER POST /v1/chat/completions", "tandem-gateway INTERNAL run job", "tandem-gateway PRODUCER publish INTAKE")
		if got := tree(spans); got != want {
			t.Errorf("the trace is\n%swant\n%s", got, want)
		}
		if spans[0].parent() != parent {
			t.Errorf("the parent of the first span is %s", spans[0].parent())
		}
		inTime(t, spans)
		processes := map[string]string{}
		for _, s := range spans {
			if before, there := processes[s.service]; there && before != s.instance || s.instance == "" || s.TraceState != "vendor=1" {
				t.Errorf("%s is of %s, instance %q and %q; state %q", s.Name, s.service, s.instance, before, s.TraceState)
			}
			processes[s.service] = s.instance
		}
		if len(processes) != 3 || len(slices.Compact(slices.Sorted(maps.Values(processes)))) != 3 {
			t.Errorf("processes: %v", processes)
		}
		attributes(t, spans)
		c.holdsNone(t, secret, user, said, "notebook")
	})
	t.Run("of a submitter", func(t *testing.T) {
		s.t = t
		r := s.submit()
		root := c.awaitOf(t, 1, func(s span) bool { return s.service == "tandem-submitter" && s.Name == "run job" })[0]
		spans := c.await(t, root.trace(), 11)
		if got, want := tree(spans), below("text_completion", "tandem-submitter INTERNAL run job", "tandem-submitter PRODUCER publish INTAKE"); got != want {
			t.Errorf("the trace is\n%swant\n%s", got, want)
		}
		if root.parent() != "" || root.attribute("tandem.job.id") != r.JobID || root.attribute("tandem.status") != "succeeded" {
			t.Errorf("the root is %v", root)
		}
		inTime(t, spans)
		c.holdsNone(t, secret, user, r.Text)
	})
	t.Run("of another's program", func(t *testing.T) {
		s.t = t
		const parent = "10f067aa0ba902b7"
		for header, trace := range map[string]string{"traceparent": "5bf92f3577b34da6a3ce929d0e0e4736", "Traceparent": "6bf92f3577b34da6a3ce929d0e0e4736"} {
			s.result(s.publish(header, "00-"+trace+"-"+parent+"-01"))
			spans := c.await(t, trace, 9)
			if got, want := tree(spans), below("text_completion"); got != want || spans[0].parent() != parent {
				t.Errorf("below %s the trace is\n%swant\n%s", spans[0].parent(), got, want)
			}
		}
	})
	t.Run("that is malformed is none", func(t *testing.T) {
		s.t = t
		id := s.publish("traceparent", "00-"+strings.Repeat("z", 32)+"-"+secret+"-01")
		s.result(id)
		first := c.awaitOf(t, 1, func(s span) bool {
			return s.attribute("messaging.message.conversation_id") == id && s.Name == "process INTAKE"
		})[0]
		if spans := c.await(t, first.trace(), 9); first.parent() != "" || tree(spans) != below("text_completion") {
			t.Errorf("below %q the trace is\n%s", first.parent(), tree(spans))
		}
		c.holdsNone(t, secret, user)
	})
}

// inTime holds spans to their parents: none begins before its parent has, and steps of an engine come one after the other.
func inTime(t *testing.T, spans []span) {
	t.Helper()
	of, engine := map[string]span{}, map[string]span{}
	for _, s := range spans { // as they began
		of[s.id()] = s
		if s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
		if p, there := of[s.parent()]; there && p.StartTimeUnixNano > s.StartTimeUnixNano {
			t.Errorf("%s begins before %s", s.Name, p.Name)
		}
		if !strings.HasPrefix(s.Name, "process ") && strings.HasSuffix(s.service, "-worker") {
			if before, there := engine[s.parent()]; there && before.EndTimeUnixNano > s.StartTimeUnixNano {
				t.Errorf("%s begins %s before %s ends", s.Name, time.Duration(before.EndTimeUnixNano-s.StartTimeUnixNano), before.Name)
			}
			engine[s.parent()] = s
		}
	}
}

// attributes checks what the spans of a job say beside their names.
func attributes(t *testing.T, spans []span) {
	t.Helper()
	some := regexp.MustCompile(`^[1-9][0-9]*$`)
	for name, want := range map[string]map[string]string{
		"POST /v1/chat/completions": {"http.request.method": "POST", "http.route": "/v1/chat/completions", "http.response.status_code": "200"},
		"run job":                   {"gen_ai.request.model": model, "tandem.status": "succeeded", "tandem.method": "disaggregated"},
		"publish INTAKE":            {"messaging.system": "nats", "messaging.destination.name": "INTAKE", "messaging.operation.name": "publish", "messaging.operation.type": "send"},
		"process INTAKE": {
			"messaging.operation.type": "process", "messaging.consumer.group.name": protocol.ConsumerName(protocol.RolePrefill, model, jobs.Interactive),
			"tandem.stage": "prefill", "tandem.attempt": "1",
		},
		"prefill":         {"tandem.tokens.computed": "some", "gen_ai.request.model": model},
		"save":            {"tandem.state.bytes": "some"},
		"process RELAY":   {"tandem.stage": "decode", "tandem.attempt": "1"},
		"fetch":           {"tandem.state.bytes": "some", "tandem.state.moved_bytes": "some"},
		"restore":         {"tandem.state.bytes": "some"},
		"chat " + model:   {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "tandem", "gen_ai.request.model": model, "gen_ai.usage.input_tokens": "some", "gen_ai.usage.output_tokens": "24", "gen_ai.response.finish_reasons": "length"},
		"publish RELAY":   {"messaging.destination.name": "RELAY"},
		"publish RESULTS": {"messaging.destination.name": "RESULTS"},
	} {
		i := slices.IndexFunc(spans, func(s span) bool { return s.Name == name })
		if i < 0 {
			t.Errorf("there is no span %s", name)
			continue
		}
		for key, value := range want {
			if got := spans[i].attribute(key); got != value && !(value == "some" && some.MatchString(got)) {
				t.Errorf("%s of %s = %q, want %q", key, name, got, value)
			}
		}
	}
}

// Without an endpoint nothing is added to a message; what a job brings along goes on with it.
func TestNoEndpoint(t *testing.T) {
	s := newSystem(t)
	messages, err := s.nc.SubscribeSync("jobs.>")
	if err != nil {
		t.Fatal(err)
	}
	s.fakeWorkers()
	s.ask(s.gateway(), http.Header{})
	s.submit()
	const brought = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s.result(s.publish("traceparent", brought))
	for i, want := range []string{"", "", "", "", brought, brought} {
		msg, err := messages.NextMsg(limit)
		if err != nil {
			t.Fatal(err)
		}
		if got := msg.Header["traceparent"]; strings.Join(got, ",") != want || len(msg.Header["tracestate"]) > 0 {
			t.Errorf("message %d to %s has the headers %v", i, strings.Join(strings.Split(msg.Subject, ".")[:2], "."), msg.Header)
		}
	}
}

// A collector that is away, or does not answer, delays no job, and is complained about seldom.
func TestDeadCollector(t *testing.T) {
	hang, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hang.Close() })
	for name, tt := range map[string]struct {
		endpoint, says string
	}{
		"away":   {"http://127.0.0.1:1", "traces are not exported"},
		"silent": {"http://" + hang.Addr().String(), "traces are not exported"},
		"no URL": {"localhost:4317", "no traces: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+tt.endpoint, "OTEL_BSP_SCHEDULE_DELAY=20")
			workers := s.fakeWorkers()
			for range 2 {
				began := time.Now()
				r := s.submit()
				if took := time.Since(began); took > 20*time.Second || r.Timings.TotalSeconds > 5 {
					t.Errorf("the job took %.1f s, the submitter %s", r.Timings.TotalSeconds, took)
				}
			}
			for _, w := range workers {
				if err := w.Terminate(); err != nil {
					t.Fatal(err)
				}
				s.exits(w)
				if n := strings.Count(w.Output(), tt.says); n != 1 {
					t.Errorf("%s complains %d times", w.Name(), n)
				}
				for line := range strings.Lines(w.Output()) {
					if !strings.HasPrefix(line, "{") {
						t.Errorf("a line is not of the log: %s", line)
					}
				}
			}
		})
	}
}
