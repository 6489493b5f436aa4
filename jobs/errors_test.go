package jobs

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestErrorf(t *testing.T) {
	tests := []struct {
		err           *Error
		message, text string
	}{
		{Errorf(CodeInvalid, "n is %d", 5), "n is 5", "n is 5"},
		{Errorf(CodeNATS, "connect: %w", io.EOF), "connect", "connect: EOF"},
		{Errorf(CodeNATS, "connect: %w: try again", io.EOF), "connect: EOF: try again", "connect: EOF: try again"},
		{Errorf(CodeInvalid, "job: %w", Errorf(CodeInvalid, "v is 2")), "job", "job: v is 2"},
	}
	for _, tt := range tests {
		if tt.err.Message != tt.message || tt.err.Error() != tt.text {
			t.Errorf("Errorf: message %q, text %q; want %q, %q", tt.err.Message, tt.err, tt.message, tt.text)
		}
	}
	if err := Errorf(CodeNATS, "connect: %w: try again", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("errors.Is(%v, io.EOF) = false", err)
	}
}

func TestIs(t *testing.T) {
	wrapped := fmt.Errorf("run: %w", Errorf(CodeCancelled, "somebody asked for it: %w", io.EOF))
	if !errors.Is(wrapped, ErrCancelled) {
		t.Errorf("errors.Is(%v, ErrCancelled) = false, want true", wrapped)
	}
	if errors.Is(wrapped, ErrDeadline) {
		t.Errorf("errors.Is(%v, ErrDeadline) = true, want false", wrapped)
	}
	if CodeOf(wrapped) != CodeCancelled || CodeOf(io.EOF) != CodeEngineFailed {
		t.Errorf("CodeOf = %s and %s, want %s and %s", CodeOf(wrapped), CodeOf(io.EOF), CodeCancelled, CodeEngineFailed)
	}
}
