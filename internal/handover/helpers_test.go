package handover

import "testing"

func newServer(tb testing.TB, c ServerConfig) *Server {
	tb.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Budget == 0 {
		c.Budget = 1 << 30
	}
	s, err := Serve(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func newClient(tb testing.TB, c ClientConfig) *Client {
	tb.Helper()
	client, err := NewClient(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}
