package code

import (
	"strings"

	"tandem/internal/grader/notebook"
)

// reader goes over the tokens of a cell and notes facts.
type reader struct {
	lang     notebook.Language
	tokens   []token // line ends that end no statement are left out
	assigned []bool  // of each token: it is given a value
	facts    *Facts

	aggregated int // up to here strings were read as names of aggregates
}

func newReader(lang notebook.Language, tokens []token, f *Facts) *reader {
	pair(tokens)
	tokens = joinLines(lang, tokens)
	pair(tokens)
	return &reader{lang: lang, tokens: tokens, assigned: make([]bool, len(tokens)), facts: f}
}

// joinLines leaves out the line ends that end no statement: those within parentheses, and in R those after an operator.
func joinLines(lang notebook.Language, tokens []token) []token {
	kept := make([]token, 0, len(tokens))
	var around []string // the closed brackets around here
	for _, t := range tokens {
		switch {
		case t.kind == open && t.match >= 0:
			around = append(around, t.text)
		case t.kind == closing && t.match >= 0:
			around = around[:len(around)-1]
		case t.kind == end && t.text == "\n":
			if n := len(around); n > 0 && !(lang == notebook.R && around[n-1] == "{") {
				continue
			}
			if n := len(kept); lang == notebook.R && n > 0 && kept[n-1].kind == op {
				continue
			}
		}
		t.match = -1
		kept = append(kept, t)
	}
	return kept
}

// at returns a token, an end beyond the cell.
func (r *reader) at(i int) *token {
	if i < 0 || i >= len(r.tokens) {
		return &token{kind: end, match: -1}
	}
	return &r.tokens[i]
}

// read notes what is assigned, called, named and quoted.
func (r *reader) read() {
	if r.lang == notebook.R {
		r.assignR()
	} else {
		r.assignPython()
	}
	for i := range r.tokens {
		t := &r.tokens[i]
		switch t.kind {
		case name:
			r.readName(i)
		case text:
			r.readString(i)
		case op:
			if r.lang == notebook.R && (t.text == "|>" || len(t.text) > 1 && t.text[0] == '%') {
				add(r.facts.Called, t.text, t.line)
			}
		}
	}
}

func (r *reader) readName(i int) {
	t := r.at(i)
	switch {
	case r.assigned[i]:
		add(r.facts.Assigned, t.text, t.line)
	case r.isCall(i):
		add(r.facts.Called, t.text, t.line)
		if path := r.path(i); path != t.text {
			add(r.facts.Called, path, t.line)
		}
		if r.at(i+1).match >= 0 {
			if always[r.lang][t.text] {
				r.showCall(i, 0)
			}
			r.readHanded(i)
		}
	default:
		add(r.facts.Named, t.text, t.line)
	}
}

// isCall reports whether the name at i is called: by parentheses, or in R as the end of a pipe.
func (r *reader) isCall(i int) bool {
	next := r.at(i + 1)
	if r.lang != notebook.R || next.is("(") {
		return next.is("(")
	}
	return !r.qualifies(i+1) && !next.is("$") && !next.is("@") && r.at(r.pathStart(i)-1).is("%>%")
}

// path is a name with what qualifies it, as in dplyr::filter or pd.merge.
func (r *reader) path(i int) string {
	var b strings.Builder
	for from := r.pathStart(i); from <= i; from++ {
		b.WriteString(r.at(from).text)
	}
	return b.String()
}

// pathStart is the index of the first name of the path that ends at i.
func (r *reader) pathStart(i int) int {
	for i >= 2 && r.qualifies(i-1) && r.at(i-2).kind == name {
		i -= 2
	}
	return i
}

// qualifies reports whether the token joins the name before it and the one after it to a path.
func (r *reader) qualifies(i int) bool {
	t := r.at(i)
	if r.lang == notebook.R {
		return t.is("::") || t.is(":::")
	}
	return t.is(".")
}

// inner are the functions whose string is itself code that names columns.
var inner = words("query eval ols logit probit glm mixedlm")

func (r *reader) readString(i int) {
	t := r.at(i)
	if r.assigned[i] {
		add(r.facts.Assigned, t.text, t.line)
		return
	}
	if len(t.text) <= maxString && !strings.Contains(t.text, "\n") {
		add(r.facts.Strings, t.text, t.line)
	}
	addWords(r.facts.Quoted, t.text, t.line)
	for _, part := range t.parts {
		r.readPart(part)
	}
	if r.lang == notebook.Python && r.at(i-1).is("(") && inner[r.at(i-2).text] && len(t.parts) == 0 {
		r.readPart(lexPython(t.text, t.line, maxNested).tokens)
	}
}

// readPart notes what an expression within a string names and calls.
func (r *reader) readPart(tokens []token) {
	p := newReader(r.lang, tokens, r.facts)
	for i := range p.tokens {
		switch p.tokens[i].kind {
		case name:
			p.readName(i)
		case text:
			p.readString(i)
		}
	}
}
