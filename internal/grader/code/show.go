package code

import "tandem/internal/grader/notebook"

// always are the functions that display each of their arguments, wherever they stand.
var always = map[notebook.Language]map[string]bool{
	notebook.R:      words("print cat message View glimpse str display show writeLines"),
	notebook.Python: words("print display pprint"),
}

// through are the functions whose value is their first argument, a part of it, or it in another order or dress: what displays their value displays that.
var through = map[notebook.Language]map[string]bool{
	notebook.R: words("head tail slice slice_head slice_tail arrange relocate ungroup collect as_tibble as.data.frame as.data.table as.numeric as.vector unname round signif " +
		"kable kbl kable_styling kable_classic kable_minimal column_spec row_spec gt tab_header fmt_number fmt_currency fmt_percent cols_label datatable flextable paged_table " +
		"dollar percent comma formatC prettyNum"),
	notebook.Python: words("head tail sample nlargest nsmallest sort_values sort_index reset_index set_index to_frame copy round to_string to_markdown to_html style format hide set_caption background_gradient"),
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
	if r.showMethods(from, to) || r.showJoined(from, to, depth) {
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

// showJoined notes what is displayed by a text with values in it: "a" + str(x), "%d" % x and "{}".format(x).
func (r *reader) showJoined(from, to, depth int) bool {
	if r.lang != notebook.Python {
		return false
	}
	if r.at(from).kind == text && r.at(from+1).is(".") {
		r.show(from, from+1, depth+1)
		if r.at(from+2).text == "format" && r.at(from+3).is("(") && r.at(from+3).match >= 0 {
			r.showCall(from+2, depth)
		}
		return true
	}
	isText := false
	operands := []int{from} // where each begins, and behind the last
	for i := from; i < to; i++ {
		t := r.at(i)
		isText = isText || t.kind == text
		if t.is("+") || t.is("%") {
			operands = append(operands, i+1)
		} else if t.match > i {
			i = t.match
		}
	}
	if !isText || len(operands) == 1 {
		return false
	}
	operands = append(operands, to+1)
	for k, operand := range operands[:len(operands)-1] {
		end := operands[k+1] - 1
		if r.at(operand).is("(") && r.at(operand).match == end-1 {
			r.showArguments(operand+1, end-1, depth, false)
		} else {
			r.show(operand, end, depth+1)
		}
	}
	return true
}

// showCall notes what is displayed if the value of the call of the name at i is: its arguments that have no name.
func (r *reader) showCall(i, depth int) {
	r.showArguments(i+2, r.at(i+1).match, depth, through[r.lang][r.at(i).text] && !spelling[r.lang][r.at(i).text])
}

// showArguments notes what is displayed if the values of the arguments [from, to) are, or of the first alone.
func (r *reader) showArguments(from, to, depth int, first bool) {
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
