package ollamatest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Fault is what goes wrong with one generation.
type Fault string

// The faults, in the order in which they strike.
const (
	HangFirst   Fault = "hang before the first byte"
	Reset       Fault = "connection closed without a byte"
	Busy        Fault = "503, as while loading"
	Missing     Fault = "404, model not found"
	OutOfMemory Fault = "500, the runner ran out of memory"
	Redirect    Fault = "307 to another path"
	Rubbish     Fault = "200 with a page of HTML"

	HangMid     Fault = "hang in the middle of the stream"
	LoseSlot    Fault = "hang in the middle of the stream, and the slot is free again only when the model was unloaded"
	ErrorLine   Fault = "error line after 200"
	CloseEarly  Fault = "stream that ends without done"
	CutLine     Fault = "connection closed within a line"
	RubbishLine Fault = "line that is no JSON"
	LongLine    Fault = "line without end"
	Repetition  Fault = "the same piece until Ollama gives up, done false"
	WrongDone   Fault = "done with a reason that no generation has"
	WrongCounts Fault = "more cached than prompt tokens"
)

// Fail makes the next generations fail, one after the other: times of them with this fault, then
// those of a later Fail, then none. Loading the model does not count.
func (s *Server) Fail(f Fault, times int) {
	s.change(func() {
		for range times {
			s.faults = append(s.faults, f)
		}
	})
}

// Heal forgets the faults that did not strike yet.
func (s *Server) Heal() { s.change(func() { s.faults = nil }) }

// nextFault takes the fault of the generation that begins now; empty if it has none.
func (s *Server) nextFault() (f Fault) {
	s.change(func() {
		if len(s.faults) > 0 {
			f, s.faults = s.faults[0], s.faults[1:]
		}
	})
	return f
}

// before strikes instead of an answer, and reports whether it did.
func (f Fault) before(ctx context.Context, w http.ResponseWriter, model string) bool {
	switch f {
	case HangFirst:
		<-ctx.Done()
	case Reset:
		panic(http.ErrAbortHandler)
	case Busy:
		writeError(w, http.StatusServiceUnavailable, "server busy, please try again.  maximum pending requests exceeded")
	case Missing:
		writeError(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", model))
	case OutOfMemory:
		writeError(w, http.StatusInternalServerError, "an error was encountered while running the model: out of memory")
	case Redirect:
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case Rubbish:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintln(w, "<html>this is no engine</html>")
	default:
		return false
	}
	return true
}

// within strikes after some pieces of the stream, and reports whether it did.
func (f Fault) within(ctx context.Context, out *stream) bool {
	switch f {
	case HangMid, LoseSlot:
		<-ctx.Done()
	case ErrorLine:
		out.line(map[string]string{"error": "an error was encountered while running the model: unexpected EOF"})
	case CloseEarly:
	case CutLine:
		io.WriteString(out.w, `{"model":"`)
		out.flush()
		panic(http.ErrAbortHandler)
	case RubbishLine:
		io.WriteString(out.w, "data: not JSON\n")
	case LongLine:
		for ctx.Err() == nil {
			if _, err := io.WriteString(out.w, strings.Repeat("x", 1<<20)); err != nil {
				break
			}
		}
	case Repetition:
		for range 31 {
			out.piece("again", "")
		}
	default:
		return false
	}
	return true
}
