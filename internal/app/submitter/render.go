package submitter

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"tandem/internal/sanitize"
	"tandem/jobs"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// sanitizeWriter sanitizes what is written to a terminal, write by write; each must be whole characters.
type sanitizeWriter struct{ w io.Writer }

func (w sanitizeWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, sanitize.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// textWriter is where text of a model goes: as it is into a file or a pipe, sanitized on a terminal.
func textWriter(w io.Writer) io.Writer {
	if isTerminal(w) {
		return sanitizeWriter{w}
	}
	return w
}

// summary says in one line how a result came about.
func summary(r *jobs.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", r.JobID, r.Status)
	if r.Method != "" {
		fmt.Fprintf(&b, ", %s", r.Method)
	}
	if r.Status == jobs.Succeeded {
		t, u := r.Timings, r.Usage
		fmt.Fprintf(&b, "; prefill %d tokens in %s (%s)", u.PromptTokens, secs(t.PrefillSeconds), rate(t.PrefillTokensPerSecond))
		fmt.Fprintf(&b, "; decode %d tokens in %s (%s)", u.GeneratedTokens, secs(t.DecodeSeconds), rate(t.DecodeTokensPerSecond))
		fmt.Fprintf(&b, "; total %s", secs(t.TotalSeconds))
	}
	switch s := r.Servers; {
	case s.Prefill != "" && s.Decode != "" && s.Prefill != s.Decode:
		fmt.Fprintf(&b, "; %s → %s", s.Prefill, s.Decode)
	case s.Prefill != "" || s.Decode != "":
		fmt.Fprintf(&b, "; %s", max(s.Prefill, s.Decode))
	}
	return cell(b.String())
}

// problem says in one line why a job did not succeed.
func problem(r *jobs.Result) string {
	if r.Error == nil {
		return string(r.Status)
	}
	if r.Error.Stage == "" {
		return cell(fmt.Sprintf("%s: %s", r.Status, r.Error.Message))
	}
	said := strings.TrimPrefix(r.Error.Message, string(r.Error.Stage)+": ") // an engine may say, too, where it failed
	return cell(fmt.Sprintf("%s at %s: %s", r.Status, r.Error.Stage, said))
}

// secs writes a time as the tables do: 0.68 s, 12.3 s, 754 s.
func secs(s float64) string { return figure(s) + " s" }

func rate(perSecond float64) string {
	if perSecond <= 0 {
		return "– tok/s"
	}
	return figure(perSecond) + " tok/s"
}

// figure writes a number with three digits that count.
func figure(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// clock writes a duration as a person says it: 3 s, 2 min 05 s, 1 h 20 min.
func clock(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}
