package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tandem/client"
	"tandem/jobs"
)

// piece is a line of Ollama's answer.
type piece struct {
	Response string `json:"response"`
	Done     bool   `json:"done"`
	Error    string `json:"error"`
}

// errAnswer is an error that was answered in the form of the API.
type errAnswer struct{ text string }

func (e *errAnswer) Error() string { return e.text }

const tokens = 32 // of an answer

// generate asks Ollama's API at an address, streamed if each is not nil, and returns the text.
func (s *system) generate(ctx context.Context, url, prompt string, each func()) (string, error) {
	return s.ask(ctx, url, model, prompt, each)
}

func (s *system) ask(ctx context.Context, url, model, prompt string, each func()) (string, error) {
	body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt, "stream": each != nil, "options": map[string]any{"num_predict": tokens, "temperature": 0}})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/generate", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	answer, err := s.http.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var text strings.Builder
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var p piece
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return "", fmt.Errorf("status %d, %.200s: %w", answer.StatusCode, lines.Text(), err)
		}
		if p.Error != "" {
			return "", &errAnswer{p.Error}
		}
		text.WriteString(p.Response)
		if p.Done {
			_, err := io.Copy(io.Discard, answer.Body)
			return text.String(), err
		}
		if each != nil {
			each()
		}
	}
	return "", errors.Join(lines.Err(), fmt.Errorf("status %d, and the answer breaks off", answer.StatusCode))
}

// quantile of durations that are in order.
func quantile(d []time.Duration, q float64) time.Duration {
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/1e6) }

// row prints p50 and p99 of each way.
func row(out io.Writer, what string, ways ...[]time.Duration) {
	fmt.Fprintf(out, "| %s |", what)
	for _, q := range []float64{0.5, 0.99} {
		for _, d := range ways {
			if slices.Sort(d); len(d) == 0 {
				fmt.Fprint(out, " – |")
				continue
			}
			fmt.Fprintf(out, " %s |", ms(quantile(d, q)))
		}
	}
	fmt.Fprintln(out)
}

// latency asks the engine, the pipeline by the public client, and the gateway, in turn.
func (s *system) latency(ctx context.Context, n int, out io.Writer) error {
	c, err := client.Dial(ctx, client.Options{URL: s.nats.URL(), User: "bench"})
	if err != nil {
		return err
	}
	defer c.Close()
	var whole, late, end [3][]time.Duration
	ask := []func(prompt string) error{
		func(prompt string) error { _, err := s.generate(ctx, s.engine.URL(), prompt, nil); return err },
		func(prompt string) error {
			r, err := c.Run(ctx, &jobs.Job{Model: model, Prompt: prompt, Plan: jobs.PlanLocal, Options: jobs.Options{NumPredict: new(tokens), Temperature: new(0.0)}})
			if err == nil && r.Status != jobs.Succeeded {
				err = errors.New(r.Error.Message)
			}
			return err
		},
		func(prompt string) error { _, err := s.generate(ctx, s.url, prompt, nil); return err },
	}
	for i := range n {
		for k := range ask {
			began := time.Now()
			if err := ask[k](fmt.Sprintf("%d, %d: how are you?", k, i)); err != nil {
				return err
			}
			whole[k] = append(whole[k], time.Since(began))
		}
	}
	// The chunks, of an engine that takes 5 ms for each token: how long after it wrote one it is here.
	for i := range max(1, n/10) {
		for k, url := range []string{s.tap.url, "", s.url} {
			if url == "" {
				continue
			}
			s.tap.forget()
			var here []time.Time
			if _, err := s.ask(ctx, url, slowModel, fmt.Sprintf("%d, %d: hi", k, i), func() { here = append(here, time.Now()) }); err != nil {
				return err
			}
			ended, wrote := time.Now(), s.tap.times()
			if len(wrote) != len(here)+1 { // the last line has no text
				return fmt.Errorf("%d chunks came of %d", len(here), len(wrote)-1)
			}
			for c := range here {
				late[k] = append(late[k], here[c].Sub(wrote[c]))
			}
			end[k] = append(end[k], ended.Sub(wrote[len(wrote)-1]))
		}
	}
	fmt.Fprintln(out, "| ms | p50: engine | client | gateway | p99: engine | client | gateway |\n|---|---|---|---|---|---|---|")
	row(out, "whole request, nothing to compute", whole[:]...)
	row(out, "a chunk, after the engine wrote it", late[:]...)
	row(out, "the end of a stream, after the engine wrote it", end[:]...)
	fmt.Fprintln(out)
	return nil
}

// manyStreams has many streams at the same time, each of which must be the engine's own text.
func (s *system) manyStreams(ctx context.Context, n int, out io.Writer) error {
	want := make([]string, n)
	for i := range want {
		var err error
		if want[i], err = s.generate(ctx, s.engine.URL(), fmt.Sprintf("Stream %d", i), func() {}); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	errs := make([]error, n)
	var chunks atomic.Int64
	began := time.Now()
	for i := range n {
		running.Go(func() {
			have, err := s.generate(ctx, s.url, fmt.Sprintf("Stream %d", i), func() { chunks.Add(1) })
			if err == nil && have != want[i] {
				err = fmt.Errorf("stream %d is %q, and the engine's text is %q", i, have, want[i])
			}
			errs[i] = err
		})
	}
	running.Wait()
	fmt.Fprintf(out, "%d streams at the same time, %d chunks in %s: each is the engine's own text\n", n, chunks.Load(), time.Since(began).Round(time.Millisecond))
	return errors.Join(errs...)
}

// rate has many clients ask one after the other, and looks at the gateway's memory.
func (s *system) rate(ctx context.Context, n int, out io.Writer) error {
	var next atomic.Int64
	var running sync.WaitGroup
	var failed atomic.Pointer[error]
	began := time.Now()
	for range 64 {
		running.Go(func() {
			for i := next.Add(1); i <= int64(n) && failed.Load() == nil; i = next.Add(1) {
				if _, err := s.generate(ctx, s.url, fmt.Sprintf("Request %d", i), nil); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	running.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	took := time.Since(began)
	mb, err := s.gateway.memory()
	fmt.Fprintf(out, "%d requests of 64 clients, which compute nothing: %.0f a second; the gateway has %.0f MB then\n", n, float64(n)/took.Seconds(), mb)
	return err
}

// kills has 100 clients ask while the gateway and the worker are killed in turn. Who was on the line when the gateway died asks again, as clients do; each request
// ends with its text or with an error as the API has it, and none waits for ever.
func (s *system) kills(ctx context.Context, n int, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var next, good, refused, again atomic.Int64
	var running sync.WaitGroup
	wrong := make(chan error, n)
	one := func(i int64) error {
		var each func()
		if i%2 == 0 {
			each = func() {}
		}
		for {
			have, err := s.generate(ctx, s.url, fmt.Sprintf("Killed %d", i), each)
			_, answered := errors.AsType[*errAnswer](err)
			switch {
			case ctx.Err() != nil:
				return fmt.Errorf("request %d hangs: %w", i, err)
			case err == nil && have == "":
				return fmt.Errorf("request %d has no text", i)
			case err == nil:
				good.Add(1)
				return nil
			case answered:
				refused.Add(1)
				return nil
			}
			again.Add(1)
			time.Sleep(200 * time.Millisecond)
		}
	}
	for range 100 {
		running.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := one(i); err != nil {
					wrong <- err
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	deaths := 0
	for i := 1; ; i++ {
		for next.Load() < int64(i*n/7) {
			select {
			case <-done:
			case <-time.After(5 * time.Millisecond):
				continue
			}
			break
		}
		if i == 7 {
			break
		}
		p := []*program{s.gateway, s.worker}[i%2]
		if err := errors.Join(p.kill(), p.start()); err != nil {
			return err
		}
		deaths++
	}
	<-done
	close(wrong)
	fmt.Fprintf(out, "%d requests of 100 clients, half of them streams, while the gateway and the worker were killed %d times: %d texts, %d errors as the API has them, none hangs; %d connections ended with a gateway, and were asked again\n",
		n, deaths, good.Load(), refused.Load(), again.Load())
	var errs []error
	for err := range wrong {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.ready(ctx))...)
}

// batch has a file done while the gateway is killed three times; each line must have its answer once.
func (s *system) batch(ctx context.Context, n int, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	began := time.Now()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "class.jsonl")
	if err != nil {
		return err
	}
	for i := range n {
		fmt.Fprintf(part, `{"custom_id": "line-%d", "method": "POST", "url": "/v1/completions", "body": {"model": %q, "prompt": "Line %d", "max_tokens": 4}}`+"\n", i, model, i)
	}
	if err := errors.Join(w.WriteField("purpose", "batch"), w.Close()); err != nil {
		return err
	}
	var file, made struct{ ID string }
	if err := s.call(ctx, http.MethodPost, "/v1/files", w.FormDataContentType(), &form, &file); err != nil {
		return err
	}
	start := fmt.Sprintf(`{"input_file_id": %q, "endpoint": "/v1/completions", "completion_window": "24h"}`, file.ID)
	if err := s.call(ctx, http.MethodPost, "/v1/batches", "application/json", strings.NewReader(start), &made); err != nil {
		return err
	}
	var b struct {
		Status     string
		OutputFile string                          `json:"output_file_id"`
		ErrorFile  string                          `json:"error_file_id"`
		Counts     struct{ Completed, Failed int } `json:"request_counts"`
	}
	deaths := 0
	for b.Status != "completed" {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the batch does not end: %+v", b)
		}
		if err := s.call(ctx, http.MethodGet, "/v1/batches/"+made.ID, "", nil, &b); err != nil && ctx.Err() == nil {
			continue // it has just been killed
		}
		if deaths < 3 && b.Counts.Completed >= deaths*n/4 && b.Status == "in_progress" {
			if err := errors.Join(s.gateway.kill(), s.gateway.start()); err != nil {
				return err
			}
			deaths++
			b.Counts.Completed = 0
		}
	}
	took := time.Since(began)
	seen := map[string]int{}
	for _, id := range []string{b.OutputFile, b.ErrorFile} {
		if id == "" {
			continue
		}
		var content bytes.Buffer
		if err := s.call(ctx, http.MethodGet, "/v1/files/"+id+"/content", "", nil, &content); err != nil {
			return err
		}
		for line := range bytes.Lines(content.Bytes()) {
			var l struct {
				CustomID string `json:"custom_id"`
			}
			if err := json.Unmarshal(line, &l); err != nil {
				return err
			}
			seen[l.CustomID]++
		}
	}
	for i := range n {
		if times := seen[fmt.Sprintf("line-%d", i)]; times != 1 {
			return fmt.Errorf("line-%d is there %d times", i, times)
		}
	}
	mb, err := s.gateway.memory()
	fmt.Fprintf(out, "a batch of %d lines, the gateway killed %d times: %d completed, %d failed, each once, in %s (%.0f a second); the gateway has %.0f MB then\n",
		n, deaths, b.Counts.Completed, b.Counts.Failed, took.Round(time.Second), float64(n)/took.Seconds(), mb)
	if deaths == 0 {
		return errors.Join(err, errors.New("the batch ended before the gateway could be killed"))
	}
	return err
}

// call asks the gateway; into is a record, or a buffer for the answer as it is.
func (s *system) call(ctx context.Context, method, path, kind string, body io.Reader, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return err
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, said)
	}
	if buffer, raw := into.(*bytes.Buffer); raw {
		_, err := buffer.ReadFrom(answer.Body)
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
