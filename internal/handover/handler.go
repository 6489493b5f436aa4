package handover

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	statePath = "/state/"

	wantState  = "state"
	wantDigest = "digest" // these are below a state's path
	wantPrefix = "prefix"
	wantRest   = "rest"

	// digestWait is how long a request waits for a digest before it is told to ask again, so that
	// neither side waits for an answer of which nobody knows whether it will come.
	digestWait = 10 * time.Second
	// prefixWait is likewise for the name of the rows of a prefix: after that the whole file may as well be fetched.
	prefixWait = 2 * time.Second
	// sendLimit is how long a receiver may take for pieceSent bytes: slower than 70 kB/s is of no use to anybody.
	sendLimit = time.Minute
	pieceSent = 4 << 20
)

// handler answers requests for states.
type handler struct {
	leases *leases
	log    *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	out := &sending{ResponseWriter: w, control: http.NewResponseController(w)}
	leave, open := h.leases.enter()
	if !open {
		notFound(out)
		return
	}
	defer leave()
	if r.ContentLength != 0 { // nothing here takes a body; it shall not be waited for
		_ = out.control.SetReadDeadline(start.Add(headerLimit))
	}
	job, want := h.answer(out, r)
	h.log.Debug("KV state request", "job", job, "wanted", want, "method", r.Method, "from", r.RemoteAddr,
		"status", out.status, "bytes", out.sent, "took", time.Since(start))
}

// answer answers, and says for the log what was asked for.
func (h *handler) answer(w *sending, r *http.Request) (job, want string) {
	id, want := splitPath(r.URL.Path)
	s := h.leases.find(id, bearer(r.Header.Get("Authorization")))
	without := s != nil && len(s.rows) == 0 && (want == wantPrefix || want == wantRest)
	if s == nil || want == "" || without {
		notFound(w)
		return "", "nothing that is here"
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case want == wantDigest && reading:
		sendDigest(w, r, s)
	case want == wantPrefix && reading:
		sendPrefix(w, r, s)
	case (want == wantState || want == wantRest) && reading:
		if err := sendState(w, r, s, want); err != nil {
			h.log.Warn("the file of a KV state cannot be read, and is dropped", "job", s.jobID(), "error", err)
			h.leases.drop(s)
		}
	case want == wantState && r.Method == http.MethodDelete:
		h.leases.drop(s)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
	return s.jobID(), want
}

// splitPath cuts a request's path into the id of a state and what is wanted of it, which is nothing for
// any other path.
func splitPath(path string) (id, want string) {
	id, ok := strings.CutPrefix(path, statePath)
	if !ok {
		return "", ""
	}
	want = wantState
	for _, below := range []string{wantDigest, wantPrefix, wantRest} {
		if short, ok := strings.CutSuffix(id, "/"+below); ok {
			id, want = short, below
			break
		}
	}
	if id == "" || strings.Contains(id, "/") {
		return "", ""
	}
	return id, want
}

// bearer is the token of an Authorization header, or nothing.
func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusNotFound)
}

// sendState sends the file, or what is wanted of it, or a range of that. An error says why there is none.
func sendState(w *sending, r *http.Request, s *lease, want string) error {
	file, err := os.Open(s.path)
	if err != nil {
		notFound(w)
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !os.SameFile(info, s.file) || info.Size() != s.bytes {
		notFound(w)
		return os.ErrNotExist
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	var content io.ReadSeeker = file
	if want == wantRest {
		others := newRest(file, s.rows, s.bytes)
		content = io.NewSectionReader(others, 0, others.size())
	}
	http.ServeContent(w, r, "", time.Time{}, content)
	return nil
}

// sendDigest waits for the digest, for a while.
func sendDigest(w *sending, r *http.Request, s *lease) {
	sendReady(w, r, s, s.digest.ready, digestWait, func() {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, s.digest.hex) // an error is the client's
	})
}

// sendPrefix waits until the rows have a name, for a while.
func sendPrefix(w *sending, r *http.Request, s *lease) {
	sendReady(w, r, s, s.named, prefixWait, func() {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(prefix{s.name, s.rows}) // likewise
	})
}

func sendReady(w *sending, r *http.Request, s *lease, ready <-chan struct{}, limit time.Duration, send func()) {
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case <-ready:
		send()
	case <-wait.C:
		w.WriteHeader(http.StatusAccepted)
	case <-s.released.Done():
		notFound(w)
	case <-r.Context().Done():
	}
}

// sending is a response that is counted, and that may take as long as it needs while the receiver
// takes its pieces in time.
type sending struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	sent    int64
}

// Unwrap is for http.ResponseController.
func (w *sending) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the status.
func (w *sending) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *sending) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// ReadFrom sends a file by pieces. Where the system can, each goes from the page cache to the network
// without being copied, for which the reader must be seen to be a file.
func (w *sending) ReadFrom(src io.Reader) (total int64, err error) {
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	for whole.N > 0 {
		_ = w.control.SetWriteDeadline(time.Now().Add(sendLimit)) // a connection that is gone fails below
		piece := &io.LimitedReader{R: whole.R, N: min(whole.N, pieceSent)}
		n, err := io.Copy(w.ResponseWriter, piece)
		total += n
		w.sent += n
		whole.N -= n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}
