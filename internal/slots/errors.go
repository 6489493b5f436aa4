package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"unicode"

	"tandem/jobs"
)

// ErrLoading is a server that will answer as soon as it has the model in memory. Compare with ==:
// errors.Is would match every busy server.
var ErrLoading error = &jobs.Error{Code: jobs.CodeEngineBusy, Message: "llama-server is loading the model"}

// Overflow is a prompt that does not fit a slot.
func Overflow(need, have int) error {
	return jobs.Errorf(jobs.CodeContextOverflow, "the job needs %d tokens of context and a slot of this worker has %d; shorten the prompt or raise the worker's context", need, have)
}

// Lost reports whether an error comes from the connection and not from the server. The server may be
// another one next time, so what is known of it must be forgotten.
func Lost(err error) bool {
	failure, ok := errors.AsType[*jobs.Error](err)
	return ok && failure.Err != nil
}

// apiError is how llama-server says no, as the body of an answer or as an event of a stream.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Prompt  int    `json:"n_prompt_tokens"` // type exceed_context_size_error
	Context int    `json:"n_ctx"`
}

// of makes it an error that protocol.Classify understands.
func (e apiError) of(at Endpoint, path string) error {
	switch {
	case e.Type == "exceed_context_size_error":
		return Overflow(e.Prompt, e.Context)
	case e.Code == http.StatusServiceUnavailable:
		return ErrLoading // the one reason that llama-server has for it
	case e.Code == http.StatusTooManyRequests:
		return jobs.Errorf(jobs.CodeEngineBusy, "llama-server is busy: %s", cmp.Or(e.text(), "no reason given"))
	case e.Code == http.StatusUnauthorized, e.Code == http.StatusForbidden:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "llama-server at %s refuses the API key; give the worker the one it was started with (--api-key)", at.URL)
	case e.Code >= 300 && e.Code < 400, e.Code == http.StatusNotFound, e.Code == http.StatusMethodNotAllowed:
		return jobs.Errorf(jobs.CodeEngineUnreachable, "%s answers %s with status %d, as llama-server would not; correct the engine URL", at.URL, path, e.Code)
	case e.Code >= 400 && e.Code < 500:
		return jobs.Errorf(jobs.CodeEngineRefused, "llama-server refuses the request: %s", cmp.Or(e.text(), fmt.Sprintf("status %d", e.Code)))
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "llama-server failed: %s", cmp.Or(e.text(), fmt.Sprintf("status %d", e.Code)))
}

// text is the message as one printable line, cut short. Builds differ in whether they quote the model's answer when it does
// not fit its chat template; an error must not hold it.
func (e apiError) text() string {
	if before, _, quotes := strings.Cut(e.Message, "Failed to parse input"); quotes {
		return apiError{Message: before + "the model's answer does not fit its chat template"}.text()
	}
	said := strings.ToValidUTF8(e.Message[:min(len(e.Message), 300)], "")
	return strings.Join(strings.FieldsFunc(said, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

// unreachable explains why no answer came.
func unreachable(ctx context.Context, at Endpoint, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return jobs.Errorf(jobs.CodeEngineUnreachable, "reach llama-server at %s: is it running, and is the engine URL right?: %w", at.URL, op.Err)
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "ask llama-server: %w", err)
}

// broken explains why an answer could not be read.
func broken(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return jobs.Errorf(jobs.CodeEngineFailed, "read llama-server's answer to %s: %w", path, err)
}
