package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// The console with many jobs in the streams, and many who look at it.

const (
	idleModel = "nobody:1b" // that no worker serves: its jobs wait
	manyUsers = 20          // of one user 1,000 dead letters are kept at most
)

// consoles fills the streams with n jobs, and looks at them: a tenth waits, a tenth could not be done, the others ended well.
func (s *system) consoles(ctx context.Context, n int, out io.Writer) error {
	began := time.Now()
	if err := s.fill(ctx, n); err != nil {
		return fmt.Errorf("fill the streams: %w", err)
	}
	fmt.Fprintf(out, "%d jobs in the streams, put there in %.0f s\n", n, time.Since(began).Seconds())
	if err := errors.Join(s.gateway.kill(), s.gateway.start(), s.ready(ctx)); err != nil {
		return err
	}
	empty, err := s.gateway.memory()
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, int, float64, io.Writer) error{s.list, s.paint, s.look, s.batches, s.acts} {
		if err := part(ctx, n, empty, out); err != nil {
			return err
		}
	}
	return nil
}

// fill publishes what the streams hold of jobs that nobody does here.
func (s *system) fill(ctx context.Context, n int) error {
	nc, err := nats.Connect(s.nats.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		return err
	}
	prompt, text, now := strings.Repeat("A line of a student's program.\n", 130), strings.Repeat("A line of feedback.\n", 75), time.Now().UTC()
	put := func(subject string, record any) error {
		data, err := json.Marshal(record)
		if err == nil {
			_, err = js.PublishAsync(subject, data, jetstream.WithStallWait(time.Minute))
		}
		return err
	}
	for i := range n {
		j := &jobs.Job{V: 1, ID: jobs.NewID(), User: fmt.Sprint("user-", i%manyUsers), Batch: fmt.Sprint("homework-", i%7), Class: jobs.Batch, Model: idleModel, Prompt: prompt, SubmittedAt: now}
		r := jobs.NewResult(j, jobs.Succeeded)
		r.Text, r.Method, r.FinishedAt = text, jobs.MethodDisaggregated, now.Add(-time.Duration(n-i)*time.Second)
		r.Usage.PromptTokens, r.Usage.GeneratedTokens, r.Timings.TotalSeconds = 1000, 300, 12
		switch i % 10 {
		case 0:
			err = put(protocol.JobSubject(jobs.StagePrefill, j.Model, j.Class, j.User, j.ID), j)
		case 1:
			r.Status, r.Text, r.Error = jobs.Failed, "", &jobs.ErrorInfo{Code: jobs.CodeEngineFailed, Stage: jobs.StageDecode, Message: fmt.Sprintf("the engine broke off after %d tokens", i%100)}
			err = errors.Join(put(protocol.ResultSubject(j.User, j.Batch, j.ID), r), put(protocol.DLQSubject(jobs.StageDecode, j.Model, j.User, j.ID), map[string]any{
				"v": 1, "stage": jobs.StageDecode, "code": r.Error.Code, "message": r.Error.Message, "user": j.User, "batch": j.Batch, "job": j, "attempts": 5, "worker": "mac-1/d1", "failed_at": now,
			}))
		default:
			err = put(protocol.ResultSubject(j.User, j.Batch, j.ID), r)
		}
		if err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// console is a page, or its part that changes.
func (s *system) console(ctx context.Context, path string) (string, error) {
	var b bytes.Buffer
	err := s.call(ctx, http.MethodGet, "/console"+path, "", nil, &b)
	return b.String(), err
}

// list asks for pages of jobs with all kinds of filters.
func (s *system) list(ctx context.Context, n int, empty float64, out io.Writer) error {
	began := time.Now()
	html, err := s.console(ctx, "/jobs")
	if err != nil {
		return err
	}
	first := time.Since(began)
	for strings.Contains(html, "is being read") {
		time.Sleep(50 * time.Millisecond)
		if html, err = s.console(ctx, "/jobs"); err != nil {
			return err
		}
	}
	read := time.Since(began)
	queries := []url.Values{
		{}, {"state": {"waiting"}}, {"state": {"failed"}}, {"state": {"dead letter"}}, {"model": {idleModel}, "batch": {"homework-3"}}, {"user": {"user-7"}}, {"method": {"disaggregated"}},
		{"error": {"after 41 tokens"}}, {"error": {"nothing like it"}}, {"state": {"succeeded"}, "user": {"user-2"}, "batch": {"homework-1"}},
	}
	var took []time.Duration
	for i := range 300 {
		began := time.Now()
		q := queries[i%len(queries)]
		q.Set("page", strconv.Itoa(1+i/len(queries))) // none is drawn already
		if _, err := s.console(ctx, "/jobs?"+q.Encode()); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	full, err := s.gateway.memory()
	fmt.Fprintf(out, "console: the first page of jobs is there after %s ms, all that the streams hold after %.1f s; a filtered page p50 %s ms, p95 %s ms; the gateway has %.0f MB, before it %.0f\n",
		ms(first), read.Seconds(), ms(quantile(took, 0.5)), ms(quantile(took, 0.95)), full, empty)
	return err
}

// paint has a real browser open the page of jobs, if there is one.
func (s *system) paint(ctx context.Context, _ int, _ float64, out io.Writer) error {
	chromium, err := exec.LookPath("chromium")
	if err != nil || s.pages == "" {
		fmt.Fprintln(out, "console: no page is painted, without chromium")
		return nil
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(s.pages, "console_paint.mjs"), s.url)
	cmd.Env, cmd.Stderr = append(os.Environ(), "TANDEM_BROWSER="+chromium), s.work
	said, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("paint: %w", err)
	}
	fmt.Fprintf(out, "console: %s", said)
	return nil
}

// usage is the CPU time of the gateway so far, and its memory in MB.
func (s *system) usage() (cpu time.Duration, mb float64, err error) {
	out, err := exec.Command("ps", "-o", "cputimes=", "-p", strconv.Itoa(s.gateway.cmd.Process.Pid)).Output()
	if err != nil {
		return 0, 0, err
	}
	if data, failed := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.gateway.cmd.Process.Pid)); failed == nil { // in hundredths
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		cpu = time.Duration(user+system) * 10 * time.Millisecond
	} else {
		seconds, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		cpu = time.Duration(seconds) * time.Second
	}
	mb, err = s.gateway.memory()
	return cpu, mb, err
}

// open opens so many pages that live, and returns how many news came, and how to close them.
func (s *system) open(ctx context.Context, n int, paths ...string) (news *atomic.Int64, closed func()) {
	ctx, stop := context.WithCancel(ctx)
	news = new(atomic.Int64)
	var open sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	for i := range n {
		open.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/console/live"+paths[i%len(paths)], nil)
			answer, err := client.Do(r)
			if err != nil {
				return
			}
			defer answer.Body.Close()
			lines := bufio.NewReaderSize(answer.Body, 64<<10)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if line == "\n" {
					news.Add(1)
				}
			}
		})
	}
	return news, func() { stop(); open.Wait(); client.CloseIdleConnections() }
}

// load asks twenty times a second until it is stopped.
func (s *system) load(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				done <- nil
				return
			}
			if _, err := s.generate(context.WithoutCancel(ctx), s.url, fmt.Sprintf("Look %d", i), nil); err != nil {
				done <- err
				return
			}
		}
	}()
	return func() error { cancel(); return <-done }
}

// look compares what a hundred pages that are open cost with the same requests and none open.
func (s *system) look(ctx context.Context, n int, _ float64, out io.Writer) error {
	pages, looking := max(2, min(100, n/100)), 20*time.Second
	if n < 10_000 {
		looking = 2 * time.Second
	}
	spent := [2]time.Duration{}
	var memory [2]float64
	var came int64
	for i, open := range []int{0, pages} {
		stop := s.load(ctx)
		news, closed := s.open(ctx, open, "/", "/", "/jobs", "/queues")
		time.Sleep(2 * time.Second) // all are open
		before, _, err := s.usage()
		if err != nil {
			return err
		}
		news.Store(0)
		time.Sleep(looking)
		after, mb, err := s.usage()
		spent[i], memory[i], came = after-before, mb, news.Load()
		closed()
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "console: %d pages open while 20 requests a second end, %.1f news a second each: %.2f of a core more (%.2f, without %.2f), %.0f MB more (%.0f)\n",
		pages, float64(came)/float64(pages)/looking.Seconds(), (spent[1]-spent[0]).Seconds()/looking.Seconds(), spent[1].Seconds()/looking.Seconds(), spent[0].Seconds()/looking.Seconds(), memory[1]-memory[0], memory[1])
	return nil
}

// batches compares how long requests take that an engine computes, with ten consoles open and with none, in turn.
func (s *system) batches(ctx context.Context, n int, _ float64, out io.Writer) error {
	rounds := 9
	if n < 10_000 {
		rounds = 1
	}
	var took [2][]time.Duration
	for range rounds {
		for i, open := range []int{0, 10} {
			_, closed := s.open(ctx, open, "/", "/jobs")
			began := time.Now()
			var running sync.WaitGroup
			var failed atomic.Pointer[error]
			for k := range slots {
				running.Go(func() {
					for i := range 10 {
						if _, err := s.ask(ctx, s.url, slowModel, fmt.Sprintf("%d, %d: go on", k, i), nil); err != nil {
							failed.Store(&err)
						}
					}
				})
			}
			running.Wait()
			took[i] = append(took[i], time.Since(began))
			closed()
			if err := failed.Load(); err != nil {
				return *err
			}
		}
	}
	var ratios []float64
	for i := range took[0] {
		ratios = append(ratios, float64(took[1][i])/float64(took[0][i]))
	}
	slices.Sort(ratios)
	slices.Sort(took[0])
	fmt.Fprintf(out, "console: %d requests of an engine that takes 5 ms for each token, %.1f s: with ten consoles open %.3f times as long (median of %d pairs, %.3f to %.3f)\n",
		10*slots, quantile(took[0], 0.5).Seconds(), ratios[len(ratios)/2], rounds, ratios[0], ratios[len(ratios)-1])
	return nil
}

var doneOf = regexp.MustCompile(`([\d,]+) of ([\d,]+) jobs? done`)

// acts does something about all jobs that wait, and about all dead letters.
func (s *system) acts(ctx context.Context, n int, _ float64, out io.Writer) error {
	for _, one := range []struct {
		verb  string
		query url.Values
		left  string // of which filter nothing must be left
	}{
		{"cancel", url.Values{"state": {"waiting"}, "model": {idleModel}}, "waiting"},
		{"replay", url.Values{"state": {"dead letter"}, "error": {"broke off"}}, ""},
		{"drop", url.Values{"state": {"dead letter"}, "error": {"broke off"}}, "dead letter"},
	} {
		form := url.Values{"verb": {one.verb}}
		maps.Copy(form, one.query)
		asked, err := s.console(ctx, "/jobs/confirm?"+form.Encode())
		if err != nil {
			return err
		}
		began, named := time.Now(), regexp.MustCompile(`name="confirmed" value="(\w+)"`).FindStringSubmatch(asked)
		if named == nil {
			return fmt.Errorf("%s asks %.2000s", one.verb, asked)
		}
		form.Set("confirmed", named[1])
		var answer bytes.Buffer
		if err := s.call(ctx, http.MethodPost, "/console/jobs/act", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), &answer); err != nil {
			return err
		}
		task := regexp.MustCompile(`/console/live(/tasks/\d+)`).FindStringSubmatch(answer.String())
		if task == nil {
			return fmt.Errorf("%s begins no task: %.2000s", one.verb, answer.String())
		}
		seen, html := 0, ""
		for !strings.Contains(html, `class="state good"`) {
			var err error
			if html, err = s.console(ctx, task[1]); err != nil {
				return err
			}
			if strings.Contains(html, `class="state bad"`) {
				return fmt.Errorf("%s: %.3000s", one.verb, html)
			}
			seen++
			time.Sleep(200 * time.Millisecond)
		}
		took, done := time.Since(began), doneOf.FindStringSubmatch(html)
		if done == nil || done[1] != done[2] || done[1] == "0" {
			return fmt.Errorf("%s says %v", one.verb, done)
		}
		fmt.Fprintf(out, "console: %s %s jobs in %.1f s, %.0f a second; its page said how far it is %d times\n", one.verb, done[1], took.Seconds(), float64(n)/10/took.Seconds(), seen)
		if one.left == "" {
			continue
		}
		deadline := time.Now().Add(time.Minute)
		for {
			html, err := s.console(ctx, "/jobs?"+url.Values{"state": {one.left}, "model": {idleModel}, "error": one.query["error"]}.Encode())
			if err != nil {
				return err
			}
			if strings.Contains(html, "<strong>0 jobs of") {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("after %s some are left: %.3000s", one.verb, html)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}
