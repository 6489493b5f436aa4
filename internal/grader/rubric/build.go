package rubric

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode"

	"tandem/jobs"
)

// builder makes a rubric of a file whose form is right, and finds what does not fit together.
type builder struct {
	*Rubric
	root *node
	bad  *problems
}

func (b *builder) note(n *node, format string, args ...any) {
	b.notes = append(b.notes, n.where()+": "+fmt.Sprintf(format, args...))
}

func (b *builder) build() {
	info := b.root.get("assignment_info")
	b.Info = Info{Name: info.get("name").said(), Title: info.get("title").said(), Description: info.get("description").said()}
	b.Strict, b.Partial = free(b.root.get("strict_scoring_rules")), free(b.root.get("partial_credit_rules"))
	b.rules(b.root.get("tandem"))

	checks := b.root.get("autograder_checks")
	b.Required = b.names(checks.get("required_variables"))
	b.RequiredFunctions, b.RequiredColumns = b.alternatives(checks.get("required_functions"), true), b.alternatives(checks.get("required_columns"), false)
	b.sections(checks.get("sections"))
	b.unnamed(checks.get("required_variables"))
	b.outputs(checks.get("outputs"))
	b.elements(b.root.get("rubric_elements"))
}

// free is a value that may be any JSON, nil if there is none.
func free(n *node) json.RawMessage {
	if n == nil || n.kind == 'n' {
		return nil
	}
	return json.RawMessage(n.raw)
}

// rules reads our own key and fills in the defaults.
func (b *builder) rules(n *node) {
	limits, models, tokens := n.get("cap"), n.get("models"), n.get("num_predict")
	b.Rules = Rules{
		ModelBound:     b.part(n.get("model_bound"), big.NewRat(1, 10)),
		OutputShare:    b.part(n.get("output_share"), big.NewRat(1, 2)),
		CapBelow:       b.part(limits.get("output_match_below"), big.NewRat(1, 2)),
		CapAt:          big.NewRat(60, 1),
		CapCompletion:  cmp.Or(Completion(limits.get("completion").said()), PartialToo),
		Tolerance:      b.part(n.get("tolerance"), big.NewRat(1, 1000)),
		CodeModel:      b.model(models.get("code"), "qwen3-coder:30b"),
		FeedbackModel:  b.model(models.get("feedback"), "gpt-oss:120b"),
		CodeTokens:     whole(tokens.get("code"), 1200),
		FeedbackTokens: whole(tokens.get("feedback"), 1500),
		Instructions:   n.get("instructions").said(),
	}
	if b.Rules.Instructions == "" {
		b.Rules.Instructions = b.Info.Description
	}
	if at := limits.get("score_at_most"); at != nil {
		b.Rules.CapAt, _ = at.number()
		if b.Rules.CapAt.Cmp(big.NewRat(100, 1)) > 0 {
			b.bad.add(at, "%s stands there; want a percentage from 0 to 100; lower it", at.show())
		}
	}
}

// part reads a share from 0 to 1.
func (b *builder) part(n *node, otherwise *big.Rat) *big.Rat {
	if n == nil {
		return otherwise
	}
	value := n.part()
	if value.Cmp(big.NewRat(1, 1)) > 0 {
		b.bad.add(n, "%s stands there; want a number from 0 to 1, as 0.1 or \"10%%\"; lower it", n.show())
	}
	return value
}

// model reads the name of a model and makes it canonical.
func (b *builder) model(n *node, otherwise string) string {
	if n == nil {
		return otherwise
	}
	name, err := jobs.CanonicalModel(n.said())
	if err != nil {
		b.bad.add(n, "%s stands there; want the name of a model, as %q; %v", n.show(), otherwise, err)
	}
	return name
}

// whole reads a whole number that the schema keeps small.
func whole(n *node, otherwise int) int {
	value, _ := n.number()
	if value == nil {
		return otherwise
	}
	return int(value.Num().Int64())
}

// names reads a list of names, each once.
func (b *builder) names(n *node) []string {
	var list []string
	for _, c := range n.items() {
		name := c.said()
		if slices.Contains(list, name) {
			b.note(c, "%s stands in the list before; it counts once", c.show())
			continue
		}
		list = append(list, name)
	}
	return list
}

// alternatives reads a list of names of which each may be several: "left_join|merge". What call says is that "()" after a name means nothing.
func (b *builder) alternatives(n *node, call bool) []string {
	list := b.names(n)
	for i, name := range list {
		parts := strings.Split(name, "|")
		for j, part := range parts {
			if parts[j] = strings.TrimSpace(part); call {
				parts[j] = strings.TrimSpace(strings.TrimSuffix(parts[j], "()"))
			}
		}
		if slices.Contains(parts, "") {
			b.bad.add(n, "%q stands in it, with nothing on one side of a bar; want names with one bar between two, as \"left_join|merge\"; remove the bar", shorten(name))
		}
		list[i] = strings.Join(parts, "|")
	}
	return list
}

// sections reads autograder_checks.sections.
func (b *builder) sections(n *node) {
	var weighed int
	for _, s := range n.items() {
		points, _ := s.get("points").number()
		if points == nil {
			points = big.NewRat(1, 1)
		} else {
			weighed++
		}
		section := Section{
			ID:        s.key,
			Name:      s.get("name").said(),
			Points:    points,
			Variables: b.names(s.get("variables")),
			Functions: b.alternatives(s.get("functions"), true),
			Columns:   b.alternatives(s.get("required_columns"), false),
			Markdown:  strings.EqualFold(s.get("check_type").said(), "markdown"),
			Questions: b.questions(s.get("reflection_questions")),
			MinWords:  whole(s.get("min_words"), 0),
			Heading:   s.get("heading").said(),
		}
		if section.Name == "" {
			section.Name = s.key
		}
		if kind := s.get("check_type").said(); kind != "" && !section.Markdown && !strings.EqualFold(kind, "code") {
			b.note(s.get("check_type"), "%s is neither \"markdown\" nor \"code\"; the section is checked as code", s.get("check_type").show())
		}
		b.Sections = append(b.Sections, section)
	}
	if weighed == 0 {
		return
	}
	for _, s := range n.items() {
		if s.get("points") == nil {
			b.note(s, "other sections have points; this one has none and weighs 1")
		}
	}
}

// questions reads reflection_questions: texts, how many there are, or that there is one.
func (b *builder) outputs(n *node) {
	b.Outputs = map[string]Output{}
	for _, o := range n.items() {
		weight, _ := o.get("weight").number()
		if weight == nil {
			weight = big.NewRat(1, 1)
		}
		output := Output{Weight: weight, Ignore: o.get("ignore").said() == "true", Tolerance: b.part(o.get("tolerance"), nil)}
		for _, value := range o.get("any_of").items() {
			output.AnyOf = append(output.AnyOf, value.said())
		}
		b.Outputs[o.key] = output
	}
}

func (b *builder) questions(n *node) []string {
	if n == nil {
		return nil
	}
	if n.kind == '[' {
		return b.names(n)
	}
	count := whole(n, 0)
	if n.text == "true" {
		count = 1
	}
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf("question %d", i+1))
	}
	return list
}

// unnamed notes the required variables that cost no points when they are missing, since points hang on sections.
func (b *builder) unnamed(n *node) {
	if len(b.Sections) == 0 {
		return
	}
	var list []string
	for _, name := range b.Required {
		if !slices.ContainsFunc(b.Sections, func(s Section) bool { return slices.Contains(s.Variables, name) }) {
			list = append(list, shorten(name))
		}
	}
	if len(list) > 0 {
		b.note(n, "no section names %s; that they are there is checked and reported, but no points hang on it: name them in the variables of a section", strings.Join(list, ", "))
	}
}

// linked are the sections that an element is about.
func (b *builder) linked(e *node) []string {
	if list := b.names(e.get("sections")); len(list) > 0 {
		for _, id := range list {
			if _, ok := b.Section(id); !ok {
				b.bad.add(e.get("sections"), "%q stands in it, which is no section; want ids of autograder_checks.sections: %s; correct it", shorten(id), b.sectionIDs())
			}
		}
		return list
	}
	if _, ok := b.Section(e.key); ok {
		return []string{e.key}
	}
	var same, all []string
	for _, s := range b.Sections {
		all = append(all, s.ID)
		if key := plainName(e.key); key != "" && (plainName(s.ID) == key || plainName(s.Name) == key) {
			same = append(same, s.ID)
		}
	}
	if len(same) > 0 {
		return same
	}
	if alike := b.alike(e); len(alike) > 0 && len(alike) < len(all) {
		b.note(e, "is taken to be about %s, by the words that they have in common; name others in \"sections\"", strings.Join(alike, ", "))
		return alike
	}
	return all
}

// alike are the sections that have most in common with an element: words of their names, and variables, functions and columns that the element's texts name.
func (b *builder) alike(e *node) []string {
	names, texts := stems(e.key), e.get("description").said()
	for _, c := range e.get("criteria").items() {
		texts += " " + c.said() + " " + c.get("text").said()
	}
	said := map[string]bool{}
	for _, word := range strings.FieldsFunc(texts, func(r rune) bool { return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		said[strings.Trim(word, ".")] = true
	}
	var best []string
	most := 0
	for _, s := range b.Sections {
		common := 0
		for stem := range stems(s.ID + " " + s.Name) {
			if names[stem] && !everywhere[stem] {
				common++
			}
		}
		for _, name := range slices.Concat(s.Variables, s.Functions, s.Columns) {
			if slices.ContainsFunc(strings.Split(name, "|"), func(n string) bool { return len(n) > 3 && said[n] }) {
				common++
			}
		}
		switch {
		case common > most:
			best, most = []string{s.ID}, common
		case common == most && most > 0:
			best = append(best, s.ID)
		}
	}
	return best
}

// everywhere are words that say nothing of what a section is about, by their stems.
var everywhere = stems("part section question questions task exercise problem data code coding analysis using with from your work the and for points assignment notebook element criteria quality")

// stems are the beginnings of the words of a name, so that "importing" and "import" are one.
func stems(name string) map[string]bool {
	list := map[string]bool{}
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if r := []rune(word); len(r) >= 3 {
			list[string(r[:min(len(r), 5)])] = true
		}
	}
	return list
}

func (b *builder) sectionIDs() string {
	var ids []string
	for _, s := range b.Sections {
		ids = append(ids, shorten(s.ID))
	}
	if len(ids) == 0 {
		return "there are none"
	}
	return strings.Join(ids, ", ")
}

// plainName is a name without case and without all that is no letter or digit.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}
