package engines

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestUnloadOfAModelThatIsLoadedAgain: a worker whose model leaves the memory has it loaded again, which may be before anybody has looked.
func TestUnloadOfAModelThatIsLoadedAgain(t *testing.T) {
	var unloads atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/generate", func(w http.ResponseWriter, _ *http.Request) {
		unloads.Add(1)
		_, _ = io.WriteString(w, `{"done_reason": "unload"}`)
	})
	mux.HandleFunc("GET /api/ps", func(w http.ResponseWriter, _ *http.Request) {
		if unloads.Load() < 3 {
			_, _ = io.WriteString(w, `{"models": [{}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"models": []}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	e := &ollama{server: &server{options: Options{Models: []string{"m"}}, port: s.Listener.Addr().(*net.TCPAddr).Port, client: s.Client()}}
	if err := e.Unload(t.Context()); err != nil {
		t.Error(err)
	}
}
