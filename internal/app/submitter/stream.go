package submitter

import (
	"errors"
	"io"
	"strings"

	"tandem/jobs"
)

// stream prints a job's text while it is generated: as it is, or, with --json, each piece as a line of JSON.
type stream struct {
	session  *session
	attempt  int             // of the job's stage that writes
	shown    strings.Builder // its text so far
	thinking bool            // the user knows
	err      error           // the first of stdout
}

// chunk prints one piece.
func (o *stream) chunk(c *jobs.Chunk) {
	if o.session.JSON {
		o.keep(o.session.print(c))
		return
	}
	if c.Attempt > o.attempt && o.shown.Len() > 0 {
		o.breakLine()
		o.session.say("the job is run again, its text begins anew:")
		o.shown.Reset()
	}
	o.attempt = c.Attempt
	if c.Thinking != "" && !o.thinking {
		o.thinking = true
		o.session.say("thinking …")
	}
	o.write(c.Text)
}

// finish prints what the pieces lacked: they may be lost, the result is not.
func (o *stream) finish(r *jobs.Result) error {
	switch rest, whole := strings.CutPrefix(r.Text, o.shown.String()); {
	case o.session.JSON:
		o.keep(o.session.print(r))
	case r.Status != jobs.Succeeded:
	case whole:
		o.write(rest)
	default:
		o.breakLine()
		o.session.say("pieces were lost on the way; the whole text:")
		o.shown.Reset()
		o.write(r.Text)
	}
	o.breakLine()
	return o.err
}

// breakLine ends a line that is not ended.
func (o *stream) breakLine() {
	if text := o.shown.String(); text != "" && !strings.HasSuffix(text, "\n") {
		o.write("\n")
	}
}

func (o *stream) write(text string) {
	o.shown.WriteString(text)
	_, err := io.WriteString(textWriter(o.session.out), text)
	o.keep(err)
}

func (o *stream) keep(err error) { o.err = errors.Join(o.err, err) }
