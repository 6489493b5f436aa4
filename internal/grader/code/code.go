// Package code reads R and Python token by token, as far as a grader needs it: what is assigned, called and named, outside
// of strings and comments. It parses no grammar, so it also reads code that does not run.
package code

import (
	"regexp"
	"slices"
	"strings"

	"tandem/internal/grader/notebook"
)

// Facts are what a piece of code does. Line numbers count from 1, ascend, and stand once each.
type Facts struct {
	Assigned  map[string][]int // variable → lines that give it a value
	Called    map[string][]int // function → lines; of pkg::f and obj.f the last name, too: f. R's infix functions such as %in% and |> are called
	Named     map[string][]int // every other name: columns in dplyr verbs, attributes after a dot or $, names of arguments, variables that are used
	Strings   map[string][]int // content of short string literals: columns in ["…"] and by = "…"
	Shown     map[string][]int // variables that the code displays: alone on a line whose value is displayed, or within print, head, display, glimpse, View and the like
	Commented map[string][]int // words of comments
	Quoted    map[string][]int // words of string literals
	Lines     int              // that hold code, comments and blank lines aside
}

// maxString is the length in bytes up to which a string literal may be the name of something.
const maxString = 200

// Analyse reads a cell. For notebook.Other all maps are empty, and each line that is not blank counts as code.
//
// R assigns by <-, <<-, =, ->, ->>, %<>%, "for (x in" and assign("x", …); = inside of a call's parentheses names an argument and assigns nothing. Python assigns by =, +=,
// :=, "for x in", "with … as x", "import … as x", def, class and unpacking; == compares, and the variable of a comprehension is gone after it. x$y <- v, x[i] <- v,
// x.y = v and x["y"] = v change x, which must exist: they count as naming y, not as assigning x.
//
// A string that is not closed ends with the cell (in Python with its line unless it has three quotes), a bracket that is not closed encloses nothing.
func Analyse(lang notebook.Language, source string) *Facts {
	f := &Facts{
		Assigned: map[string][]int{}, Called: map[string][]int{}, Named: map[string][]int{}, Strings: map[string][]int{},
		Shown: map[string][]int{}, Commented: map[string][]int{}, Quoted: map[string][]int{},
	}
	if lang == notebook.Python {
		first, _, _ := strings.Cut(source, "\n")
		if lang, source = cellMagic(source); lang == notebook.R {
			handedBack(f, first, 1)
		}
	}
	var lexed *lexer
	switch lang {
	case notebook.R:
		lexed = lexR(source)
	case notebook.Python:
		lexed = lexPython(source, 1, 0)
	default:
		for line := range strings.SplitSeq(source, "\n") {
			if strings.TrimSpace(line) != "" {
				f.Lines++
			}
		}
		return f
	}
	for _, c := range lexed.comments {
		addWords(f.Commented, c.text, c.line)
	}
	f.Lines = codeLines(lexed.tokens)
	for _, t := range lexed.tokens {
		if rest, ok := strings.CutPrefix(t.text, "%R "); ok && t.kind == magic {
			f.addLine(handedBack(f, rest, t.line), t.line)
		}
	}
	r := newReader(lang, lexed.tokens, f)
	r.read()
	r.showStatements()
	for _, m := range []map[string][]int{f.Assigned, f.Called, f.Named, f.Strings, f.Shown, f.Commented, f.Quoted} {
		for k, lines := range m {
			slices.Sort(lines)
			m[k] = slices.Compact(lines)
		}
	}
	return f
}

// LanguageOf is the language that a cell is in: the one given, or what a magic of IPython says.
func LanguageOf(lang notebook.Language, source string) notebook.Language {
	if lang == notebook.Python {
		lang, _ = cellMagic(source)
	}
	return lang
}

// cellMagic reads the first line of a cell that says in which language the rest is: %%R and the like. The line itself is blanked.
func cellMagic(source string) (notebook.Language, string) {
	first, rest, _ := strings.Cut(source, "\n")
	word, ok := strings.CutPrefix(strings.TrimSpace(first), "%%")
	if !ok {
		return notebook.Python, source
	}
	if i := strings.IndexAny(word, " \t"); i >= 0 {
		word = word[:i]
	}
	switch {
	case word == "R":
		return notebook.R, "\n" + rest
	case foreign[word]:
		return notebook.Other, source
	}
	return notebook.Python, source
}

// option is one of the magics of R in Python: -i x,y -o z -w 400 --noreturn.
var option = regexp.MustCompile(`(?:^|\s)(-o|--output|-i|--input|-c|--converter|-w|-h|-u|-p|-b|-r|-n|--?\w+)(?:[ =]([\w.,]+))?`)

// handedBack notes the variables of Python that a magic of R assigns (-o), and returns its line without options.
func handedBack(f *Facts, text string, line int) string {
	for _, m := range option.FindAllStringSubmatch(text, -1) {
		if m[1] == "-o" || m[1] == "--output" {
			for name := range strings.SplitSeq(m[2], ",") {
				add(f.Assigned, name, line)
			}
		}
	}
	for {
		at := option.FindStringIndex(text)
		if at == nil || strings.TrimSpace(text[:at[0]]) != "" {
			return text
		}
		text = text[at[1]:]
	}
}

// addLine reads a line of R among Python.
func (f *Facts) addLine(text string, line int) {
	one := Analyse(notebook.R, text)
	for _, both := range [][2]map[string][]int{
		{f.Assigned, one.Assigned}, {f.Called, one.Called}, {f.Named, one.Named}, {f.Strings, one.Strings}, {f.Shown, one.Shown}, {f.Commented, one.Commented}, {f.Quoted, one.Quoted},
	} {
		for name := range both[1] {
			add(both[0], name, line)
		}
	}
}

// foreign are the cell magics whose cell holds no Python.
var foreign = words("bash sh script cmd html HTML javascript js latex markdown svg SVG perl ruby writefile file sql bigquery cython julia")

// codeLines counts the lines on which a token stands.
func codeLines(tokens []token) int {
	n, last := 0, 0
	for _, t := range tokens {
		if t.kind == end {
			continue
		}
		n += t.last - max(t.line, last+1) + 1
		last = t.last
	}
	return n
}

// addWords adds each word of a text, with the line it stands on. Words are as in names of R and Python; a dotted one counts whole and in its parts.
func addWords(m map[string][]int, s string, line int) {
	for l := range strings.SplitSeq(s, "\n") {
		for w := range strings.FieldsFuncSeq(l, func(c rune) bool { return c != '.' && !nameRune(c) }) {
			w = strings.Trim(w, ".")
			add(m, w, line)
			if strings.Contains(w, ".") {
				for p := range strings.SplitSeq(w, ".") {
					add(m, p, line)
				}
			}
		}
		line++
	}
}

// add notes that something stands on a line.
func add(m map[string][]int, key string, line int) {
	if key != "" {
		if lines := m[key]; len(lines) == 0 || lines[len(lines)-1] != line {
			m[key] = append(lines, line)
		}
	}
}
