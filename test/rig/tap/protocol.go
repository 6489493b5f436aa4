package tap

import (
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// Limits of an operation, above those of any server that we ship.
const (
	maxLine    = 1 << 20  // bytes of a line, as of an INFO or CONNECT
	maxPayload = 16 << 20 // bytes of a message with its header
)

// errUnparsable is any text that is not of the protocol.
var errUnparsable = errors.New("not NATS")

// grammar says how one operation is written.
type grammar struct {
	verb     string
	min, max int  // arguments; 0 and 1 with text: all the rest of the line
	text     bool // the rest of the line is one argument
	sizes    int  // how many of the arguments, at the end, are sizes of what follows the line: 1 all of it, 2 header and all of it
}

// The operations of each side, from the protocol's documentation: docs.nats.io, "Client Protocol".
var (
	ofClient = []grammar{
		{verb: "PUB", min: 2, max: 3, sizes: 1},
		{verb: "HPUB", min: 3, max: 4, sizes: 2},
		{verb: "SUB", min: 2, max: 3},
		{verb: "UNSUB", min: 1, max: 2},
		{verb: "PING", max: 1, text: true},
		{verb: "PONG", max: 1, text: true},
		{verb: "CONNECT", min: 1, max: 1, text: true},
	}
	ofServer = []grammar{
		{verb: "MSG", min: 3, max: 4, sizes: 1},
		{verb: "HMSG", min: 4, max: 5, sizes: 2},
		{verb: "PING", max: 1, text: true},
		{verb: "PONG", max: 1, text: true},
		{verb: "+OK", max: 1, text: true},
		{verb: "-ERR", max: 1, text: true},
		{verb: "INFO", min: 1, max: 1, text: true},
	}
)

const (
	maxArgs = 5
	maxVerb = len("CONNECT")
)

// frame is an operation in the bytes as they were sent.
type frame struct {
	verb            string
	args            [maxArgs][]byte
	n               int    // arguments
	header, payload []byte // what follows the line
	size            int    // of all of it; 0: it is not all there yet
}

// scan finds the operation at the start of b.
func scan(b []byte, fromClient bool) (frame, error) {
	table := ofServer
	if fromClient {
		table = ofClient
	}
	end := bytes.IndexByte(b, '\n')
	line := b
	if end >= 0 {
		line = bytes.TrimSuffix(b[:end], []byte("\r"))
	}
	space := bytes.IndexAny(line, " \t")
	word, rest := line, []byte(nil)
	if space >= 0 {
		word, rest = line[:space], line[space:]
	}
	whole := end >= 0 || space >= 0
	if len(word) > maxVerb+1 || whole && len(word) > maxVerb { // one more, for a line's end that is only half there
		return frame{}, fmt.Errorf("%w: an operation begins with %.16q", errUnparsable, word)
	}
	if end < 0 && len(b) > maxLine {
		return frame{}, fmt.Errorf("%w: %s is longer than %d bytes", errUnparsable, word, maxLine)
	}
	if !whole {
		return frame{}, nil
	}
	for i := range table {
		if g := &table[i]; equalFold(word, g.verb) {
			if end < 0 {
				return frame{}, nil
			}
			return g.scan(b, end+1, rest)
		}
	}
	return frame{}, fmt.Errorf("%w: an operation begins with %.16q", errUnparsable, word)
}

// equalFold compares without allocating; verb is upper case.
func equalFold(word []byte, verb string) bool {
	if len(word) != len(verb) {
		return false
	}
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != verb[i] {
			return false
		}
	}
	return true
}

// scan reads the arguments, and what follows the line, which ends before b[after].
func (g *grammar) scan(b []byte, after int, rest []byte) (frame, error) {
	f := frame{verb: g.verb}
	if g.text {
		if rest = bytes.Trim(rest, " \t"); len(rest) > 0 {
			f.args[0], f.n = rest, 1
		}
	} else {
		for len(rest) > 0 {
			if rest = bytes.TrimLeft(rest, " \t"); len(rest) == 0 {
				break
			}
			end := bytes.IndexAny(rest, " \t")
			if end < 0 {
				end = len(rest)
			}
			if f.n == g.max {
				return frame{}, fmt.Errorf("%w: %s has more than %d arguments", errUnparsable, g.verb, g.max)
			}
			f.args[f.n], rest = rest[:end], rest[end:]
			f.n++
		}
	}
	if f.n < g.min {
		return frame{}, fmt.Errorf("%w: %s has %d arguments, not at least %d", errUnparsable, g.verb, f.n, g.min)
	}
	if g.sizes == 0 {
		f.size = after
		return f, nil
	}
	total, err := size(f.args[f.n-1])
	header := 0
	if err == nil && g.sizes == 2 {
		header, err = size(f.args[f.n-2])
	}
	if err != nil {
		return frame{}, fmt.Errorf("%w: %s: %w", errUnparsable, g.verb, err)
	}
	if header > total {
		return frame{}, fmt.Errorf("%w: %s: a header of %d bytes in a message of %d", errUnparsable, g.verb, header, total)
	}
	if len(b) < after+total+len("\r\n") {
		return frame{}, nil
	}
	body := b[after : after+total]
	if !bytes.HasPrefix(b[after+total:], []byte("\r\n")) {
		return frame{}, fmt.Errorf("%w: %s: the message does not end after the %d bytes that it says it has", errUnparsable, g.verb, total)
	}
	f.header, f.payload = body[:header], body[header:]
	f.size = after + total + len("\r\n")
	return f, nil
}

// size reads a decimal number of bytes.
func size(text []byte) (int, error) {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("size %.16q is not a number", text)
		}
		if n = n*10 + int(c-'0'); n > maxPayload {
			return 0, fmt.Errorf("size %.16s is over the limit of %d bytes", text, maxPayload)
		}
	}
	return n, nil
}

// op is the operation as somebody else sees it, still without where it passed. Its payload lies in the frame's bytes.
func (f *frame) op() (*Op, error) {
	op := &Op{Verb: f.verb, Payload: f.payload}
	switch f.verb {
	case "PUB", "HPUB":
		op.Subject = string(f.args[0])
		if sizes := 1 + len(f.verb) - len("PUB"); f.n == 2+sizes {
			op.Reply = string(f.args[1])
		}
	case "MSG", "HMSG":
		op.Subject = string(f.args[0])
		if sizes := 1 + len(f.verb) - len("MSG"); f.n == 3+sizes {
			op.Reply = string(f.args[2])
		}
	case "SUB":
		op.Subject = string(f.args[0])
	case "CONNECT", "INFO", "-ERR":
		op.Payload = f.args[0]
	}
	if f.verb == "HPUB" || f.verb == "HMSG" {
		var err error
		if op.Status, op.Header, err = parseHeader(f.header); err != nil {
			return nil, fmt.Errorf("%w: %s on %s: %w", errUnparsable, f.verb, op.Subject, err)
		}
	}
	return op, nil
}

// parseHeader reads a block of headers. The status is the number in its first line, empty if there is none.
func parseHeader(b []byte) (status string, h textproto.MIMEHeader, err error) {
	first, rest, ended := strings.Cut(string(b), "\n")
	line, begun := strings.CutPrefix(first, "NATS/1.0")
	if !begun || !ended {
		return "", nil, fmt.Errorf("the header begins with %.16q", b)
	}
	status, _, _ = strings.Cut(strings.TrimSpace(line), " ")
	h = textproto.MIMEHeader{}
	for {
		if line, rest, ended = strings.Cut(rest, "\n"); !ended {
			return "", nil, errors.New("the header has no end")
		}
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return status, h, nil
		}
		key, value, isPair := strings.Cut(line, ":")
		if !isPair {
			return "", nil, fmt.Errorf("a header line without a colon, of %d bytes", len(line))
		}
		h[key] = append(h[key], strings.TrimLeft(value, " \t"))
	}
}
