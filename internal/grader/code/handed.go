package code

import "tandem/internal/grader/notebook"

// handed says which argument of a function is a function that it calls, counted from 1.
var handed = map[notebook.Language]map[string]int{
	notebook.R: {
		"lapply": 2, "sapply": 2, "vapply": 2, "map": 2, "map_dbl": 2, "map_int": 2, "map_chr": 2, "map_lgl": 2, "map_df": 2, "map_dfr": 2, "map_dfc": 2, "walk": 2,
		"reduce": 2, "across": 2, "map2": 3, "apply": 3, "tapply": 3, "aggregate": 3, "outer": 3,
		"Map": 1, "mapply": 1, "Reduce": 1, "Filter": 1, "do.call": 1, "match.fun": 1,
	},
	notebook.Python: {"map": 1, "filter": 1, "reduce": 1, "apply": 1, "applymap": 1, "agg": 1, "aggregate": 1, "transform": 1, "pipe": 1},
}

// handedName are the names of arguments that are functions.
var handedName = words("FUN .f .fns f fun func aggfunc what key")

// aggregates are what the words in agg("mean") and agg(total=("units", "sum")) mean.
var (
	aggregating = words("agg aggregate transform pivot_table")
	aggregates  = words("sum mean median min max count std var sem first last nunique size prod quantile cumsum rank")
)

// readHanded notes the functions that the call of the name at i is given to call: mean in sapply(x, mean).
func (r *reader) readHanded(i int) {
	f, to := r.at(i).text, r.at(i+1).match
	if position := handed[r.lang][f]; position > 0 {
		n := 0
		for from := i + 2; from < to; {
			comma := r.find(from, to, ",")
			if r.at(from + 1).is("=") {
				if handedName[r.at(from).text] {
					r.callName(from+2, comma)
				}
			} else if n++; n == position {
				r.callName(from, comma)
			}
			from = comma + 1
		}
	}
	// Within an inner call of the kind everything was read with the outer one.
	if r.lang == notebook.Python && aggregating[f] && i > r.aggregated {
		r.aggregated = to
		for j := i + 2; j < to; j++ {
			if t := r.at(j); t.kind == text && aggregates[t.text] {
				add(r.facts.Called, t.text, t.line)
			}
		}
	}
}

// callName notes the call of a function if [from, to) is its name and nothing else.
func (r *reader) callName(from, to int) {
	if last := to - 1; last >= from && r.at(last).kind == name && r.pathStart(last) == from {
		add(r.facts.Called, r.at(last).text, r.at(last).line)
		if path := r.path(last); path != r.at(last).text {
			add(r.facts.Called, path, r.at(last).line)
		}
	}
}
