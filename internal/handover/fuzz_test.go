package handover

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tandem/jobs"
)

// Whatever is asked for, without the token there is one answer.
func FuzzRequest(f *testing.F) {
	log := slog.New(slog.DiscardHandler)
	h := &handler{newLeases(1, nil, defaultEvery, log), log}
	f.Cleanup(h.leases.close)
	for _, path := range []string{"", "/", "/state/", "/state/0/digest", "/state//digest", "//state/0", "/state/../x", "/STATE/0", "/state/%2e"} {
		f.Add("GET", path, "Bearer x")
	}
	f.Add("OPTIONS", "*", "Bearer")
	f.Fuzz(func(t *testing.T, method, path, authorization string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"Authorization": {authorization}}})
		if rec.Code != http.StatusNotFound || rec.Body.Len() != 0 || len(rec.Header()) != 1 {
			t.Errorf("status %d, %d bytes, header %v", rec.Code, rec.Body.Len(), rec.Header())
		}
	})
}

func FuzzSplitPath(f *testing.F) {
	for _, path := range []string{"", "/state/a", "/state/a/digest", "/state/a/prefix", "/state/a/rest/prefix", "/state//digest", "/state/a/digest/digest", "/state/digest"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		id, want := splitPath(path)
		whole := ""
		switch want {
		case wantState:
			whole = statePath + id
		case wantDigest, wantPrefix, wantRest:
			whole = statePath + id + "/" + want
		}
		if want == "" && id != "" || want != "" && (whole != path || id == "" || strings.Contains(id, "/")) {
			t.Errorf("splitPath(%q) = %q, %q", path, id, want)
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, header := range []string{"", "bytes 0-0/1", "bytes 5-9/10", "bytes 5-9/*", "bytes */10", "bytes 9-5/10", "bytes -1-2/3", "bytes 1-2/9223372036854775808", "bytes +1-2/3"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		first, last, total, ok := parseContentRange(header)
		if !ok {
			return
		}
		if first < 0 || last < first || total <= last {
			t.Errorf("parseContentRange(%q) = %d, %d, %d", header, first, last, total)
		}
		// Leading zeros are all that may differ.
		again := fmt.Sprintf("bytes %d-%d/%d", first, last, total)
		if a, b, c, ok := parseContentRange(again); !ok || a != first || b != last || c != total {
			t.Errorf("%q is read as another range than %q", again, header)
		}
	})
}

func FuzzDigest(f *testing.F) {
	sum := sha256.Sum256(nil)
	f.Add([]byte(hex.EncodeToString(sum[:])))
	f.Add([]byte(strings.Repeat("g", 64)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		text, ok := parseDigest(answer)
		if ok && (len(text) != 64 || !strings.EqualFold(text, string(answer))) {
			t.Errorf("parseDigest(%q) = %q", answer, text)
		}
	})
}

// An address that is accepted is one of a host, by HTTP, and holds nothing else.
func FuzzCheckURL(f *testing.F) {
	for _, u := range []string{"http://127.0.0.1:80/state/1", "https://[fe80::1%25eth0]:80/x", "http://a@b/", "http:b", "//b/", "http://b/#x", "http://b?x", "HTTP://B"} {
		f.Add(u, "token")
	}
	f.Fuzz(func(t *testing.T, address, token string) {
		u, err := checkURL(&jobs.State{URL: address, Token: token, Bytes: 1})
		if err != nil {
			if len(address) > 20 && strings.Contains(err.Error(), address) || len(token) > 20 && strings.Contains(err.Error(), token) {
				t.Errorf("the error tells the address or the token: %v", err)
			}
			return
		}
		req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{"Authorization": {"Bearer " + token}}}
		var line strings.Builder
		if err := req.Write(&line); err != nil {
			return // the transport would refuse it, too
		}
		if head, _, _ := strings.Cut(line.String(), "\r\n\r\n"); strings.Count(head, "\r\n") > 3 {
			t.Errorf("%q and %q make a request of more lines: %q", address, token, head)
		}
	})
}
