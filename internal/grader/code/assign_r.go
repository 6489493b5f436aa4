package code

// assignR marks what R code gives a value.
func (r *reader) assignR() {
	var around []int // brackets around here; one that is never closed only to the end of its line
	for i := range r.tokens {
		t := &r.tokens[i]
		switch {
		case t.kind == open:
			around = append(around, i)
		case t.kind == closing && t.match >= 0:
			for around[len(around)-1] != t.match {
				around = around[:len(around)-1]
			}
			around = around[:len(around)-1]
		case t.kind == end:
			for n := len(around); n > 0 && r.at(around[n-1]).match < 0; n-- {
				around = around[:n-1]
			}
		case t.is("<-") || t.is("<<-") || t.is("%<>%"):
			r.assignBefore(i)
		case t.is("="):
			if n := len(around); n == 0 || !r.takesArguments(around[n-1]) {
				r.assignBefore(i)
			}
		case t.is("->") || t.is("->>"):
			if next := r.at(i + 2); !next.is("(") && !next.is("[") && !next.is("$") && !next.is("@") && !next.is("::") {
				r.assign(i + 1)
			}
		case t.is("for"):
			if r.at(i+1).is("(") && r.at(i+3).is("in") {
				r.assign(i + 2)
			}
		case t.kind == name && (t.text == "assign" || t.text == "delayedAssign") && r.at(i+1).is("("):
			if first := i + 2; r.at(first).kind == text {
				r.assign(first)
			} else if r.at(first).text == "x" && r.at(first+1).is("=") && r.at(first+2).kind == text {
				r.assign(first + 2)
			}
		}
	}
}

// assignBefore marks what stands before an assignment's arrow, unless it is a part of something: x$y, x[i], names(x).
func (r *reader) assignBefore(i int) {
	if before := r.at(i - 2); !before.is("$") && !before.is("@") && !before.is("::") && !before.is(":::") {
		r.assign(i - 1)
	}
}

// assign marks a name, or a string in a name's place.
func (r *reader) assign(i int) {
	if k := r.at(i).kind; k == name || k == text {
		r.assigned[i] = true
	}
}

// takesArguments reports whether the bracket is one in which = names an argument: that of a call, of a function's parameters, of an index.
func (r *reader) takesArguments(i int) bool {
	if !r.at(i).is("(") {
		return r.at(i).is("[")
	}
	switch before := r.at(i - 1); before.kind {
	case name, text, closing:
		return true
	case keyword:
		return before.text == "function"
	default:
		return before.is(`\`)
	}
}
