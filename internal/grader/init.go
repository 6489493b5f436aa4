package grader

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"tandem/internal/grader/check"
	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/sections"
	"tandem/jobs"
)

// FirstRubric makes a rubric of a solution, to be edited: its sections, and in each what its code has and the template's has not. The rubric of the inputs is
// not read.
func FirstRubric(in Inputs, name string) ([]byte, error) {
	solution, _, err := readNotebook("solution", in.Solution)
	if err != nil {
		return nil, err
	}
	f := firstRubric{solution: solution, lines: map[string]bool{}}
	if in.Template != "" {
		given, _, err := readNotebook("template", in.Template)
		if err != nil {
			return nil, err
		}
		f.read(given)
	}
	parts := f.parts()
	if len(parts) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "solution %s has no headings in Markdown, so no sections; give each part of it one, as in ## Import", in.Solution)
	}
	title := parts[0].Name
	if all := sections.Headings(solution); len(all) > 0 {
		title = cmp.Or(plainHeading(all[0].Text), title)
	}
	data, err := firstFile(cmp.Or(name, slug(title)), title, parts)
	if err != nil {
		return nil, err
	}
	if parts, err = f.met(data, parts); err != nil {
		return nil, err
	}
	return firstFile(cmp.Or(name, slug(title)), title, parts)
}

// firstFile writes a rubric.
func firstFile(name, title string, parts []firstPart) ([]byte, error) {
	var b bytes.Buffer
	if err := firstForm.Execute(&b, map[string]any{"Name": name, "Title": title, "Parts": parts}); err != nil {
		return nil, fmt.Errorf("write rubric: %w", err)
	}
	return b.Bytes(), nil
}

// met leaves of a rubric what the solution meets: a heading may be taken for another's, and a question have no answer.
func (f *firstRubric) met(data []byte, parts []firstPart) ([]firstPart, error) {
	r, err := rubric.Read(data)
	if err != nil {
		return nil, fmt.Errorf("write rubric: %w", err)
	}
	found := check.Run(f.solution, f.given, r)
	lacks := map[string]bool{}
	for _, item := range found.Items {
		lacks[item.Section+" "+item.Kind+" "+item.Name] = item.Status == check.Missing || item.Status == check.Placeholder
	}
	var list []firstPart
	for i, p := range parts {
		if len(found.Sections[i].Cells) == 0 {
			continue
		}
		for kind, names := range map[string]*[]string{"variable": &p.Variables, "function": &p.Functions, "column": &p.Columns, "question": &p.Questions} {
			*names = slices.DeleteFunc(*names, func(n string) bool { return lacks[p.ID+" "+kind+" "+n] })
		}
		if p.Prose && len(p.Questions) == 0 && (found.Sections[i].Asked > 0 || found.Sections[i].Completeness != check.Complete) {
			continue // nothing is said in it
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "no section can be told from its heading; give each part of the solution a heading of its own, as in ## Import")
	}
	return list, nil
}

// firstForm is the file.
var firstForm = template.Must(template.New("").Funcs(template.FuncMap{"json": func(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}}).Parse(`{
  "assignment_info": {
    "name": {{json .Name}},
    "title": {{json .Title}},
    "description": "What the students are asked to do: the models read it."
  },
  "rubric_elements": {
{{- range $i, $p := .Parts}}{{if $i}},{{end}}
    {{json $p.ID}}: {"max_points": 10, "criteria": ["What full marks need in {{$p.ID}}, in one sentence."]}
{{- end}}
  },
  "autograder_checks": {
    "sections": {
{{- range $i, $p := .Parts}}{{if $i}},{{end}}
      {{json $p.ID}}: {
        "name": {{json $p.Name}},
        "points": 10
{{- if $p.Prose}},
        "check_type": "markdown"{{end}}
{{- with $p.Variables}},
        "variables": {{json .}}{{end}}
{{- with $p.Functions}},
        "functions": {{json .}}{{end}}
{{- with $p.Columns}},
        "required_columns": {{json .}}{{end}}
{{- with $p.Questions}},
        "reflection_questions": {{json .}}{{end}}
      }
{{- end}}
    }
  }
}
`))

// firstPart is a section of it.
type firstPart struct {
	ID, Name                                 string
	Prose                                    bool
	Variables, Functions, Columns, Questions []string
}

type firstRubric struct {
	solution *notebook.Notebook
	given    *notebook.Notebook // the template; nil if there is none
	lines    map[string]bool    // of the template
	prose    bool               // it has some
}

// read reads what the students start from.
func (f *firstRubric) read(nb *notebook.Notebook) {
	f.given = nb
	for _, c := range nb.Cells {
		f.prose = f.prose || c.Kind != notebook.Code
		for line := range strings.SplitSeq(c.Source, "\n") {
			f.lines[strings.TrimSpace(line)] = true
		}
	}
}

// parts are the sections: the headings of the level that has most of them, the title of the notebook aside.
func (f *firstRubric) parts() (list []firstPart) {
	all := sections.Headings(f.solution)
	count := map[int]int{}
	for i, h := range all {
		if i > 0 || len(all) == 1 {
			count[h.Level]++
		}
	}
	level := 0
	for _, l := range slices.Sorted(maps.Keys(count)) {
		if count[l] > count[level] {
			level = l
		}
	}
	ids := map[string]bool{}
	for i, h := range all {
		if h.Level != level || i == 0 && len(all) > 1 && count[level] == 0 {
			continue
		}
		end := len(f.solution.Cells)
		if j := slices.IndexFunc(all[i+1:], func(next sections.Heading) bool { return next.Level <= level && next.Cell > h.Cell }); j >= 0 {
			end = all[i+1+j].Cell
		}
		name := plainHeading(h.Text)
		if name == "" || slices.ContainsFunc(list, func(p firstPart) bool { return strings.EqualFold(p.Name, name) }) {
			continue
		}
		p := f.part(name, f.solution.Cells[h.Cell:end])
		for n := 2; ids[p.ID]; n++ {
			p.ID = fmt.Sprintf("%s_%d", slug(name), n)
		}
		ids[p.ID] = true
		list = append(list, p)
	}
	return list
}

// everywhere are functions that say nothing of an assignment.
var everywhere = strings.Fields("c print cat library require paste paste0 list head tail str len range format round options suppressPackageStartupMessages suppressWarnings set.seed str_c int float")

// word is a name as a table's header has it.
var word = regexp.MustCompile(`^[\pL_][\pL\pN_.]*$`)

// part reads the cells of a section.
func (f *firstRubric) part(name string, cells []notebook.Cell) firstPart {
	p := firstPart{ID: slug(name), Name: name, Prose: true}
	var shown strings.Builder
	var read []cellFacts
	for _, c := range cells {
		if c.Kind != notebook.Code {
			p.Questions = append(p.Questions, f.questions(c.Source)...)
			continue
		}
		p.Prose = false
		read = append(read, cellFacts{code.Analyse(cmp.Or(c.Language, f.solution.Language), c.Source), strings.Split(c.Source, "\n")})
		for _, o := range c.Outputs {
			shown.WriteString(o.Text + " " + o.HTML + " ")
		}
	}
	columns := map[string]bool{}
	for w := range strings.FieldsFuncSeq(shown.String(), func(r rune) bool { return strings.ContainsRune(" \t\n<>|\"',:()[]", r) }) {
		columns[w] = true
	}
	for _, one := range read {
		p.Variables = f.add(p.Variables, one, one.Assigned, func(n string) bool { return len(n) > 1 && !strings.HasPrefix(n, "_") && one.Called[n] == nil })
		p.Functions = f.add(p.Functions, one, one.Called, func(n string) bool {
			return word.MatchString(n) && (f.solution.Language != notebook.Python || !strings.Contains(n, ".")) && !slices.Contains(everywhere, n) && one.Assigned[n] == nil
		})
		for _, names := range []map[string][]int{one.Named, one.Strings} {
			p.Columns = f.add(p.Columns, one, names, func(n string) bool {
				return len(n) > 2 && columns[n] && word.MatchString(n) && one.Assigned[n] == nil && one.Called[n] == nil
			})
		}
	}
	p.Columns = slices.DeleteFunc(p.Columns, func(n string) bool { return slices.Contains(p.Variables, n) })
	return p
}

// cellFacts are those of a cell, and its lines.
type cellFacts struct {
	*code.Facts
	lines []string
}

// add appends names of a cell that stand on lines which the template has not.
func (f *firstRubric) add(list []string, cell cellFacts, names map[string][]int, wanted func(string) bool) []string {
	own := func(line int) bool { return line > len(cell.lines) || !f.lines[strings.TrimSpace(cell.lines[line-1])] }
	for _, n := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Or(cmp.Compare(names[a][0], names[b][0]), strings.Compare(a, b)) }) {
		if slices.ContainsFunc(names[n], own) && wanted(n) && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// lettered is a question that is marked as one: (a), 2., b).
var lettered = regexp.MustCompile(`^\(?[a-z0-9][).]\s`)

// questions are the lines of a text that ask something, of the template's if it has prose.
func (f *firstRubric) questions(source string) (list []string) {
	for line := range strings.SplitSeq(source, "\n") {
		line = strings.TrimSpace(line)
		if asks := strings.Trim(line, "*_ "); (strings.HasSuffix(asks, "?") || lettered.MatchString(asks)) && !strings.HasPrefix(line, "#") && (!f.prose || f.lines[line]) {
			list = append(list, strings.Trim(line, "*_-> "))
		}
	}
	return list
}

// plainHeading is a heading without Markdown, "" if it is too long for a name.
func plainHeading(s string) string {
	s = strings.Join(strings.Fields(strings.NewReplacer("*", "", "`", "", "~~", "").Replace(s)), " ")
	if len(s) > maxHeading {
		return ""
	}
	return s
}

// maxHeading is how many bytes of a heading make a name.
const maxHeading = 100

// slug makes a heading an id.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !word.MatchString("a"+string(r)) || r == '.' })
	if len(words) > 1 && slices.Contains([]string{"part", "section", "task", "exercise", "question", "teil", "aufgabe"}, words[0]) && len(words) > 2 {
		words = words[2:]
	}
	return cmp.Or(strings.Join(words[:min(len(words), 4)], "_"), "section")
}
