package slots

import "net/http"

// Client speaks HTTP with a llama-server.
type Client struct{}

// NewClient returns a client that follows no redirect and asks no proxy; base may be nil.
func NewClient(base *http.Client) *Client { return &Client{} }
