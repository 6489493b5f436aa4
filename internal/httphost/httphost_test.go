package httphost

import "testing"

func TestOurs(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:11500": true, "127.0.0.1": true, "[::1]:80": true, "[::1]": true, "192.0.2.7:8002": true,
		"localhost:11500": true, "LOCALHOST": true, "localhost.": true, "mac.example.org:8002": true,
		"": false, ":80": false, ".": false, "example.org": false, "localhost.example.org": false, "127.0.0.1.example.org:80": false, "x@localhost": false,
	} {
		if got := Ours(host, "localhost", "mac.example.org", ""); got != want {
			t.Errorf("Ours(%q) = %t, want %t", host, got, want)
		}
	}
}
