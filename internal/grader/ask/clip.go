package ask

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"tandem/internal/units"
)

// clipped is a text in two halves, between which something may be missing.
type clipped struct {
	head, tail string
	left       int // bytes that are missing between them
}

// clip makes a text safe, by a function that may change its length, and no longer than about so many bytes: the middle goes. What is left out is not made safe first, so that a text of any size costs
// little more than what is shown of it; but for what stands next to it, so that no name is cut before it is found.
func clip(text string, limit int, clean func(string) string) clipped {
	if len(text) <= limit {
		text = clean(text)
		middle := boundary(text, len(text)/2)
		return clipped{head: text[:middle], tail: text[middle:]}
	}
	half := limit / 2
	more := min(len(text), half+margin)
	head, tail := clean(text[:boundary(text, more)]), clean(text[after(text, len(text)-more):])
	head = head[:boundary(head, max(0, min(half, len(head)-more+half)))]
	tail = tail[after(tail, min(len(tail), max(len(tail)-half, more-half))):]
	return clipped{head: head, tail: tail, left: len(text) - len(head) - len(tail)}
}

// margin is how many bytes of what is left out are made safe.
const margin = 200

// cut returns the text with at most limit bytes, and how many bytes that took from it. What would not be shorter with a mark in it stays.
func (c clipped) cut(limit int) (text string, taken int) {
	whole := c.String()
	all := len(c.head) + len(c.tail)
	mark := leftOut(c.left + all)
	if len(whole) <= max(limit, len(mark)) {
		return whole, 0
	}
	room := max(0, limit-len(mark))
	head := boundary(c.head, min(len(c.head), room-room/2))
	tail := after(c.tail, max(0, len(c.tail)-room/2))
	short := clipped{head: c.head[:head], tail: c.tail[tail:]}
	taken = all - len(short.head) - len(short.tail)
	short.left = c.left + taken
	return short.String(), taken
}

// String is the text, with a mark where something is missing.
func (c clipped) String() string {
	if c.left == 0 {
		return c.head + c.tail
	}
	return strings.TrimPrefix(c.head+leftOut(c.left)+c.tail, "\n")
}

// leftOut is the mark.
func leftOut(bytes int) string {
	return fmt.Sprintf("\n[… %s bytes left out …]\n", units.Count(bytes))
}

// boundary returns the last place at or before n where a character begins.
func boundary(s string, n int) int {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// after returns the first place at or after n where a character begins.
func after(s string, n int) int {
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}
