package rubric

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// modernise reads what older rubrics say in other words as the words of today, in the tree: each is noted. What cannot be read is told with what to write instead.
//
//	sections, required_…, min_words…, total_points at the top       stand in autograder_checks, or in assignment_info
//	required_sections: ["Import", "Join"]                           sections of these names
//	sections, rubric_elements: [{"name": "Join", …}]                keyed by id or name
//	required_variables, required_functions, columns of a section    variables, functions, required_columns
//	accepts_functions: ["merge"], or {"left_join": ["merge"]}       functions: ["left_join|merge"]
//	min_words_per_question                                          min_words of each section with questions
//	criteria: {"good": {"points": "6.8-7.5", "description": "…"}}   one criterion, a scale
//	no rubric_elements                                              one for each section by its points, or one for all
//	variables, functions, … of an element                           a section of its own, looked for in the whole notebook
func modernise(root *node, bad *problems) []string {
	if root.kind != '{' {
		return nil // the schema says so
	}
	m := &modern{root: root, bad: bad, told: map[string]bool{}}
	m.top()
	checks := root.get("autograder_checks")
	m.required(checks)
	m.keyed(checks.get("sections"), "section")
	for _, s := range checks.get("sections").items() {
		m.section(s)
	}
	m.words(checks)
	m.keyed(root.get("rubric_elements"), "element")
	m.withoutElements(checks)
	for _, e := range root.get("rubric_elements").items() {
		m.element(e)
		m.criteria(e.get("criteria"))
	}
	return m.notes
}

type modern struct {
	root  *node
	bad   *problems
	notes []string
	told  map[string]bool // what was said of a key is not said again of the same elsewhere
}

func (m *modern) note(n *node, format string, args ...any) {
	m.notes = append(m.notes, n.where()+": "+fmt.Sprintf(format, args...))
}

// add puts a new value into an object.
func (n *node) add(key string, kind byte, text string, at *node) *node {
	c := &node{parent: n, key: key, kind: kind, text: text, at: at.at, raw: at.raw}
	n.list = append(n.list, c)
	return c
}

// remove takes a value out of its object.
func (n *node) remove() {
	for i, c := range n.parent.list {
		if c == n {
			n.parent.list = append(n.parent.list[:i:i], n.parent.list[i+1:]...)
			return
		}
	}
}

// rename gives a value another key, unless that is taken.
func (m *modern) rename(n *node, key string) {
	if n == nil || n.parent.get(key) != nil {
		return
	}
	if !m.told[n.key] {
		m.told[n.key] = true
		m.note(n, "is read as %q, here and wherever it stands", key)
	}
	n.key = key
}

// move puts a value into another object, unless that has one of the key.
func (m *modern) move(n, to *node) {
	if to.get(n.key) != nil {
		return
	}
	m.note(n, "is read as part of %s", to.key)
	n.remove()
	n.parent = to
	to.list = append(to.list, n)
}

// object is the object at a key of the root, which it gets if it has none.
func (m *modern) object(key string, at *node) *node {
	if n := m.root.get(key); n != nil {
		return n
	}
	return m.root.add(key, '{', "", at)
}

// top moves what stands at the top to where it belongs.
func (m *modern) top() {
	for _, place := range []struct{ into, keys string }{
		{"assignment_info", "total_points"},
		{"autograder_checks", "sections required_sections required_variables required_functions required_columns min_words_per_question outputs"},
	} {
		for key := range strings.FieldsSeq(place.keys) {
			if n := m.root.get(key); n != nil {
				if to := m.object(place.into, n); to.kind == '{' {
					m.move(n, to)
				}
			}
		}
	}
}

// required makes sections of the names that required_sections lists.
func (m *modern) required(checks *node) {
	at := checks.get("required_sections")
	if at == nil || at.kind != '[' && at.kind != '{' {
		return
	}
	sections := checks.get("sections")
	if sections == nil {
		m.rename(at, "sections")
		return
	}
	for _, c := range at.list {
		name := c.said()
		if c.kind == '{' {
			name = c.called()
		}
		if at.kind == '{' {
			name = c.key
		}
		if name == "" || sections.named(name) {
			continue
		}
		s := sections.add(name, '{', "", c)
		s.add("name", '"', name, c)
	}
	m.note(at, "is read as further sections")
	at.remove()
}

// called is the name that an object gives itself.
func (n *node) called() string {
	for _, key := range []string{"id", "name", "title", "element", "section", "heading"} {
		if text := n.get(key).said(); text != "" {
			return text
		}
	}
	return ""
}

// named reports whether one of the sections has a name.
func (n *node) named(name string) bool {
	for _, s := range n.items() {
		if plainName(s.key) == plainName(name) || plainName(s.get("name").said()) == plainName(name) {
			return true
		}
	}
	return false
}

// keyed makes an object of a list, keyed by what its entries call themselves.
func (m *modern) keyed(n *node, what string) {
	if n == nil || n.kind != '[' {
		return
	}
	for i, c := range n.list {
		name := c.said()
		if c.kind == '{' {
			name = c.called()
		}
		if name == "" || c.kind != '{' && c.kind != '"' {
			m.bad.add(c, "%s stands there; want %s %d with a name, as {\"name\": \"Joins\"}; add it", c.show(), what, i+1)
			continue
		}
		if c.kind == '"' {
			c.kind, c.text = '{', ""
			c.add("name", '"', name, c)
		}
		c.key = name
		for _, key := range []string{"id", "element", "section"} {
			if own := c.get(key); own.said() == name {
				own.remove()
			}
		}
	}
	if n.kind = '{'; what == "element" {
		m.evenly(n)
	}
	m.note(n, "the list is read as an object, keyed by the names of its entries")
}

// evenly weighs elements alike that say nothing of their weights.
func (m *modern) evenly(elements *node) {
	weighed := false
	for _, e := range elements.list {
		if name := e.get("name"); name != nil {
			name.key = "title" // known here by the key
			name.remove()
		}
		weighed = weighed || e.get("weight") != nil || e.get("max_points") != nil || e.get("points") != nil
	}
	if weighed {
		return
	}
	for _, e := range elements.list {
		e.add("weight", '0', strconv.FormatFloat(1/float64(len(elements.list)), 'f', 9, 64), e)
	}
	if m.root.get("assignment_info").get("total_points") == nil {
		m.object("assignment_info", elements).add("total_points", '0', "100", elements)
	}
}

// section reads a section's older keys.
func (m *modern) section(s *node) {
	if s.kind != '{' {
		return
	}
	m.rename(s.get("required_variables"), "variables")
	m.rename(s.get("required_functions"), "functions")
	m.rename(s.get("columns"), "required_columns")
	m.rename(s.get("questions"), "reflection_questions")
	m.rename(s.get("min_words_per_question"), "min_words")
	m.accepts(s)
}

// accepts joins functions with those that are accepted in their place.
func (m *modern) accepts(s *node) {
	at := s.get("accepts_functions")
	if at == nil {
		return
	}
	functions := s.get("functions")
	var others []string
	for _, c := range at.items() {
		others = append(others, c.said())
	}
	switch {
	case at.kind == '{':
		for _, c := range at.list {
			names := []string{c.said()}
			if c.kind == '[' {
				names = nil
				for _, other := range c.list {
					names = append(names, other.said())
				}
			}
			m.join(s, c.key, names, c)
		}
	case at.kind == '[' && functions == nil && len(at.list) > 0:
		m.join(s, others[0], others[1:], at)
	case at.kind == '[' && functions.kind == '[' && len(functions.list) == 1:
		m.join(s, functions.list[0].said(), others, at)
	case at.kind == '[' && functions.kind == '[':
		var want []string
		for _, f := range functions.list {
			want = append(want, strconv.Quote(strings.Join(append([]string{f.said()}, others...), "|")))
		}
		m.bad.add(at, "it is not said in whose place these are accepted; write instead of it, if it is in the place of each, \"functions\": [%s]", strings.Join(want, ", "))
		return
	}
	m.note(at, "is read as alternatives among the functions")
	at.remove()
}

// join adds alternatives to a function, and the function if it is not there.
func (m *modern) join(s *node, name string, others []string, at *node) {
	functions := s.get("functions")
	if functions == nil {
		functions = s.add("functions", '[', "", at)
	}
	together := strings.Join(append([]string{name}, others...), "|")
	for _, f := range functions.list {
		if plainCall(f.said()) == plainCall(name) {
			f.text = together
			return
		}
	}
	functions.add(strconv.Itoa(len(functions.list)), '"', together, at)
}

// words hands a number of words for all questions to the sections that have some.
func (m *modern) words(checks *node) {
	at := checks.get("min_words_per_question")
	if at == nil {
		return
	}
	for _, s := range checks.get("sections").items() {
		if s.get("reflection_questions") != nil && s.get("min_words") == nil {
			s.add("min_words", at.kind, at.text, at)
		}
	}
	m.note(at, "is read as the min_words of each section with questions")
	at.remove()
}

// withoutElements makes elements for a rubric that has none: of its sections by their points, or one.
func (m *modern) withoutElements(checks *node) {
	sections := checks.get("sections")
	total := m.root.get("assignment_info").get("total_points")
	if m.root.get("rubric_elements") != nil || len(sections.items()) == 0 && total == nil {
		return
	}
	if total == nil && sections.kind != '{' {
		return // the schema says so
	}
	at := total
	if at == nil {
		at = sections
	}
	elements := m.root.add("rubric_elements", '{', "", at)
	if len(sections.items()) == 0 {
		elements.add("work", '{', "", at).add("weight", '0', "1", at)
		m.note(m.root, "there are no rubric_elements; all points are one element, \"work\"")
		return
	}
	shares := m.shares(sections)
	for i, s := range sections.list {
		e := elements.add(s.key, '{', "", s)
		e.add("weight", '0', shares[i], s)
	}
	if total == nil {
		m.object("assignment_info", at).add("total_points", '0', "100", at)
	}
	m.note(m.root, "there are no rubric_elements; each section is one, by its points")
}

// shares are the parts of all points that sections have, which sum to 1.
func (m *modern) shares(sections *node) []string {
	points := make([]float64, len(sections.list))
	sum := 0.0
	for i, s := range sections.list {
		points[i] = 1
		if at := s.get("points"); at != nil {
			points[i], _ = strconv.ParseFloat(strings.TrimSpace(at.text), 64)
		}
		sum += points[i]
	}
	list := make([]string, len(points))
	for i, p := range points {
		if sum == 0 {
			p = 1
		}
		list[i] = strconv.FormatFloat(p/max(sum, 1e-9), 'f', 9, 64)
		if sum == 0 {
			list[i] = strconv.FormatFloat(1/float64(len(points)), 'f', 9, 64)
		}
	}
	return list
}

// belongings are what an element may ask for by itself.
var belongings = strings.Fields("variables functions required_columns reflection_questions accepts_functions min_words required_variables required_functions columns questions min_words_per_question")

// element makes a section of what an element asks for by itself.
func (m *modern) element(e *node) {
	if e.kind != '{' {
		return
	}
	m.rename(e.get("points"), "max_points")
	var own []*node
	for _, key := range belongings {
		if n := e.get(key); n != nil {
			own = append(own, n)
		}
	}
	if len(own) == 0 {
		return
	}
	checks := m.object("autograder_checks", e)
	sections := checks.get("sections")
	if sections == nil {
		sections = checks.add("sections", '{', "", e)
	}
	if checks.kind != '{' || sections.kind != '{' {
		return // the schema says so
	}
	s := sections.get(e.key)
	if s == nil {
		s = sections.add(e.key, '{', "", e)
	}
	for _, n := range own {
		m.move(n, s)
	}
	m.section(s)
}

// spread is a range of points, as 6.8-7.5 or "90 to 100".
var spread = regexp.MustCompile(`^\s*\d+(?:[.,]\d+)?\s*(?:-|–|—|to|bis|\.\.)\s*\d+(?:[.,]\d+)?\s*(?:points?|pts?|%)?\s*$`)

// criteria makes a scale of levels that are objects, and a text of a description.
func (m *modern) criteria(at *node) {
	if at == nil {
		return
	}
	if at.kind == '{' && at.get("text") == nil && at.get("description") == nil {
		for _, level := range at.list {
			if level.kind == '{' {
				level.kind, level.text, level.list = '"', level.level(""), nil
			}
		}
		return
	}
	if at.kind != '[' || len(at.list) == 0 {
		return
	}
	levels := true
	for _, c := range at.list {
		m.rename(c.get("description"), "text")
		m.rename(c.get("criterion"), "text")
		levels = levels && c.kind == '{' && (spread.MatchString(c.get("points").said()) || c.get("level") != nil || c.get("rating") != nil)
	}
	if !levels {
		for _, c := range at.list {
			if points := c.get("points"); points != nil && points.kind == '"' && spread.MatchString(points.text) {
				m.bad.add(points, "%s stands there, a range, and beside it are criteria without one; write instead the most that it gives, as \"points\": %s, or make all of them levels", points.show(), most(points.text))
			}
		}
		return
	}
	m.note(at, "the levels are read as one criterion, a scale")
	at.kind = '{'
	for i, c := range at.list {
		c.key = strconv.Itoa(i + 1)
		for _, key := range []string{"level", "rating", "name"} {
			if name := c.get(key).said(); name != "" {
				c.key = name
				break
			}
		}
		c.kind, c.text, c.list = '"', c.level(c.key), nil
	}
}

// level is what an object says of a level, with its points.
func (n *node) level(name string) string {
	var parts []string
	if points := n.get("points").said(); points != "" {
		parts = append(parts, "("+points+" points)")
	}
	for _, c := range n.list {
		if c.kind == '"' && c.key != "points" && c.said() != name {
			parts = append(parts, c.said())
		}
	}
	return strings.Join(parts, " ")
}

// most is the upper end of a range.
func most(text string) string {
	numbers := regexp.MustCompile(`\d+(?:[.,]\d+)?`).FindAllString(text, -1)
	return strings.ReplaceAll(numbers[len(numbers)-1], ",", ".")
}
