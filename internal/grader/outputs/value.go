package outputs

import (
	"fmt"
	"strings"
)

// kind is what an output shows, in the words of [Comparison].
type kind string

const (
	numberKind  kind = "number"
	tableKind   kind = "table"
	textKind    kind = "text"
	pictureKind kind = "picture"
)

// value is one thing that an output shows.
type value struct {
	kind  kind
	num   scalar // of a number
	table *table
	text  string // of a text: its lines
}

// scalarValue is a single value: a number or a text.
func scalarValue(s scalar) value {
	if s.kind == word {
		return value{kind: textKind, text: strings.Trim(s.text, `"'`)}
	}
	return value{kind: numberKind, num: s}
}

func tableValue(t *table) value { return value{kind: tableKind, table: t} }

// single returns the value as a number if that is all that it shows: a table of one cell does, too.
func (v value) single() (scalar, bool) {
	switch {
	case v.kind == numberKind:
		return v.num, true
	case v.kind == tableKind && len(v.table.columns) == 1 && len(v.table.rows) == 1 && !v.table.partial && v.table.rows[0][0].kind != word:
		return v.table.rows[0][0], true
	}
	return scalar{}, false
}

// size is about how much work it is to compare the value, in cells.
func (v value) size() int {
	if v.kind == tableKind {
		return len(v.table.rows)*len(v.table.columns) + 1
	}
	return len(v.text)/bytesPerCell + 1
}

// String describes the value in a few words, for a person.
func (v value) String() string {
	switch v.kind {
	case numberKind:
		return v.num.text
	case tableKind:
		return fmt.Sprintf("a table of %d × %d", len(v.table.rows), len(v.table.columns))
	case textKind:
		return clip(v.text)
	}
	return "a picture"
}

// maxValue is the longest text that a discrepancy quotes, in runes.
const maxValue = 160

// clip makes a text short enough to be quoted in one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	count := 0
	for i := range s {
		if count == maxValue {
			return s[:i] + "…"
		}
		count++
	}
	return s
}
