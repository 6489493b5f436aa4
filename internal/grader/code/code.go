// Package code reads R and Python token by token, as far as a grader needs it: what is assigned, called and named, outside
// of strings and comments. It parses no grammar, so it also reads code that does not run.
package code

import "tandem/internal/grader/notebook"

// Facts are what a piece of code does. Line numbers count from 1.
type Facts struct {
	Assigned map[string][]int // variable → lines that give it a value
	Called   map[string][]int // function → lines; of pkg::f and obj.f the last name, too: f
	Named    map[string][]int // every other name: columns in dplyr verbs, attributes after a dot or $
	Strings  map[string][]int // content of short string literals: columns in ["…"] and by = "…"
	Shown    map[string][]int // variables that the code displays: alone on the last line of it, or within print, head, display, glimpse, View and the like
	Lines    int              // that hold code
}

// Analyse reads a cell. For notebook.Other all maps are empty.
//
// R assigns by <-, <<-, =, ->, ->> and assign("x", …); = inside of a call's parentheses names an argument and assigns nothing. Python assigns by =, +=,
// :=, "for x in", "with … as x", "import … as x" and unpacking; == compares. x$y <- v, x[i] <- v, x.y = v and x["y"] = v change x, which must exist: they count as naming y, not as assigning x.
func Analyse(lang notebook.Language, source string) *Facts { return &Facts{} }
