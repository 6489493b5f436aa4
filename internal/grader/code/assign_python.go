package code

import "strings"

// assignPython marks what Python code gives a value.
func (r *reader) assignPython() {
	from := 0
	for i := 0; i <= len(r.tokens); i++ {
		if r.at(i).kind == end {
			r.statement(from, i)
			from = i + 1
		} else if r.at(i).is(":=") {
			r.assign(i - 1)
		} else if r.at(i).match > i {
			for j := i; j < r.at(i).match; j++ {
				if r.at(j).is(":=") && r.at(j-1).kind == name {
					r.assigned[j-1] = true
				}
			}
			i = r.at(i).match
		}
	}
}

var blocks = words("if elif else for while with try except finally def class async")

// statement reads the tokens [from, to) as one statement; after the colon of a block there may be another.
func (r *reader) statement(from, to int) {
	for from < to && r.at(from).kind == keyword && blocks[r.at(from).text] {
		if r.at(from).is("async") {
			from++
			continue
		}
		colon := r.find(from, to, ":")
		r.header(from, colon)
		from = colon + 1
	}
	if from >= to {
		return
	}
	switch first := r.at(from); {
	case first.is("import"):
		r.imports(from+1, to)
	case first.is("from"):
		r.imports(r.find(from, to, "import")+1, to)
	default:
		r.assignment(from, to)
	}
}

// find is the index of the operator or keyword between from and to that stands in no closed bracket, else to.
func (r *reader) find(from, to int, what string) int {
	for i := from; i < to; i++ {
		if r.at(i).is(what) {
			return i
		}
		if m := r.at(i).match; m > i {
			i = m
		}
	}
	return to
}

// header reads the head of a block.
func (r *reader) header(from, to int) {
	switch first := r.at(from); first.text {
	case "def", "class":
		if from+1 < to && r.at(from+1).kind == name {
			r.assigned[from+1] = true
		}
	case "for":
		r.targets(from+1, r.find(from, to, "in"))
	case "with", "except":
		for i := from; i < to; i++ {
			if r.at(i).is("as") {
				stop := i + 1
				for stop < to && !r.at(stop).is(",") && (r.at(stop).kind != closing) {
					if m := r.at(stop).match; m > stop {
						stop = m
					}
					stop++
				}
				r.targets(i+1, min(stop, to))
				i = stop
			}
		}
	}
}

// imports reads what stands after import.
func (r *reader) imports(from, to int) {
	first := true // of a clause
	for i := from; i < to; i++ {
		switch t := r.at(i); {
		case t.is(",") || t.kind == open:
			first = true
		case t.kind == name && r.at(i-1).is("as"):
			r.assigned[i] = true
		case t.kind == name && first:
			first = false
			as := i + 1
			for as < to && (r.at(as).is(".") || r.at(as).kind == name) {
				as++
			}
			r.assigned[i] = !r.at(as).is("as")
		}
	}
}

// assignment reads a = b = value, a += value and a: type = value.
func (r *reader) assignment(from, to int) {
	start := from
	for i := from; i < to; i++ {
		t := r.at(i)
		switch {
		case t.match > i:
			i = t.match
		case t.is("lambda"):
			return
		case t.is(":"):
			equals := r.find(i, to, "=")
			if equals < to {
				r.targets(start, i)
			}
			return
		case t.is("="):
			r.targets(start, i)
			start = i + 1
		case t.kind == op && len(t.text) > 1 && strings.HasSuffix(t.text, "=") && !comparison[t.text]:
			r.targets(start, i)
			return
		}
	}
}

var comparison = words("== != <= >= :=")

// targets marks the names of an assignment's left side, also within (a, b) and [a, *b], but none of x.y, x[i] and f(x).
func (r *reader) targets(from, to int) {
	for i := from; i < to; i++ {
		t := r.at(i)
		if t.kind == open && i > from && (r.at(i-1).kind == name || r.at(i-1).kind == closing || r.at(i-1).kind == text) {
			if t.match < 0 {
				return
			}
			i = t.match
			continue
		}
		before, after := r.at(i-1), r.at(i+1)
		if t.kind == name &&
			(i == from || before.is(",") || before.kind == open || before.is("*")) &&
			(i+1 == to || after.is(",") || after.kind == closing) {
			r.assigned[i] = true
		}
	}
}
