package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxServerSentEvent bounds one event, in bytes. Events hold a few tokens and timings; the prompt is never sent back.
const MaxServerSentEvent = 1 << 20

// ServerSentEvents yields the data of each server-sent event of r, until r ends. The slice is valid until the
// next one. An event that r breaks off in is io.ErrUnexpectedEOF. What older llama-servers send as an
// "error:" field is yielded too: its data says what it is.
func ServerSentEvents(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4<<10), MaxServerSentEvent)
		var event []byte
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) == 0 {
				if len(event) > 0 && !yield(event, nil) {
					return
				}
				event = event[:0]
				continue
			}
			field, data, _ := bytes.Cut(line, []byte(":"))
			if f := string(field); f != "data" && f != "error" {
				continue // a comment, or a field that no engine uses
			}
			if len(event)+len(data) > MaxServerSentEvent {
				yield(nil, fmt.Errorf("an event is longer than %d bytes", MaxServerSentEvent))
				return
			}
			if len(event) > 0 {
				event = append(event, '\n')
			}
			event = append(event, bytes.TrimPrefix(data, []byte(" "))...)
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(nil, fmt.Errorf("a line is longer than %d bytes", MaxServerSentEvent))
		case err != nil:
			yield(nil, err)
		case len(event) > 0:
			yield(nil, io.ErrUnexpectedEOF)
		}
	}
}
