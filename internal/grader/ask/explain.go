package ask

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"tandem/jobs"
)

// maxProblems is how many things that are wrong with an answer are told at a time.
const maxProblems = 5

// explain says what the schema does not let pass. Of an answer it quotes no more than one word, where one of a few words was asked for.
func explain(failed *jsonschema.ValidationError) error {
	list := leaves(failed, nil)
	slices.Sort(list) // the library walks maps
	if more := len(list) - maxProblems; more > 0 {
		list = append(list[:maxProblems], fmt.Sprintf("%d more", more))
	}
	return jobs.Errorf(jobs.CodeInvalid, "%s", strings.Join(list, "; "))
}

// leaves are the problems at the ends of an error's tree.
func leaves(e *jsonschema.ValidationError, list []string) []string {
	for _, cause := range e.Causes {
		list = leaves(cause, list)
	}
	if len(e.Causes) > 0 {
		return list
	}
	at := place(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, key := range k.Missing {
			list = append(list, place(append(slices.Clone(e.InstanceLocation), key))+" is missing")
		}
		return list
	case *kind.AdditionalProperties:
		return append(list, fmt.Sprintf("%s has %s that nobody asked for", at, count(len(k.Properties), "key")))
	case *kind.Enum:
		return append(list, fmt.Sprintf("%s is %s; want %s", at, oneWord(k.Got), either(k.Want)))
	case *kind.Type:
		return append(list, fmt.Sprintf("%s is of type %s; want %s", at, k.Got, strings.Join(k.Want, " or ")))
	case *kind.MaxLength:
		return append(list, fmt.Sprintf("%s has %s; want at most %d", at, count(k.Got, "character"), k.Want))
	case *kind.MaxItems:
		return append(list, fmt.Sprintf("%s has %s; want at most %d", at, count(k.Got, "entry"), k.Want))
	}
	return append(list, at+" is not as asked for") // a kind of rule that the schema does not have
}

// place names a value by its keys, which are the schema's, as in criteria.join.2.verdict and issues[0].what.
func place(keys []string) string {
	if len(keys) == 0 {
		return "the answer"
	}
	var b strings.Builder
	for i, key := range keys {
		switch {
		case i == 1 && keys[0] != "criteria": // all other keys of an answer are lists
			fmt.Fprintf(&b, "[%s]", key)
		case i > 0:
			b.WriteString("." + shorten(key))
		default:
			b.WriteString(shorten(key))
		}
	}
	return b.String()
}

var plainWord = regexp.MustCompile(`^[\p{L}_-]{1,40}$`)

// oneWord quotes a value if it is one word.
func oneWord(got any) string {
	if s, ok := got.(string); ok && plainWord.MatchString(s) {
		return strconv.Quote(s)
	}
	return "something else"
}

// either lists words.
func either(words []any) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, w)
	}
	return b.String()
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %s", n, map[string]string{"key": "keys", "character": "characters", "entry": "entries"}[what])
}
