package notebook

import (
	"bytes"
	"fmt"
	"regexp"
	"unicode/utf8"

	"tandem/internal/units"
)

// clean leaves of a text what a reader sees: it works in place, since every step only shortens. All line ends become \n, control
// characters and terminal escapes go. On a terminal a carriage return begins the line anew, so that of a progress bar
// the last state stays, and a backspace takes back a character; elsewhere a lone carriage return ends a line.
func clean(text []byte, terminal bool) []byte {
	out, line := text[:0], 0 // line is where the current line begins in out
	anew := false            // the next character begins the line anew
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n':
			out, anew = append(out, '\n'), false
			line = len(out)
		case r == '\r' && terminal:
			anew = true
		case r == '\r':
			if i+1 == len(text) || text[i+1] != '\n' {
				out = append(out, '\n')
			}
		case r == '\b' && terminal:
			_, size := utf8.DecodeLastRune(out[line:])
			out = out[:len(out)-size]
		case r == '\x1b' || r == '\u009b':
			n = escape(text[i:])
		case r == '\f' || r == '\v':
			out = append(out, ' ')
		case r < ' ' && r != '\t', r >= 0x7f && r < 0xa0:
		default:
			if anew {
				out, anew = out[:line], false
			}
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	return out
}

// escape returns the length of the terminal escape that the text begins with, by ECMA-48: a control sequence (colours, cursor), a
// command string (titles, links) or a short one. One that does not end where it should ends before that place.
func escape(text []byte) int {
	_, i := utf8.DecodeRune(text)
	kind := byte('[')
	if text[0] == '\x1b' {
		if i == len(text) {
			return i
		}
		kind = text[i]
		if kind >= 0x20 && kind <= 0x7e {
			i++
		}
	}
	run := func(low, high byte) {
		for i < len(text) && text[i] >= low && text[i] <= high {
			i++
		}
	}
	switch {
	case kind == '[':
		run(0x30, 0x3f)
		run(0x20, 0x2f)
		if i < len(text) && text[i] >= 0x40 && text[i] <= 0x7e {
			i++
		}
	case kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_':
		// ends with BEL or ESC \; one that the line ends first is none, and its text stays
		end := bytes.IndexAny(text[i:], "\a\x1b\n")
		if end >= 0 && text[i+end] == '\a' {
			return i + end + 1
		}
		if end >= 0 && bytes.HasPrefix(text[i+end:], []byte("\x1b\\")) {
			return i + end + 2
		}
	case kind >= 0x20 && kind <= 0x2f:
		run(0x20, 0x2f)
		if i < len(text) && text[i] >= 0x30 && text[i] <= 0x7e {
			i++
		}
	}
	return i
}

// cut keeps the head and the tail of a text that is longer than the limit, with a line between that says how much is missing. The
// result is no longer than the limit; left is how many bytes are missing.
func cut(text []byte, limit int) (short string, left int) {
	if len(text) <= limit {
		return string(text), 0
	}
	room := limit - len(cutMark(len(text)))
	if room < 0 { // no room for the line
		head := boundary(text, limit)
		return string(text[:head]), len(text) - head
	}
	head := boundary(text, room-room/2)
	tail := len(text) - room/2
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	left = tail - head
	return string(text[:head]) + cutMark(left) + string(text[tail:]), left
}

func cutMark(left int) string {
	return fmt.Sprintf("\n[… %s bytes left out …]\n", units.Count(left))
}

// boundary returns the last place at or before n where a character begins; n is at most the length.
func boundary(text []byte, n int) int {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// dataURI is a picture within a text, as Colab and R Markdown write them. The first group stays.
var dataURI = regexp.MustCompile(`(data:image/[a-zA-Z0-9.+-]+;base64,)[a-zA-Z0-9+/=%]{64,}`)

// dropPictures takes the pictures out of a text of markdown or HTML, and returns how many and their bytes.
func dropPictures(text []byte) (rest []byte, pictures, size int) {
	if !bytes.Contains(text, []byte("data:image/")) {
		return text, 0, 0
	}
	out, from := text[:0], 0
	for _, m := range dataURI.FindAllSubmatchIndex(text, -1) {
		out = append(out, text[from:m[3]]...)
		from = m[1]
		pictures++
		size += m[1] - m[3]
	}
	return append(out, text[from:]...), pictures, size
}
