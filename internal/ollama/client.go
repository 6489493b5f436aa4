package ollama

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
	"strings"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

const (
	pathGenerate = "/api/generate"
	pathChat     = "/api/chat"

	maxInfo  = 64 << 20 // bytes of an answer that is read whole: a rendered prompt, each byte of which may take six
	maxError = 64 << 10 // bytes of an error's body that are read
	maxMark  = 1 << 10  // bytes of a version or a digest, which are published with every sign of life
)

// client speaks HTTP with one server.
type client struct {
	base *url.URL
	http *http.Client
}

// String is the server's address as errors name it.
func (c client) String() string { return protocol.RedactURL(c.base.String()) }

// get reads a small JSON answer into out.
func (c client) get(ctx context.Context, path string, out any) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readInfo(resp.Body, path, out)
}

// ask posts a body and reads a small JSON answer into out.
func (c client) ask(ctx context.Context, path string, body, out any) error {
	resp, err := c.post(ctx, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readInfo(resp.Body, path, out)
}

func readInfo(r io.Reader, path string, out any) error {
	data, err := io.ReadAll(io.LimitReader(r, maxInfo+1))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	if len(data) > maxInfo {
		return fmt.Errorf("answer of %s: it is longer than %d bytes: %w", path, maxInfo, errNotOllama)
	}
	if json.Unmarshal(data, out) != nil {
		return fmt.Errorf("answer of %s: %w", path, errNotOllama)
	}
	return nil
}

// post sends a request whose answer the caller reads and closes.
func (c client) post(ctx context.Context, path string, body any) (*http.Response, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return c.do(ctx, http.MethodPost, path, bytes.NewReader(b.Bytes()))
}

// do returns only answers with status 200; any other becomes a *refusal.
func (c client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // what can be read is enough
	return nil, readRefusal(resp.StatusCode, data)
}

// errNotOllama is the cause when an answer has not the shape of Ollama's.
var errNotOllama = errors.New("not an answer of Ollama's")

// overflow is llama-server's name for a prompt that does not fit.
const overflow = "exceed_context_size_error"

// refusal is an error that the server answered with: a status other than 200, or an error line in
// a stream (status 200).
type refusal struct {
	status  int
	message string // the server's own words
	kind    string // the runner's name for the error
	tokens  int    // of a prompt that does not fit
	context int    // that it does not fit into
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d", r.status) }

// readRefusal reads {"error": "…"}. If the model's runner refused, the text is itself JSON:
//
//	{"error":{"code":400,"message":"request (9014 tokens) exceeds …","type":"exceed_context_size_error","n_prompt_tokens":9014,"n_ctx":2048}}
func readRefusal(status int, body []byte) *refusal {
	r := &refusal{status: status}
	var outer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return r
	}
	r.message = outer.Error
	var inner struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Tokens  int    `json:"n_prompt_tokens"`
			Context int    `json:"n_ctx"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(outer.Error), &inner) == nil && inner.Error.Message != "" {
		r.message, r.kind = inner.Error.Message, inner.Error.Type
		r.tokens, r.context = inner.Error.Tokens, inner.Error.Context
	}
	return r
}

// overflows reports whether the prompt did not fit into the context; older releases say so in words only.
func (r *refusal) overflows() bool {
	return r.kind == overflow || r.status == http.StatusBadRequest && strings.Contains(r.message, "context length")
}

// failure makes of anything that went wrong while doing the thing named an error with a code and a
// remedy; of a cancelled context it makes the cause.
func (e *Engine) failure(ctx context.Context, doing string, err error, req engine.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if known, ok := errors.AsType[*jobs.Error](err); ok {
		return &jobs.Error{Code: known.Code, Message: doing + ": " + known.Message, Err: known.Err}
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return e.refused(doing, r, req)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the rest of it repeats the URL
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return jobs.Errorf(jobs.CodeEngineUnreachable,
			"%s: no Ollama answers at %s: start it (ollama serve) or name another with --engine-url: %w", doing, e.client, err)
	}
	if errors.Is(err, errNotOllama) {
		return jobs.Errorf(jobs.CodeEngineFailed, "%s: what answers at %s is no Ollama; check --engine-url: %w", doing, e.client, err)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "%s: Ollama at %s broke off: %w", doing, e.client, err)
}

// refused gives the server's refusal its code. Its own words may quote the request.
func (e *Engine) refused(doing string, r *refusal, req engine.Request) error {
	said := engine.Quote(r.message, req)
	if said == "" {
		said = http.StatusText(r.status)
	}
	switch {
	case r.overflows() && r.tokens > 0:
		return jobs.Errorf(jobs.CodeContextOverflow,
			"%s: the prompt has %d tokens and the context of this worker is %d: shorten the prompt, or raise its --num-ctx", doing, r.tokens, r.context)
	case r.overflows():
		return jobs.Errorf(jobs.CodeContextOverflow,
			"%s: the prompt is longer than the context of this worker, %d tokens: shorten the prompt, or raise its --num-ctx", doing, e.numCtx)
	case r.status == http.StatusNotFound && strings.Contains(r.message, "not found"):
		return jobs.Errorf(jobs.CodeModelMissing, "%s: Ollama at %s does not have the model %s: run `ollama pull %s` there", doing, e.client, e.model, e.model)
	case r.status == http.StatusServiceUnavailable, r.status == http.StatusTooManyRequests:
		return jobs.Errorf(jobs.CodeEngineBusy, "%s: Ollama at %s is busy or loading a model: %s", doing, e.client, said)
	case r.status == http.StatusNotFound, r.status == http.StatusMethodNotAllowed:
		return jobs.Errorf(jobs.CodeEngineFailed, "%s: what answers at %s is no Ollama (status %d); check --engine-url", doing, e.client, r.status)
	case r.status >= 300 && r.status < 400:
		return jobs.Errorf(jobs.CodeEngineFailed, "%s: %s answers with a redirect (status %d), which is not followed; check --engine-url", doing, e.client, r.status)
	case r.status >= 400 && r.status < 500:
		return jobs.Errorf(jobs.CodeEngineRefused, "%s: Ollama at %s refuses the request (status %d): %s", doing, e.client, r.status, said)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "%s: Ollama at %s reports an error (status %d): %s", doing, e.client, r.status, said)
}
