package check

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tandem/internal/grader/notebook"
)

// template is the lines that the class was given. Without a template there are none.
type template struct {
	given bool
	lines map[string]int  // trimmed line → how often
	texts map[string]bool // words of a line of prose, joined by blanks
}

func readTemplate(nb *notebook.Notebook) *template {
	t := &template{lines: map[string]int{}, texts: map[string]bool{}}
	if nb == nil {
		return t
	}
	t.given = true
	for _, c := range nb.Cells {
		for line := range strings.SplitSeq(c.Source, "\n") {
			if !says(line) {
				continue
			}
			t.lines[strings.TrimSpace(line)]++
			if c.Kind != notebook.Code {
				t.texts[strings.Join(splitWords(line), " ")] = true
			}
		}
	}
	return t
}

// has reports whether the template has the line.
func (t *template) has(line string) bool { return t.lines[strings.TrimSpace(line)] > 0 }

// uncommented is a line of code without its comment.
func uncommented(line string) string {
	var quote rune
	for i, c := range line {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '#':
			return line[:i]
		}
	}
	return line
}

// waits is the end of a line whose statement goes on: an operator, an assignment, a comma or an open bracket.
var waits = regexp.MustCompile(`(?:\|>|%[^%\s]*%|[-+*/^&|~,=(\[{\\]|<<?-)\s*$`)

// statement is the index of the last line of the statement that stands on the line at an index: of those behind it, the ones that it waits for.
func statement(lines []string, at int) int {
	depth := 0
	for i := at; i < len(lines); i++ {
		line := uncommented(lines[i])
		depth += strings.Count(line, "(") + strings.Count(line, "[") + strings.Count(line, "{") - strings.Count(line, ")") - strings.Count(line, "]") - strings.Count(line, "}")
		switch {
		case depth > 0, strings.TrimSpace(line) == "", waits.MatchString(line):
		case strings.HasSuffix(strings.TrimSpace(line), ":"): // of Python: what is indented below it
			return block(lines, at, i)
		default:
			return i
		}
	}
	return len(lines) - 1
}

// block is the index of the last line that is indented more than the one at an index, behind its head, which ends at another.
func block(lines []string, at, head int) int {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
	end := head
	for i := head + 1; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == "" {
			continue
		}
		if indent(lines[i]) <= indent(lines[at]) {
			break
		}
		end = i
	}
	return end
}

var (
	// never begins what no run reaches: if (FALSE), if False:.
	never = regexp.MustCompile(`^\s*(?:if\s*\(\s*(?:FALSE|F|0)\s*\)|if\s+(?:False|0)\s*:)`)
	// halt is a line behind which nothing runs.
	halt = regexp.MustCompile(`^(?:stop|quit|q|exit|sys\.exit|os\._exit)\(.*\)\s*$|^raise\b`)
)

// unreached says of each line whether no run reaches it.
func unreached(lines []string) []bool {
	dead := make([]bool, len(lines))
	for i := 0; i < len(lines); i++ {
		switch {
		case never.MatchString(lines[i]):
			end := statement(lines, i)
			for ; i < end; i++ {
				dead[i] = true
			}
			dead[end] = true
		case halt.MatchString(uncommented(lines[i])):
			for i++; i < len(lines); i++ {
				dead[i] = true
			}
		}
	}
	return dead
}

var (
	pythonFunction = regexp.MustCompile(`^\s*(?:async\s+)?def\s+(\w+)\s*\(`)
	rFunction      = regexp.MustCompile(`^\s*([\pL.][\pL\pN._]*)\s*(?:<<?-|=)\s*(?:function\s*\(|\\\()`)
	global         = regexp.MustCompile(`^\s*(?:global|nonlocal)\s+\w`)
)

// functions marks the bodies of functions, and those of functions that nothing in the notebook uses as never reached.
func (c *checker) functions() {
	for i := range c.cells {
		one := &c.cells[i]
		definition := map[notebook.Language]*regexp.Regexp{notebook.Python: pythonFunction, notebook.R: rFunction}[one.language]
		if !one.code || definition == nil {
			continue
		}
		for at, line := range one.lines {
			m := definition.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			end := statement(one.lines, at)
			method := one.language == notebook.Python && line != strings.TrimLeft(line, " \t") // or within another function
			dead := !method && !c.used(m[1], i, at+1, end+1)
			shared := slices.ContainsFunc(one.lines[at:end+1], global.MatchString)
			for n := at + 1; n <= end; n++ {
				one.inner[n] = one.inner[n] || !shared
				one.dead[n] = one.dead[n] || dead
			}
		}
	}
}

// used reports whether a name is called, named or stands in quotes anywhere but on some lines of a cell.
func (c *checker) used(name string, cell, from, to int) bool {
	for i := range c.cells {
		f := c.cells[i].facts
		for _, names := range []map[string][]int{f.Called, f.Named, f.Strings} {
			if slices.ContainsFunc(names[name], func(n int) bool { return i != cell || n < from || n > to }) {
				return true
			}
		}
	}
	return false
}

// own reports whether what stands on a line of a cell, counted from 1, is the student's: the line, or one of those that its statement waits for, is not the template's.
func (t *template) own(lines []string, number int) bool {
	at := number - 1
	if !t.given || at >= len(lines) {
		return true
	}
	for _, line := range lines[at : statement(lines, at)+1] {
		if says(uncommented(line)) && !t.has(line) {
			return true
		}
	}
	return false
}

// hollow is a call that holds only a comment, from its name on.
func hollow(lines []string, number int, name string) bool {
	at := number - 1
	if at >= len(lines) {
		return false
	}
	text := strings.Join(lines[at:statement(lines, at)+1], "\n")
	begin := strings.Index(text, name+"(")
	if begin < 0 {
		return false
	}
	comment := false
	for line := range strings.SplitSeq(text[begin+len(name)+1:], "\n") {
		code := uncommented(line)
		if said := strings.TrimSpace(code); said != "" {
			return comment && strings.HasPrefix(said, ")")
		}
		comment = comment || len(code) < len(line)
	}
	return comment
}

// says reports whether a line says anything: blank ones, brackets and rules do not.
func says(line string) bool {
	return strings.ContainsFunc(line, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) })
}

// compare counts lines, each as often as it stands: the share of the template's that the notebook has, and how many of the notebook's the template has not.
func (t *template) compare(nb *notebook.Notebook) (unchanged float64, added int) {
	left := map[string]int{}
	all := 0
	for line, n := range t.lines {
		left[line] = n
		all += n
	}
	same := 0
	for _, c := range nb.Cells {
		for line := range strings.SplitSeq(c.Source, "\n") {
			if !says(line) {
				continue
			}
			if line = strings.TrimSpace(line); left[line] > 0 {
				left[line]--
				same++
			} else {
				added++
			}
		}
	}
	if all > 0 {
		unchanged = float64(same) / float64(all)
	}
	return unchanged, added
}

var (
	// noValue is what stands behind an assignment that is still to be written.
	noValue = regexp.MustCompile(`(?i)^(?:NULL|None|NA|NA_\w+_|NaN|\.\.\.|…|Ellipsis|pass|np\.nan|float\(['"]nan['"]\)|['"]?\W*(?:todo|fixme|tbd|your[ _](?:code|answer|value)(?:[ _](?:goes[ _])?here)?|fill[ _]?(?:this[ _]?)?in|replace[ _]me)\b.*)$`)
	// blank is a gap to be filled in.
	blank = regexp.MustCompile(`(?:^|[^\w.])_{2,}(?:[^\w]|$)`)
	// target is another variable between a variable and its value, as in x = y = value.
	target = regexp.MustCompile(`^\s*[\pL.][\pL\pN._]*\s*(?:<<?-|=)`)
	// literal is a value that nothing computes.
	literal = regexp.MustCompile(`^(?:[-+]?[\d.][\w.+-]*|"[^"]*"|'[^']*'|TRUE|FALSE|True|False|\[\s*\]|\{\s*\}|\(\s*\)|(?:c|list|tibble|data\.frame|dict|set|tuple|pd\.DataFrame|pandas\.DataFrame|pd\.Series)\(\s*\)|(?:numeric|character|integer|logical)\(0?\))$`)
)

// keepsPlace reports whether a line of a cell, counted from 1, that assigns a variable gives it no value yet.
func (t *template) keepsPlace(lines []string, number int, variable string) bool {
	line := lines[number-1]
	value, ok := assignedValue(line, variable)
	switch {
	case !ok:
		return false
	case value == "": // the value begins on the next line with code, unless that is an assignment of its own
		behind := lines[number : statement(lines, number-1)+1]
		i := slices.IndexFunc(behind, func(line string) bool { return strings.TrimSpace(uncommented(line)) != "" })
		return i < 0 || target.MatchString(behind[i])
	case noValue.MatchString(value), blank.MatchString(value):
		return true
	}
	return t.has(line) && literal.MatchString(value)
}

// assignedValue cuts what stands behind "variable <-" or "variable =" on a line, without its comment.
func assignedValue(line, variable string) (value string, ok bool) {
	rest := strings.TrimSpace(uncommented(line))
	for rest != "" {
		i := strings.Index(rest, variable)
		if i < 0 {
			return "", false
		}
		before, _ := utf8.DecodeLastRuneInString(rest[:i])
		rest = strings.TrimLeft(rest[i+len(variable):], "`\"' \t")
		if strings.ContainsRune("._$@", before) || unicode.IsLetter(before) || unicode.IsDigit(before) {
			continue // the end of another name
		}
		// An annotation stands between a name and its value.
		if after, annotated := strings.CutPrefix(rest, ":"); annotated && !strings.HasPrefix(after, "=") {
			if j := strings.IndexByte(after, '='); j >= 0 {
				rest = after[j:]
			}
		}
		for _, arrow := range []string{"<<-", "<-", ":=", "="} {
			if v, found := strings.CutPrefix(rest, arrow); found && !strings.HasPrefix(v, "=") {
				v, _, _ = strings.Cut(v, ";")
				for m := target.FindString(v); m != "" && !strings.HasPrefix(v[len(m):], "="); m = target.FindString(v) {
					v = v[len(m):]
				}
				return strings.TrimSpace(v), true
			}
		}
	}
	return "", false
}
