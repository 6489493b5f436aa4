package intake

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tandem/jobs"
)

// steps are the folders of an nbgrader course that hold students' work, by step/student/assignment/notebook.ipynb; what nbgrader has run comes first.
var steps = []string{"autograded", "submitted"}

// A part is a student's part of what was found.
type part struct {
	claim     // of any of its files
	notebooks []claimed
	others    []*file // files that are no notebooks
	unnamed   int     // notebooks that do not bear the name that is graded
}

// claimed is a file and what its path says.
type claimed struct {
	claim
	file *file
}

// arrange finds out whose each file is, and returns the students' parts in the order of their names, numbers and paths; and warnings about files that are nobody's.
func arrange(sources []*source, assignment string, own []string) ([]*part, []string, error) {
	var list []claimed
	var warnings []string
	generic := map[*source][]*file{}
	for _, s := range sources {
		inStep := stepOf(s)
		outside := 0
		var waiting []claimed // of the step that counts for who has nothing in the other
		for _, f := range s.files {
			if i := slices.IndexFunc(own, f.is); i >= 0 {
				warnings = append(warnings, noSubmission(s, own[i]))
			} else if c, ok := byLMS(f.full()); ok {
				list = append(list, claimed{within(f, c), f})
			} else if c, ok := byStep(f, inStep); ok {
				list = append(list, claimed{within(f, c), f})
			} else if c, ok := byStep(f, otherStep(inStep)); ok {
				waiting = append(waiting, claimed{within(f, c), f})
			} else if archived(f) {
				outside++
			} else if inStep == "" {
				generic[s] = append(generic[s], f)
			} else if f.isNotebook() {
				outside++
			}
		}
		list, outside = without(list, waiting, outside)
		if outside > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %s outside %s left out", s.typed, count(outside, "notebook"), cmp.Or(inStep, "the students' folders")))
		}
	}
	flat := flatNames(generic)
	for _, s := range sources {
		claims, nobodys := byFolder(generic[s], assignment, flat)
		for _, c := range claims {
			// In a student's folder an equal file is what the student handed in: the template unchanged.
			if i := slices.IndexFunc(own, c.file.isCopy); i >= 0 && c.name+path.Ext(c.leaf) == c.leaf {
				warnings = append(warnings, noSubmission(s, own[i]))
			} else {
				list = append(list, c)
			}
		}
		if len(nobodys) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: left out %s of no student (%s)", s.typed, count(len(nobodys), "file"), kinds(nobodys)))
		}
	}
	list, err := choose(list, assignment)
	if err != nil {
		return nil, nil, err
	}
	return group(list), warnings, nil
}

// within makes the path of a claim, which is the beginning of the file's full path, absolute, so that it tells students apart in all sources.
func within(f *file, c claim) claim {
	c.path = strings.TrimSuffix(f.where, strings.TrimPrefix(f.full(), c.path))
	if c.student == "" {
		c.student = "path\x00" + c.path
	}
	return c
}

// stepOf returns the step by which a source is an nbgrader tree, "" if it is none.
func stepOf(s *source) string {
	for _, step := range steps {
		if slices.ContainsFunc(s.files, func(f *file) bool {
			_, ok := byStep(f, step)
			return ok && f.isNotebook()
		}) {
			return step
		}
	}
	return ""
}

// otherStep is the one that stands in for a step.
func otherStep(step string) string {
	if step == steps[0] {
		return steps[1]
	}
	return ""
}

// without adds what waited of students who have nothing of the assignment yet, and counts the notebooks of the others.
func without(list, waiting []claimed, outside int) ([]claimed, int) {
	type whose struct{ name, assignment string }
	has := map[whose]bool{}
	for _, c := range list {
		has[whose{c.name, c.assignment}] = has[whose{c.name, c.assignment}] || c.file.isNotebook()
	}
	for _, c := range waiting {
		switch {
		case !has[whose{c.name, c.assignment}]:
			list = append(list, c)
		case c.file.isNotebook():
			outside++
		}
	}
	return list, outside
}

// archived reports whether a file lies where nbgrader's zip_collect puts what it unpacked: downloaded/ASSIGNMENT/archive is no student.
func archived(f *file) bool {
	parts := strings.Split(f.where, "/")
	for i := 2; i < len(parts)-1; i++ {
		if parts[i-2] == "downloaded" && (parts[i] == "archive" || parts[i] == "extracted") {
			return f.isNotebook()
		}
	}
	return false
}

// byStep reads the path of a file in an nbgrader tree. Only what lies where nbgrader puts it is a notebook that was handed in.
func byStep(f *file, step string) (claim, bool) {
	parts := strings.Split(f.full(), "/")
	i := slices.Index(parts, step)
	if f.isNotebook() {
		i = len(parts) - 4
	}
	if step == "" || i < 0 || parts[i] != step || len(parts)-i < 4 {
		return claim{}, false
	}
	return claim{path: path.Join(parts[:i+3]...), name: parts[i+1], assignment: parts[i+2], leaf: parts[len(parts)-1]}, true
}

// flatNames counts the names of notebooks that lie in no folder below what the instructor named.
func flatNames(generic map[*source][]*file) map[string]int {
	names := map[string]int{}
	for _, files := range generic {
		for _, f := range files {
			if f.isNotebook() && !strings.Contains(f.path, "/") {
				names[f.path]++
			}
		}
	}
	return names
}

// byFolder reads paths that follow no known pattern. A notebook that lies at the top has its student's name. Of folders, those at the depth of the uppermost notebook are
// the students', unless they are assignments within students' folders. What is nobody's is returned, too.
func byFolder(files []*file, assignment string, flat map[string]int) (list []claimed, nobodys []*file) {
	if len(files) > 0 && files[0].source.archived != nil {
		files = unwrap(files)
	}
	depth := 0
	for _, f := range files {
		if d := strings.Count(f.path, "/"); f.isNotebook() && d > 0 && (depth == 0 || d < depth) {
			depth = d
		}
	}
	tree := depth == 2 && isTree(files, assignment)
	for _, f := range files {
		parts := strings.Split(f.path, "/")
		base := parts[len(parts)-1]
		var c claim
		switch {
		case len(parts) == 1 && f.isNotebook():
			// submitter grade class/*/hw4.ipynb: all have one name, and the folders tell whose they are
			c = claim{name: strings.TrimSuffix(base, path.Ext(base))}
			if len(flat) == 1 && flat[base] > 1 && f.source.above != "" {
				c.name = path.Base(f.source.above)
			}
		case depth == 0 || len(parts) <= depth:
			nobodys = append(nobodys, f)
			continue
		case tree:
			c = claim{name: parts[0], assignment: parts[1]}
			parts = parts[:2]
		default:
			parts = parts[:depth]
			c = claim{name: parts[depth-1]}
		}
		c.leaf, c.path = base, path.Join(f.source.above, path.Join(parts...))
		list = append(list, claimed{within(f, c), f})
	}
	return list, nobodys
}

// unwrap takes off the one folder that a program for ZIP files puts around a class of several notebooks.
func unwrap(files []*file) []*file {
	wrapper, _, ok := strings.Cut(files[0].path, "/")
	notebooks := 0
	for _, f := range files {
		ok = ok && strings.HasPrefix(f.path, wrapper+"/")
		if f.isNotebook() {
			notebooks++
		}
	}
	if !ok || notebooks < 2 {
		return files
	}
	inner := make([]*file, len(files))
	for i, f := range files {
		inner[i] = new(*f)
		inner[i].path = strings.TrimPrefix(f.path, wrapper+"/")
	}
	return inner
}

// isTree reports whether folders two deep are student/assignment, as below a step that nbgrader was told to call otherwise: there is one assignment, or the
// instructor chose one of them, or most students have folders of the same names.
func isTree(files []*file, assignment string) bool {
	pairs, inner := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		if parts := strings.Split(f.path, "/"); f.isNotebook() && len(parts) == 3 {
			pairs[parts[0]+"/"+parts[1]], inner[parts[1]] = true, true
		}
	}
	return len(inner) == 1 || inner[assignment] || 2*len(pairs) >= 3*len(inner)
}

// choose keeps one assignment of nbgrader trees.
func choose(list []claimed, assignment string) ([]claimed, error) {
	found := map[string]bool{}
	for _, c := range list {
		if c.assignment != "" && c.file.isNotebook() {
			found[c.assignment] = true
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(found)), ", ")
	switch {
	case len(found) == 0 && assignment != "":
		return nil, jobs.Errorf(jobs.CodeInvalid, "assignment is %q, but what you named is no nbgrader tree (step/student/assignment/notebook.ipynb); leave the assignment out", assignment)
	case len(found) > 0 && assignment != "" && !found[assignment]:
		return nil, jobs.Errorf(jobs.CodeInvalid, "assignment is %q, which nobody handed in; there are: %s", assignment, names)
	case len(found) > 1 && assignment == "":
		return nil, jobs.Errorf(jobs.CodeInvalid, "there are %d assignments; choose one of: %s", len(found), names)
	case assignment == "":
		assignment = names
	}
	return slices.DeleteFunc(list, func(c claimed) bool { return c.assignment != "" && c.assignment != assignment }), nil
}

// group brings together what is one student's.
func group(list []claimed) []*part {
	byStudent := map[string]*part{}
	for _, c := range list {
		p := byStudent[c.student]
		if p == nil {
			p = &part{claim: c.claim}
			byStudent[c.student] = p
		}
		p.path = min(p.path, c.path)
		if c.file.isNotebook() {
			p.notebooks = append(p.notebooks, c)
		} else {
			p.others = append(p.others, c.file)
		}
	}
	return slices.SortedFunc(maps.Values(byStudent), func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.lmsID, b.lmsID), cmp.Compare(a.path, b.path))
	})
}

// newest keeps of several attempts the notebooks of the last, and reports whether there were earlier ones.
func (p *part) newest() (earlier bool) {
	if len(p.notebooks) == 0 {
		return false
	}
	all := len(p.notebooks)
	last := slices.MaxFunc(p.notebooks, func(a, b claimed) int { return a.at.Compare(b.at) }).at
	p.notebooks = slices.DeleteFunc(p.notebooks, func(c claimed) bool { return !c.at.Equal(last) })
	version := map[string]int{}
	for _, c := range p.notebooks {
		version[c.leaf] = max(version[c.leaf], c.version)
	}
	p.notebooks = slices.DeleteFunc(p.notebooks, func(c claimed) bool { return c.version < version[c.leaf] })
	return len(p.notebooks) < all
}

// pick leaves the one notebook that is graded: the one of a name or, if none is given, the one that is called like one of the instructor's.
func (p *part) pick(name string, own []string) {
	names := []string{name}
	if name == "" {
		if len(p.notebooks) < 2 {
			return
		}
		names = nil
		for _, path := range own {
			names = append(names, stem(filepath.Base(path)))
		}
	}
	var picked []claimed
	for _, c := range p.notebooks {
		if slices.Contains(names, stem(c.leaf)) {
			picked = append(picked, c)
		}
	}
	switch {
	case len(picked) > 0:
		p.notebooks = picked
	case name != "":
		p.unnamed, p.notebooks = len(p.notebooks), nil
	}
}

// stem is a file's name without .ipynb.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// known are the kinds of files that are told by name; any other end of a name may be a part of the student's.
var known = strings.Fields(".7z .c .cpp .csv .doc .docx .gz .htm .html .ipynb .jl .jpeg .jpg .js .json .md .odt .pages .pdf .png .ppt .pptx .py .qmd .r .rar .rds .rdata .rmd .rtf .sas .sql .svg .tar .tex .tsv .txt .url .webloc .xls .xlsx .xml .yaml .yml .zip")

// kinds lists the kinds of files.
func kinds(files []*file) string {
	found := map[string]bool{}
	for _, f := range files {
		ext := strings.ToLower(path.Ext(f.path))
		if !slices.Contains(known, ext) {
			ext = "other"
		}
		found[ext] = true
	}
	list := strings.Join(slices.Sorted(maps.Keys(found)), ", ")
	if found[".zip"] {
		list += "; a ZIP file within is not opened: unpack it, or name it by itself"
	}
	return list
}

// noSubmission says that a file of the instructor's lies among the submissions.
func noSubmission(s *source, own string) string {
	return fmt.Sprintf("%s: left out %s, which is yours and no submission", s.typed, path.Base(filepath.ToSlash(own)))
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
