package rubric

import (
	"bytes"
	"slices"
	"strings"
)

// Location is where something stands in the file.
type Location struct {
	Line    int    `json:"line"`    // from 1
	Pointer string `json:"pointer"` // JSON pointer
}

// keys are those under which a section asks for things, by what they are.
var keys = map[string]string{"variable": "variables", "function": "functions", "column": "required_columns", "question": "reflection_questions"}

// LocationOf finds what a section asks for, or its key if it asks in another way; without a name the section itself; without a section a required variable, or the
// list of them.
func (r *Rubric) LocationOf(section, kind, name string) Location {
	checks := r.root.get("autograder_checks")
	at := checks.get("required_variables")
	if section != "" {
		if at = checks.get("sections").get(section); kind != "" && at.get(keys[kind]) != nil {
			at = at.get(keys[kind])
		}
	}
	if i := slices.IndexFunc(at.items(), func(n *node) bool { return n.kind == '"' && plainCall(n.said()) == plainCall(name) }); name != "" && i >= 0 {
		at = at.list[i]
	}
	for _, other := range []*node{checks, r.root} {
		if at == nil {
			at = other
		}
	}
	return r.location(at)
}

// LocationOfOutput is where the rubric speaks of an output.
func (r *Rubric) LocationOfOutput(key string) Location {
	return r.location(r.root.get("autograder_checks").get("outputs").get(key))
}

func (r *Rubric) location(at *node) Location {
	data := bytes.TrimPrefix(r.Raw, []byte("\xef\xbb\xbf"))
	return Location{1 + bytes.Count(data[:at.at], []byte("\n")), at.pointer()}
}

// plainCall is a name without what is left out of it when it is read: blanks and empty parentheses.
func plainCall(name string) string { return strings.NewReplacer("()", "", " ", "").Replace(name) }
