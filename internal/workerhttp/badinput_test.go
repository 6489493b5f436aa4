package workerhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestBadBodiesAreRefusedByName(t *testing.T) {
	digits := strings.Repeat("9", 1<<20)
	for name, tt := range map[string]struct{ body, want string }{
		"a prompt of 4 MiB and a byte":  {`{"prompt":"` + strings.Repeat("p", jobs.MaxBody+1) + `"}`, "the prompt is 4194305 bytes long; 4194304 are allowed"},
		"a number of a megabyte":        {`{"prompt":"p","temperature":` + digits + `}`, "temperature is a JSON number 999"},
		"temperature 1e400":             {`{"prompt":"p","temperature":1e400}`, "temperature is a JSON number 1e400; want a number"},
		"temperature as text":           {`{"prompt":"p","temperature":"NaN"}`, "temperature is a JSON string; want a number"},
		"tokens 2^63":                   {`{"prompt":"p","max_tokens":9223372036854775808}`, "max_tokens is a JSON number 9223372036854775808; want a whole number of 64 bits"},
		"tokens out of range":           {`{"prompt":"p","max_tokens":16777217}`, "options.num_predict is 16777217; want 1 to 16777216"},
		"duplicate keys":                {`{"prompt":"p","prompt":"q"}`, `duplicate key "prompt"`},
		"nested 10,000 deep":            {`{"prompt":"p","x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, "nested too deep"},
		"no UTF-8":                      {"{\"prompt\":\"\xff\"}", "invalid UTF-8 at byte 11"},
		"two values":                    {`{"prompt":"p"}{}`, "data after the end"},
		"an array":                      {`[]`, "the request is a JSON array; want an object"},
		"a key with an escape sequence": {`{"\u001b[31m":1,"\u001b[31m":2}`, `duplicate key "\x1b[31m"`},
	} {
		t.Run(name, func(t *testing.T) {
			status, said, calls := ask(t, protocol.RoleDecode, "/generate", []byte(tt.body))
			if status != http.StatusBadRequest || !strings.Contains(said, tt.want) || len(said) > 300 || calls != 0 {
				t.Errorf("status %d, %d calls, %.300q; want 400 and %q", status, calls, said, tt.want)
			}
		})
	}
}

// A body that is larger than any prompt could make it is not read to its end.
func TestBodiesWithoutEnd(t *testing.T) {
	r := start(t, protocol.RoleDecode, &echo{})
	body := &spaces{}
	body.left.Store(200 << 20)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/generate", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil { // the server may hang up before its answer was read
		if body.left.Load() < 100<<20 {
			t.Errorf("%v after all but %d bytes were sent", err, body.left.Load())
		}
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || body.left.Load() < 100<<20 {
		t.Errorf("status %d, %d bytes were not sent; want 413 early", resp.StatusCode, body.left.Load())
	}
}

// spaces is a long body of white space.
type spaces struct{ left atomic.Int64 }

func (s *spaces) Read(p []byte) (int, error) {
	n := int(min(int64(len(p)), s.left.Load()))
	if n == 0 {
		return 0, fmt.Errorf("all was read")
	}
	for i := range n {
		p[i] = ' '
	}
	s.left.Add(int64(-n))
	return n, nil
}

// Other methods and paths reach no engine.
func TestOtherRequestsReachNoEngine(t *testing.T) {
	r := start(t, protocol.RoleDecode, &echo{err: jobs.Errorf(jobs.CodePanic, "asked")})
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/generate", 405}, {"PUT", "/generate", 405}, {"POST", "/prefill", 404}, {"POST", "/generate/", 404}, {"POST", "/health", 405},
		{"GET", "/../etc/passwd", 404}, {"GET", "/%2e%2e/etc/passwd", 404}, {"GET", "/", 404},
	} {
		if code, got := r.call(t, tt.method, tt.path, `{"prompt":"p"}`); code != tt.want {
			t.Errorf("%s %s: %d %v, want %d", tt.method, tt.path, code, got, tt.want)
		}
	}
}
