package engine

import (
	"net"
	"net/http"
	"time"
)

// HTTPClient returns a client that follows no redirect and asks no proxy: an engine is addressed
// directly, and a prompt goes nowhere else. It has no time limit of its own; contexts have. base may be
// nil.
func HTTPClient(base *http.Client) *http.Client {
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
	return &c
}
