package code

import "tandem/internal/grader/notebook"

// always are the functions that display each of their arguments, wherever they stand.
var always = map[notebook.Language]map[string]bool{
	notebook.R:      words("print cat message View glimpse str display show writeLines"),
	notebook.Python: words("print display pprint"),
}

// through are the functions whose value is their first argument, or a part of it: what displays their value displays that.
var through = map[notebook.Language]map[string]bool{
	notebook.R:      words("head tail kable kbl kable_styling gt datatable flextable paged_table as_tibble as.data.frame slice_head slice_tail ungroup round signif"),
	notebook.Python: words("head tail sample to_string to_markdown to_html round style"),
}

// spelling are the functions that make a text of all their arguments.
var spelling = map[notebook.Language]map[string]bool{
	notebook.R:      words("paste paste0 sprintf glue format toString c list"),
	notebook.Python: words("str repr format Markdown HTML tabulate"),
}

// maxShow bounds how deep calls within calls are followed, so that the time stays linear.
const maxShow = 8

// showStatements notes what statements display by their value: in R each at the top level, in Python the last one of the cell.
func (r *reader) showStatements() {
	from := 0
	lastFrom, lastTo := 0, 0
	for i := 0; i <= len(r.tokens); i++ {
		t := r.at(i)
		if t.kind != end {
			if t.match > i {
				i = t.match
			}
			continue
		}
		if r.lang == notebook.R {
			r.show(from, i, 0)
		} else if from < i || t.text == ";" {
			// A semicolon after the last value keeps IPython from displaying it.
			lastFrom, lastTo = from, i
		}
		from = i + 1
	}
	if r.lang == notebook.Python && r.at(lastTo).text != ";" {
		r.show(lastFrom, lastTo, 0)
	}
}

// show notes the variable that is displayed if the value of the expression [from, to) is.
func (r *reader) show(from, to, depth int) {
	if depth > maxShow {
		return
	}
	inner := depth > 0
	for from < to && r.at(from).is("(") && r.at(from).match == to-1 {
		from, to, inner = from+1, to-1, true
	}
	if from >= to {
		return
	}
	if arrow := r.at(from + 1); r.assigned[from] && (arrow.is("<-") || arrow.is("=") || arrow.is(":=")) {
		// (x <- value) and print(x <- value) display x; x <- value does not.
		if inner {
			add(r.facts.Shown, r.at(from).text, r.at(from).line)
		}
		return
	}
	if first := r.at(from); to-from == 1 {
		switch first.kind {
		case name:
			add(r.facts.Shown, first.text, first.line)
		case text:
			for _, part := range first.parts {
				p := newReader(r.lang, part, r.facts)
				p.show(0, len(p.tokens), depth+1)
			}
		}
		return
	}
	if r.lang == notebook.R {
		pipe := from
		for i := from; i < to; i++ {
			if t := r.at(i); t.is("|>") || t.is("%>%") {
				if pipe == from {
					pipe = i
				}
				if f := r.function(i+1, to); !through[r.lang][f] && !always[r.lang][f] {
					return
				}
			} else if t.is("->") || t.is("->>") {
				return
			} else if t.match > i {
				i = t.match
			}
		}
		if pipe > from {
			r.show(from, pipe, depth+1)
			return
		}
	}
	if r.showMethods(from, to) {
		return
	}
	// A call: its name may be qualified.
	i := from
	for i < to && r.at(i).kind == name && r.qualifies(i+1) {
		i += 2
	}
	if f := r.at(i).text; r.at(i).kind == name && r.at(i+1).is("(") && r.at(i+1).match == to-1 && (through[r.lang][f] || spelling[r.lang][f]) {
		r.showCall(i, depth)
	}
}

// function is the last name of the qualified name that begins at i, "" if there is none.
func (r *reader) function(i, to int) string {
	for i+2 < to && r.qualifies(i+1) {
		i += 2
	}
	if i < to && r.at(i).kind == name {
		return r.at(i).text
	}
	return ""
}

// showMethods notes the x of x.head() and x.tail(3).round(2).
func (r *reader) showMethods(from, to int) bool {
	if r.lang != notebook.Python || r.at(from).kind != name || !r.at(from+1).is(".") {
		return false
	}
	for i := from + 1; i < to; {
		if !r.at(i).is(".") || !through[r.lang][r.at(i+1).text] {
			return false
		}
		i += 2
		if r.at(i).is("(") {
			if r.at(i).match < 0 {
				return false
			}
			i = r.at(i).match + 1
		}
	}
	add(r.facts.Shown, r.at(from).text, r.at(from).line)
	return true
}

// showCall notes what is displayed if the value of the call of the name at i is: its arguments that have no name.
func (r *reader) showCall(i, depth int) {
	first := through[r.lang][r.at(i).text]
	from, to := i+2, r.at(i+1).match
	for from < to {
		comma := r.find(from, to, ",")
		if !r.at(from + 1).is("=") {
			r.show(from, comma, depth+1)
			if first {
				return
			}
		}
		from = comma + 1
	}
}
