package submitter

import (
	"errors"
	"io"
	"strings"

	"tandem/client"
)

// stream prints a job's text while it is generated: as it is, or, with --json, each piece as a line of JSON.
type stream struct {
	session  *session
	shown    strings.Builder // the text so far
	thinking bool            // the user knows
	err      error           // of stdout
}

// piece prints one piece.
func (o *stream) piece(p client.Piece) {
	if o.session.JSON {
		if p.Chunk != nil {
			o.note(o.session.print(p.Chunk))
		}
		if p.Result != nil {
			o.note(o.session.print(p.Result))
		}
		return
	}
	if p.Restart {
		o.breakLine()
		why := "the job is run again, its text begins anew:"
		if p.Result != nil {
			why = "pieces were lost on the way; the whole text:"
		}
		o.session.say("%s", why)
		o.shown.Reset()
	}
	if p.Thinking != "" && !o.thinking && p.Result == nil {
		o.thinking = true
		o.session.say("thinking …")
	}
	o.write(p.Text)
	if p.Result != nil {
		o.breakLine()
	}
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
	o.note(err)
}

func (o *stream) note(err error) { o.err = errors.Join(o.err, err) }
