package slots

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"tandem/internal/engine"
)

// Endpoint is where a llama-server listens. Each start of one has its own.
type Endpoint struct {
	URL string
	Key string // sent as a bearer token
}

// Client speaks HTTP with a llama-server.
type Client struct{ http *http.Client }

// NewClient returns a client over base, which may be nil, as [engine.HTTPClient] says.
func NewClient(base *http.Client) *Client { return &Client{http: engine.HTTPClient(base)} }

// CloseIdle closes the connections that nothing goes over.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// maxAnswer bounds an answer that is read whole: the rendered prompt or its tokens, several times the
// largest body of a job.
const maxAnswer = 64 << 20

// call sends body, if there is one, and reads the answer into answer.
func (c *Client) call(ctx context.Context, at Endpoint, path string, body, answer any) error {
	r, err := c.open(ctx, at, path, body, false)
	if err != nil {
		return err
	}
	defer r.Close()
	limited := &io.LimitedReader{R: r, N: maxAnswer}
	if err := json.NewDecoder(limited).Decode(answer); err != nil {
		if limited.N <= 0 {
			err = fmt.Errorf("it is longer than %d bytes", maxAnswer)
		}
		return broken(ctx, path, err)
	}
	return nil
}

// open sends body, if there is one, and returns the body of an answer with status 200. Closing it
// early makes the server stop. After a stream llama-server ends the connection without having said so,
// and the next request on it would fail: so we say it.
func (c *Client) open(ctx context.Context, at Endpoint, path string, body any, stream bool) (io.ReadCloser, error) {
	method, payload := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request for %s: %w", path, err)
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, at.URL+path, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", path, err)
	}
	req.Close = stream
	req.Header.Set("Content-Type", "application/json")
	if at.Key != "" {
		req.Header.Set("Authorization", "Bearer "+at.Key)
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
