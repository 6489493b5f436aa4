package handover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask sends one request as any HTTP client would.
func ask(t *testing.T, method, url, token string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestServerServesByTheProtocol(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, content := offer(t, s, "job", 100_000)
	sum := sha256.Sum256(content)
	token := "Bearer " + state.Token
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		body               []byte
		headers            map[string]string
	}{
		{"whole", "GET", "", nil, 200, content, map[string]string{"Content-Length": "100000", "Accept-Ranges": "bytes"}},
		{"from", "GET", "", []string{"Range", "bytes=99000-"}, 206, content[99000:], map[string]string{"Content-Range": "bytes 99000-99999/100000"}},
		{"part", "GET", "", []string{"Range", "bytes=1-2"}, 206, content[1:3], map[string]string{"Content-Range": "bytes 1-2/100000"}},
		{"beyond", "GET", "", []string{"Range", "bytes=100000-"}, 416, nil, nil},
		{"head", "HEAD", "", nil, 200, nil, map[string]string{"Content-Length": "100000"}},
		{"digest", "GET", "/digest", nil, 200, []byte(hex.EncodeToString(sum[:])), nil},
		{"digest head", "HEAD", "/digest", nil, 200, nil, nil},
		{"post", "POST", "", nil, 405, nil, nil},
		{"delete digest", "DELETE", "/digest", nil, 405, nil, nil},
		{"delete", "DELETE", "", nil, 204, nil, nil},
		{"after delete", "GET", "", nil, 404, nil, nil},
		{"digest after delete", "GET", "/digest", nil, 404, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := ask(t, tt.method, state.URL+tt.path, token, tt.header...)
			if resp.StatusCode != tt.status || tt.body != nil && !bytes.Equal(body, tt.body) {
				t.Errorf("status %d and %d bytes, want %d and %d", resp.StatusCode, len(body), tt.status, len(tt.body))
			}
			for name, want := range tt.headers {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if tt.status < 300 && tt.path == "" && tt.method != "DELETE" && resp.Header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("Content-Type: %q", resp.Header.Get("Content-Type"))
			}
			for _, name := range []string{"Last-Modified", "Etag", "Cache-Control", "Expires", "Location", "Server"} {
				if got := resp.Header.Get(name); got != "" {
					t.Errorf("%s: %q", name, got)
				}
			}
		})
	}
	if states, bytes := s.Held(); states != 0 || bytes != 0 {
		t.Errorf("%d states with %d bytes are held", states, bytes)
	}
}

// Whoever does not have both address and token sees the same answer everywhere.
func TestServerCannotBeProbed(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, _ := offer(t, s, "job", 1000)
	other, _ := offer(t, s, "other", 1000)
	bare := strings.TrimSuffix(state.URL, "/")
	unknown := s.URL() + statePath + newID()
	var seen []string
	answer := func(method, url, token string) string {
		resp, body := ask(t, method, url, token)
		header := resp.Header.Clone()
		header.Del("Date")
		return resp.Status + " " + strings.Join(slices.Sorted(maps.Keys(header)), " ") + " " + header.Get("Content-Length") + " " + string(body)
	}
	for _, token := range []string{
		"", "Bearer", "Bearer ", "Bearer x", "Bearer " + other.Token, "Bearer " + state.Token + "x",
		"Bearer " + state.Token[1:], "Basic " + state.Token, state.Token, "Bearer  " + state.Token,
	} {
		for _, url := range []string{bare, bare + "/digest", unknown, unknown + "/digest"} {
			seen = append(seen, answer("GET", url, token))
		}
	}
	for _, path := range []string{"", "/", "/state", "/state/", "/state//", "/state//digest", "/state/../state/", "/digest", "/favicon.ico", "/debug/pprof/"} {
		seen = append(seen, answer("GET", s.URL()+path, "Bearer "+state.Token))
	}
	for _, url := range []string{unknown, bare + "/", bare + "/digest/", bare + "/digest/digest", bare + "x", strings.ToUpper(bare[len(s.URL()):])} {
		if !strings.HasPrefix(url, "http") {
			url = s.URL() + url
		}
		seen = append(seen, answer("GET", url, "Bearer "+state.Token))
	}
	for _, method := range []string{"DELETE", "OPTIONS", "POST", "PUT"} {
		seen = append(seen, answer(method, bare, ""))
	}
	seen = slices.Compact(slices.Sorted(slices.Values(seen)))
	if len(seen) != 1 || !strings.HasPrefix(seen[0], "404 ") {
		t.Errorf("answers differ: %q", seen)
	}
	if resp, _ := ask(t, "GET", bare, "bearer "+state.Token); resp.StatusCode != 200 {
		t.Errorf("with the token in its place: %s", resp.Status)
	}
}

func TestAddressesAreUnguessable(t *testing.T) {
	s := newServer(t, ServerConfig{})
	seen := map[string]bool{}
	for range 20 {
		state, _ := offer(t, s, "019370aa-1111-7222-8333-444455556666", 10)
		id := strings.TrimPrefix(state.URL, s.URL()+statePath)
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
			t.Errorf("the state's id is not 128 bits: %q", id)
		}
		if len(state.Token) < 26 || strings.Contains(state.URL, state.Token) {
			t.Errorf("token of %d characters", len(state.Token))
		}
		if seen[id] || seen[state.Token] {
			t.Error("an address or a token was given twice")
		}
		seen[id], seen[state.Token] = true, true
	}
}

func TestServerLogsNothingSecret(t *testing.T) {
	var book logbook
	s := newServer(t, ServerConfig{Log: book.log()})
	state, _ := offer(t, s, "the-job", 1000)
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "GET"} {
		ask(t, method, state.URL, "Bearer "+state.Token)
		ask(t, method, state.URL+"/digest", "Bearer wrong")
	}
	text := book.String()
	wantSecret(t, text, &state)
	if !strings.Contains(text, "the-job") || !strings.Contains(text, "status=404") || !strings.Contains(text, "bytes=1000") {
		t.Errorf("the log does not say what happened: %s", text)
	}
}

// A state whose file somebody else removed or replaced is not served, and not counted any more.
func TestFileThatIsGone(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path+"2", path) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, ServerConfig{})
			path := filepath.Join(t.TempDir(), "state")
			writeNoise(t, path, 100)
			writeNoise(t, path+"2", 100)
			state, err := s.Offer("job", path)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if resp, _ := ask(t, "GET", state.URL, "Bearer "+state.Token); resp.StatusCode != 404 {
				t.Errorf("status %d", resp.StatusCode)
			}
			if states, bytes := s.Held(); states != 0 || bytes != 0 {
				t.Errorf("%d states with %d bytes are held", states, bytes)
			}
		})
	}
}

// A request for a digest waits for it, for a while, and then is told to ask again.
func TestDigestIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, offer := ledger(t, &stream{})
		l.hashing <- struct{}{}
		a := offer("a")
		digestOf := func() *httptest.ResponseRecorder {
			rec := httptest.NewRecorder()
			sendDigest(&sending{ResponseWriter: rec}, httptest.NewRequest("GET", "/", nil), a)
			return rec
		}
		start := time.Now()
		if rec := digestOf(); rec.Code != http.StatusAccepted || time.Since(start) != digestWait {
			t.Errorf("status %d after %v", rec.Code, time.Since(start))
		}
		waiting := make(chan *httptest.ResponseRecorder, 1)
		go func() { waiting <- digestOf() }()
		synctest.Wait()
		<-l.hashing
		if rec := <-waiting; rec.Code != http.StatusOK || rec.Body.Len() != 64 {
			t.Errorf("status %d with %d bytes", rec.Code, rec.Body.Len())
		}

		l.hashing <- struct{}{}
		a = offer("b")
		go func() { waiting <- digestOf() }()
		synctest.Wait()
		l.release("b")
		if rec := <-waiting; rec.Code != http.StatusNotFound {
			t.Errorf("status %d for a state that was released", rec.Code)
		}
		<-l.hashing
	})
}

// The file must reach the connection as a file, or it would be copied through this process.
func TestFilesAreSentByTheSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	writeNoise(t, path, 2*pieceSent+1)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	under := &receiver{ResponseRecorder: httptest.NewRecorder(), t: t}
	w := &sending{ResponseWriter: under, control: http.NewResponseController(under)}
	http.ServeContent(w, httptest.NewRequest("GET", "/", nil), "x.bin", time.Time{}, file)
	if under.files != 3 || w.sent != 2*pieceSent+1 || under.deadlines != 3 {
		t.Errorf("%d pieces were sent as files, %d bytes in all, with %d deadlines", under.files, w.sent, under.deadlines)
	}
}

// receiver is what net/http's connection is to a response: it takes files.
type receiver struct {
	*httptest.ResponseRecorder
	t                *testing.T
	files, deadlines int
}

func (r *receiver) SetWriteDeadline(time.Time) error {
	r.deadlines++
	return nil
}

func (r *receiver) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); !ok {
		r.t.Errorf("a %T was sent", src)
	} else if _, ok := limited.R.(*os.File); !ok {
		r.t.Errorf("a limited %T was sent", limited.R)
	} else {
		r.files++
	}
	return io.Copy(io.Discard, src)
}

func TestServeRefuses(t *testing.T) {
	cert, key := testCA(t, "first").issue(t, "dgx.example", "127.0.0.1")
	for _, tt := range []struct {
		name   string
		config ServerConfig
		want   string // in the error
	}{
		{"all addresses", ServerConfig{Listen: "0.0.0.0:0", Budget: 1}, "--handover-url"},
		{"all addresses, IPv6", ServerConfig{Listen: "[::]:0", Budget: 1}, "--handover-url"},
		{"no address", ServerConfig{Listen: ":0", Budget: 1}, "--handover-url"},
		{"zone", ServerConfig{Listen: "[fe80::1%eth0]:0", Budget: 1}, "--handover-url"},
		{"no port", ServerConfig{Listen: "127.0.0.1", Budget: 1}, "127.0.0.1"},
		{"no budget", ServerConfig{Listen: "127.0.0.1:0"}, "budget"},
		{"URL without scheme", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, URL: "dgx:8080"}, "dgx:8080"},
		{"URL of another kind", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, URL: "ftp://dgx"}, "ftp://dgx"},
		{"URL with a user", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, URL: "http://a:b@dgx"}, "--handover-url"},
		{"URL with a query", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, URL: "http://dgx?a=b"}, "--handover-url"},
		{"certificate without key", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, CertFile: cert}, "key"},
		{"certificate that is none", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, CertFile: key, KeyFile: key}, key},
		{"certificate that is missing", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, CertFile: cert + "x", KeyFile: key}, cert},
		{"certificate for another name", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, CertFile: cert, KeyFile: key, URL: "https://spark.example"}, "spark.example"},
		{"certificate and http", ServerConfig{Listen: "127.0.0.1:0", Budget: 1, CertFile: cert, KeyFile: key, URL: "http://dgx.example"}, "https"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Serve(t.Context(), tt.config)
			if err == nil {
				t.Fatal(s.Close(), "it serves all the same")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not name %q", err, tt.want)
			}
		})
	}
	s := newServer(t, ServerConfig{})
	if _, err := Serve(t.Context(), ServerConfig{Listen: strings.TrimPrefix(s.URL(), "http://"), Budget: 1}); err == nil {
		t.Error("two servers listen on one address")
	}
}

func TestServerURL(t *testing.T) {
	cert, key := testCA(t, "first").issue(t, "dgx.example", "localhost")
	for _, tt := range []struct {
		config     ServerConfig
		begin, end string
	}{
		{ServerConfig{Listen: "127.0.0.1:0"}, "http://127.0.0.1:", ""},
		{ServerConfig{Listen: "localhost:0"}, "http://localhost:", ""},
		{ServerConfig{Listen: "localhost:0", CertFile: cert, KeyFile: key}, "https://localhost:", ""},
		{ServerConfig{Listen: "0.0.0.0:0", URL: "http://dgx.example:9000/"}, "http://dgx.example:9000", "9000"},
		{ServerConfig{Listen: "0.0.0.0:0", URL: "https://dgx.example/kv"}, "https://dgx.example/kv", "kv"}, // a proxy does the TLS
	} {
		s := newServer(t, tt.config)
		if !strings.HasPrefix(s.URL(), tt.begin) || !strings.HasSuffix(s.URL(), tt.end) || strings.HasSuffix(s.URL(), ":0") {
			t.Errorf("URL of %+v = %s", tt.config, s.URL())
		}
		state, _ := offer(t, s, "job", 1)
		if !strings.HasPrefix(state.URL, s.URL()+"/state/") {
			t.Errorf("the state is at %s, the server at %s", state.URL, s.URL())
		}
	}
	six, err := baseURL(ServerConfig{Listen: "[fd00::1]:0"}, &net.TCPAddr{IP: net.ParseIP("fd00::1"), Port: 9000}, nil)
	if err != nil || six != "http://[fd00::1]:9000" {
		t.Errorf("URL of an IPv6 address = %s, %v", six, err)
	}
}

func TestCloseRemovesFilesAndEndsTransfers(t *testing.T) {
	s, err := Serve(t.Context(), ServerConfig{Listen: "127.0.0.1:0", Budget: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	writeNoise(t, path, 64<<20) // more than a connection holds
	state, err := s.Offer("job", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req := "GET " + strings.TrimPrefix(state.URL, s.URL()) + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + state.Token + "\r\n\r\n"
	if _, err := io.WriteString(conn, req); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1<<20)); err != nil { // it is being sent
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is still there")
	}
	if _, err := s.Offer("job", path); err == nil {
		t.Error("a closed server takes states")
	}
	if n, _ := io.Copy(io.Discard, conn); n >= 63<<20 {
		t.Error("the transfer went on")
	}
}

// A server outlives the context that it was started with: a worker that drains still has states that are wanted.
func TestServerOutlivesItsStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Serve(ctx, ServerConfig{Listen: "127.0.0.1:0", Budget: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	cancel()
	state, _ := offer(t, s, "job", 10)
	if resp, _ := ask(t, "GET", state.URL, "Bearer "+state.Token); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if !s.Fits(1<<20) || s.Fits(1<<20+1) {
		t.Error("the budget is not what was given")
	}
	if err := s.Room(ctx, 1<<20-10); err != nil {
		t.Error(err)
	}
	if !s.Pass("job", "another") || s.Pass("job", "a third") {
		t.Error("a state was not passed on, or twice")
	}
	s.Published("another")
	s.Release("job")
	if states, _ := s.Held(); states != 1 {
		t.Errorf("%d states are held for the job that it was passed to, want 1", states)
	}
	s.Release("another")
	if states, _ := s.Held(); states != 0 {
		t.Errorf("%d states are held", states)
	}
}

// A client that promises a body and does not send it is not waited for: that is for the server's read deadline.
func TestRequestWithABody(t *testing.T) {
	s := newServer(t, ServerConfig{})
	state, content := offer(t, s, "job", 100)
	req, err := http.NewRequestWithContext(t.Context(), "GET", state.URL, strings.NewReader("something"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+state.Token)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, content) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}
