// Package telemetry is how Tandem says what it does: logs, metrics and traces. None ever holds text of a
// prompt or an answer, nor anything that names a student: only ids, counts, sizes and times.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// NewLogger writes to w in the given format: text (coloured on a terminal), json, or auto, which is
// text on a terminal and json otherwise.
func NewLogger(w io.Writer, format string, level slog.Level) (*slog.Logger, error) {
	terminal := false
	if f, ok := w.(*os.File); ok {
		terminal = isatty.IsTerminal(f.Fd())
	}
	switch {
	case format == "json", format == "auto" && !terminal:
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), nil
	case format == "text", format == "auto":
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal})), nil
	}
	return nil, fmt.Errorf("log-format is %q; want auto, text or json", format)
}
