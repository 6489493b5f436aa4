package llamacpp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"tandem/internal/jobs"
)

// endpoint is where a server listens. Each start of a supervised one has its own.
type endpoint struct {
	url string
	key string // sent as a bearer token
}

// client speaks HTTP with a llama-server.
type client struct{ http *http.Client }

// newClient returns a client that follows no redirect and asks no proxy: an engine is addressed
// directly, and a prompt goes nowhere else. It has no time limit of its own; contexts have.
func newClient(base *http.Client) client {
	if base == nil {
		base = &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     3 * time.Second, // llama-server closes them after 5
			DisableCompression:  true,
		}}
	}
	c := *base
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client{http: &c}
}

// maxAnswer bounds an answer that is read whole: the rendered prompt or its tokens, several times the
// largest body of a job.
const maxAnswer = 64 << 20

// call sends body, if there is one, and reads the answer into answer.
func (c client) call(ctx context.Context, at endpoint, path string, body, answer any) error {
	r, err := c.open(ctx, at, path, body, false)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(answer); err != nil {
		return broken(ctx, path, err)
	}
	return nil
}

// open sends body, if there is one, and returns the body of an answer with status 200. Closing it
// early makes the server stop. After a stream llama-server ends the connection without having said so,
// and the next request on it would fail: so we say it.
func (c client) open(ctx context.Context, at endpoint, path string, body any, stream bool) (io.ReadCloser, error) {
	method, payload := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request for %s: %w", path, err)
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, at.url+path, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", path, err)
	}
	req.Close = stream
	req.Header.Set("Content-Type", "application/json")
	if at.key != "" {
		req.Header.Set("Authorization", "Bearer "+at.key)
	}
	// Not sent, but it lets net/http repeat the request when an idle connection turns out to be closed.
	req.Header["Idempotency-Key"] = nil
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(ctx, at, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var answer struct{ Error apiError }
	// An answer that is not JSON leaves the error empty, and the status speaks.
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer)
	answer.Error.Code = resp.StatusCode
	return nil, answer.Error.of(at, path)
}

// apiError is how llama-server says no, as the body of an answer or as an event of a stream.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Prompt  int    `json:"n_prompt_tokens"` // type exceed_context_size_error
	Context int    `json:"n_ctx"`
}

// errLoading is a server that will answer as soon as it has the model in memory.
var errLoading = &jobs.Error{Code: jobs.CodeEngineBusy, Message: "llama-server is loading the model"}

// of makes it an error that jobs.Classify understands.
func (e apiError) of(at endpoint, path string) error {
	switch {
	case e.Type == "exceed_context_size_error":
		return overflow(e.Prompt, e.Context)
	case e.Code == http.StatusServiceUnavailable:
		return errLoading // the one reason that llama-server has for it
	case e.Code == http.StatusTooManyRequests:
		return jobs.Errorf(jobs.CodeEngineBusy, "llama-server is busy: %s", cmp.Or(e.text(), "no reason given"))
	case e.Code == http.StatusUnauthorized, e.Code == http.StatusForbidden:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "llama-server at %s refuses the API key; give the worker the one it was started with (--api-key)", at.url)
	case e.Code >= 300 && e.Code < 400, e.Code == http.StatusNotFound, e.Code == http.StatusMethodNotAllowed:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "%s answers %s with status %d, as llama-server would not; correct the engine URL", at.url, path, e.Code)
	case e.Code >= 400 && e.Code < 500:
		return jobs.Errorf(jobs.CodeEngineRefused, "llama-server refuses the request: %s", cmp.Or(e.text(), fmt.Sprintf("status %d", e.Code)))
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "llama-server failed: %s", cmp.Or(e.text(), fmt.Sprintf("status %d", e.Code)))
}

// text is the message, cut short. Builds differ in whether they quote the model's answer when it does
// not fit its chat template; an error must not hold it.
func (e apiError) text() string {
	if before, _, quotes := strings.Cut(e.Message, "Failed to parse input"); quotes {
		return before + "the model's answer does not fit its chat template"
	}
	return strings.ToValidUTF8(e.Message[:min(len(e.Message), 300)], "")
}

// overflow is a prompt that does not fit.
func overflow(need, have int) error {
	return jobs.Errorf(jobs.CodeContextOverflow, "the job needs %d tokens of context and a slot of this worker has %d; shorten the prompt or raise the worker's context", need, have)
}

// unreachable explains why no answer came.
func unreachable(ctx context.Context, at endpoint, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return jobs.Errorf(jobs.CodeEngineUnreachable, "reach llama-server at %s: is it running, and is the engine URL right?: %w", at.url, op.Err)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "ask llama-server: %w", err)
}

// broken explains why an answer could not be read.
func broken(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "read llama-server's answer to %s: %w", path, err)
}
