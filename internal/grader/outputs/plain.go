package outputs

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxLines is how many lines of one output are read.
const maxLines = 20000

// readPlain reads a printed text into what it shows, from top to bottom: tables and vectors as R and Python print them, numbers that stand alone, and the text between.
func readPlain(s string) []value {
	var values []value
	var text []string
	flush := func() {
		if v := (value{kind: textKind, text: strings.Trim(strings.Join(text, "\n"), "\n")}); len(tokens(v.text)) > 0 {
			values = append(values, v)
		}
		text = nil
	}
	lines := speaking(s)
	for len(lines) > 0 {
		v, read := readBlock(lines)
		switch {
		case read == 0:
			text = append(text, lines[0])
			lines = lines[1:]
			continue
		case v.kind == textKind:
			text = append(text, v.text)
		default:
			flush()
			values = append(values, v)
		}
		lines = lines[read:]
	}
	flush()
	return values
}

// readBlock reads what begins with the first line, and says how many lines that are: 0 if the line is plain text.
func readBlock(lines []string) (value, int) {
	if strings.TrimSpace(lines[0]) == "" {
		return value{}, 0
	}
	for _, read := range []func([]string) (value, int){readStructure, readTibble, readPipes, readVector, readNamed, readFrame, readLiteral, readAligned} {
		if v, n := read(lines); n > 0 {
			return v, n
		}
	}
	if s := readScalar(lines[0]); s.kind != word {
		return scalarValue(s), 1
	}
	return value{}, 0
}

// speaking splits a text into lines without trailing blanks, less those that say nothing of the result.
func speaking(s string) []string {
	var lines []string
	list := false
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimRight(line, " \t\r")
		if utf8.RuneCountInString(line) > 0 && (chatter.MatchString(line) || list && strings.HasPrefix(line, "    ")) {
			list = list || masked.MatchString(line)
			continue
		}
		if rule.MatchString(line) {
			continue
		}
		line = quartiles.Replace(line)
		list = list && line == ""
		lines = append(lines, strings.ReplaceAll(line, "\t", "        "))
		if len(lines) == maxLines {
			break
		}
	}
	return lines
}

// rule is drawn between or around the rows of a table with a gap at each column, as knitr and tabulate do. One without gaps may part two tables.
var rule = regexp.MustCompile(`^[\s|+]*[-=:]{2,}(?:[\s|+]+[-=:]{2,})+[\s|+]*$`)

// quartiles keeps together the names in R's summary that are two words.
var quartiles = strings.NewReplacer("1st Qu.", "1st\u00a0Qu.", "3rd Qu.", "3rd\u00a0Qu.")

// masked is followed by an indented list of names.
var masked = regexp.MustCompile(`^The following objects? (is|are) masked from`)

// chatter is what libraries say when they are loaded or read a file, and what Python shows of an object that is a picture or has no text of its own.
var chatter = regexp.MustCompile(`^(` + strings.Join([]string{
	`Attaching (core )?package`, `── Attaching `, `── Conflicts `, `── Column specification`, `[✔✖ℹ] `, `Loading required package`, `Registered S3 method`,
	`The following objects? (is|are) masked from`, `Warning messages?:`, `Warning: `, `In addition: Warning`, `Rows: [\d,]+ Columns: [\d,]+$`, `Delimiter: `,
	`(chr|dbl|int|lgl|fct|date|dttm|time)\s+\(\d+\): `, `Parsed with column specification`, `Joining(, by =| with .by = )`, "`summarise\\(\\)` (has grouped|ungrouping)",
	`\S*Warning: `, `.*: \w*Warning: `, `plot without title`, `<Figure size [^>]*>`, `<Axes[:(][^>]*>`, `<[^<>]* at 0x[0-9a-fA-F]+>`, `\[?<matplotlib[^<>]*>`, `Text\(0(\.\d+)?, `,
}, "|") + `)`)
