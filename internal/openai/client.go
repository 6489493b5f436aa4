package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	maxInfo  = 4 << 20  // bytes of an answer that is read whole
	maxError = 64 << 10 // bytes of an error's body that are read
)

// client speaks HTTP with one server.
type client struct {
	base string // URL without /v1
	key  string // sent as a bearer token
	http *http.Client
}

// open sends body, if there is one, and returns the body of an answer with status 200. Any other is a *refusal.
func (c *client) open(ctx context.Context, path string, body any) (io.ReadCloser, error) {
	method, payload := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	req.Header["Idempotency-Key"] = nil // not sent, but it lets net/http repeat the request when an idle connection turns out to be closed
	req.Close = body != nil             // some servers end the connection after a stream without having said so
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // what can be read is enough
	r := &refusal{status: resp.StatusCode}
	var answer struct {
		Error   *refusal `json:"error"`
		Message string   `json:"message"` // of vLLM before 0.10
	}
	if json.Unmarshal(data, &answer) == nil && answer.Error != nil {
		r = answer.Error
		r.status = resp.StatusCode
	} else {
		r.Message = answer.Message
	}
	return nil, r
}

// models lists what the server has.
func (c *client) models(ctx context.Context) ([]model, error) {
	body, err := c.open(ctx, "/v1/models", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxInfo))
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []model `json:"data"`
	}
	if json.Unmarshal(data, &list) != nil || list.Data == nil {
		return nil, errNotOpenAI
	}
	return list.Data, nil
}

// model is one that a server has.
type model struct {
	ID      string `json:"id"`
	OwnedBy string `json:"owned_by"`
	Context int    `json:"max_model_len"` // of vLLM: tokens
}

// errNotOpenAI is the cause when an answer has not the shape of the API's.
var errNotOpenAI = errors.New("not an answer of the OpenAI API")

// refusal is an error that the server answered with.
type refusal struct {
	status  int
	Message string `json:"message"` // the server's own words
	Type    string `json:"type"`
	Tokens  int    `json:"n_prompt_tokens"` // llama-server: of a prompt that does not fit
	Context int    `json:"n_ctx"`           // likewise: that it does not fit into
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d", r.status) }

// tooLong is how servers say that a prompt does not fit: the standard's code, llama-server's, vLLM's and MLX-LM's words.
var tooLong = regexp.MustCompile(`context_length_exceeded|exceed_context_size|context (length|size|window)|maximum (model|context) len|too large to process`)

// failure makes of anything that went wrong while doing the thing named an error with a code and a remedy; of a cancelled context it makes the cause.
func (e *Engine) failure(ctx context.Context, doing string, err error, req engine.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s, ok := errors.AsType[*stopped](err); ok {
		return s.error
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return e.refused(doing, r, req)
	}
	at := protocol.RedactURL(e.client.base)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the rest of it repeats the URL
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return jobs.Errorf(jobs.CodeEngineUnreachable, "%s: no server answers at %s: start it, or name another with --engine-url: %w", doing, at, err)
	}
	if errors.Is(err, errNotOpenAI) {
		return jobs.Errorf(jobs.CodeEngineFailed, "%s: what answers at %s does not speak the OpenAI API; check --engine-url: %w", doing, at, err)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "%s: the server at %s broke off: %w", doing, at, err)
}

// refused gives the server's refusal its code. Its own words may quote the request.
func (e *Engine) refused(doing string, r *refusal, req engine.Request) error {
	at, said := protocol.RedactURL(e.client.base), engine.Quote(r.Message, req)
	if said == "" {
		said = http.StatusText(r.status)
	}
	switch {
	case r.Tokens > 0:
		return overflow(doing, r.Tokens, r.Context)
	case tooLong.MatchString(r.Type + " " + r.Message):
		return jobs.Errorf(jobs.CodeContextOverflow, "%s: the prompt is longer than the context, %d tokens by --num-ctx: shorten it, or start the server with more: %s", doing, e.options.NumCtx, said)
	case r.status == http.StatusServiceUnavailable, r.status == http.StatusTooManyRequests:
		return jobs.Errorf(jobs.CodeEngineBusy, "%s: the server at %s is busy or loading a model: %s", doing, at, said)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "%s: the server at %s refuses the key; give its key with --engine-key-file", doing, at)
	case r.status >= 300 && r.status < 400, r.status == http.StatusNotFound, r.status == http.StatusMethodNotAllowed:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "%s: what answers at %s does not speak the OpenAI API (status %d); check --engine-url", doing, at, r.status)
	case r.status >= 400 && r.status < 500:
		return jobs.Errorf(jobs.CodeEngineRefused, "%s: the server at %s refuses the request (status %d): %s", doing, at, r.status, said)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "%s: the server at %s reports an error (status %d): %s", doing, at, r.status, said)
}

// overflow is a prompt that does not fit.
func overflow(doing string, need, have int) error {
	return jobs.Errorf(jobs.CodeContextOverflow, "%s: the job needs %d tokens of context and the server has %d: shorten the prompt, or start the server with more and raise --num-ctx", doing, need, have)
}
