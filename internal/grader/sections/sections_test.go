package sections_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/grader/notebook"
	"tandem/internal/grader/rubric"
	"tandem/internal/grader/sections"
)

// cells makes a notebook: a text that begins with > is code, any other Markdown.
func cells(texts ...string) *notebook.Notebook {
	nb := &notebook.Notebook{Language: notebook.R}
	for i, s := range texts {
		c := notebook.Cell{Number: i + 1, Kind: notebook.Markdown, Source: s}
		if source, ok := strings.CutPrefix(s, ">"); ok {
			c.Kind, c.Source = notebook.Code, source
		}
		nb.Cells = append(nb.Cells, c)
	}
	return nb
}

// named makes a rubric with sections a, b, … of these names.
func named(names ...string) *rubric.Rubric {
	r := &rubric.Rubric{}
	for i, n := range names {
		r.Sections = append(r.Sections, rubric.Section{ID: string(rune('a' + i)), Name: n})
	}
	return r
}

// One heading, one section: is it the section's?
func TestHeadings(t *testing.T) {
	for _, c := range []struct {
		section, text string
		want          bool
	}{
		{"Join the tables", "# Join the tables", true},
		{"Join the tables", "### **Join** the _tables_! ###", true},
		{"Join the tables", "#Join the tables", true},
		{"Join the tables", "  ## JOIN THE TABLES:", true},
		{"Join the tables", "Join the tables\n===", true},
		{"Join the tables", "Some text.\n\nJoin the tables\n---\nmore", true},
		{"Join the tables", "<h2 id=\"x\" class='y'>Join <em>the</em>&nbsp;tables</h2>", true},
		{"Join the tables", "<h2>\n  Join the\n  tables\n</h2>", true},
		{"Join the tables", "## [Join the tables](#join) {#join .x}", true},
		{"Join the tables", "## 🔗 Join the tables 🎉", true},
		{"Join the tables", "Text first.\n\n## Join the tables", true},
		{"Join the tables", "## Part 2: Join the tables", true},
		{"Join the tables", "## Part II – Join the tables", true},
		{"Join the tables", "## Section 3 - Join the tables", true},
		{"Join the tables", "## 3. Join the tables", true},
		{"Join the tables", "## 3.1) Join the tables", true},
		{"Join the tables", "## 2️⃣ Join the tables", true},
		{"Join the tables", "## Q1) Join the tables", true},
		{"Join the tables", "## (b) Join the tables", true},
		{"Join the tables", "## IV. Join the tables", true},
		{"Part 2: Join the tables", "## Join the tables", true},
		{"Part 2: Join the tables", "## Part 2 — join the tables (10 points)", true},
		{"Part 2", "## Part 2: Join the tables", true},
		{"Part 2", "## Part 2", true},
		{"Join", "## Join the tables by customer", true},
		{"Übung: Größen", "## ÜBUNG — größen", true},
		{"Sales & costs", "## Sales &amp; costs", true},

		{"Join the tables", "Join the tables", false},
		{"Join the tables", "**Join the tables**", false},
		{"Join the tables", "```\n# Join the tables\n```", false},
		{"Join the tables", "~~~ r\n# Join the tables\n```\n# Join the tables\n~~~", false},
		{"Join the tables", "    # Join the tables", false},
		{"Join the tables", "- Join the tables\n---", false},
		{"Join the tables", "Join the tables\n\n---", false},
		{"Join the tables", "####### Join the tables", false},
		{"Join", "## Joining", false},
		{"Join", "## A disjoint set", false},
		{"Part 2", "## Part 20: Join", false},
		{"Part 2", "## Part 3", false},
		{"Café", "## Cafe", false},
		{"Join", "##", false},
		{"Part 2: R", "## What R can do", false},
	} {
		m := sections.Locate(cells("intro", c.text), named(c.section))
		if got := m.Of(1) == "a"; got != c.want || m.Of(0) != "" {
			t.Errorf("%q in %q: %t; want %t", c.section, c.text, got, c.want)
		}
	}
}

func TestLocate(t *testing.T) {
	heading := named("Join", "Plot")
	heading.Sections[1].Heading = "Draw it"
	byID := &rubric.Rubric{Sections: []rubric.Section{{ID: "part_1", Name: "Load"}, {ID: "q2", Name: "Join"}}}

	for _, c := range []struct {
		what   string
		rubric *rubric.Rubric
		cells  []string
		want   string // section of each cell, - for none
	}{
		{"cells up to the next section", named("Load", "Join"), []string{"# Homework", ">1", "# Load", ">2", "text", "# Join", ">3"}, "- - a a a b b"},
		{"headings of no section stay", named("Load", "Join"), []string{"# Load", "## Hints", ">1", "# Join", "### Check", ">2"}, "a a a b b b"},
		{"in another order than the rubric", named("Load", "Join"), []string{"# Join", ">1", "# Load", ">2"}, "b b a a"},
		{"twice", named("Load", "Join"), []string{"# Load", "# Join", "# Load", ">1"}, "a b a a"},
		{"the last of several in a cell", named("Load", "Join"), []string{"# Load\n## Join", ">1"}, "b b"},
		{"equal goes before containing", named("Join", "Plot"), []string{"# How to join and plot", "# Join", "# Plot"}, "- a b"},
		{"equal goes before containing, elsewhere", named("Join"), []string{"# The join assignment", ">1", "# Join", ">2"}, "- - a a"},
		{"the shortest that contains it", named("Join"), []string{"# Everything about how to join", "# The join", "# Join: why it is done"}, "- a a"},
		{"the longer name", named("Join", "Inner join"), []string{"# The inner join of tables", ">1", "# A join", ">2"}, "b b a a"},
		{"two names in one heading", named("Join", "Plot"), []string{"# First join, then plot", ">1"}, "- -"},
		{"names that differ by their number alone", named("Part 1: Analysis", "Part 2: Analysis"), []string{"# Analysis", "# Part 2 - Analysis", "# Part 1 - Analysis"}, "- b a"},
		{"by the own key heading", heading, []string{"# Plot", "# Join", "# Draw it", ">1"}, "- a b b"},
		{"by id", byID, []string{"## Part 1: Read the files", ">1", "## Q2: Combine", ">2"}, "part_1 part_1 q2 q2"},
		{"without a heading", named("Load", "Join"), []string{"# Load", ">1"}, "a a"},
		{"by comments of code", named("Load", "Join"), []string{"> # Part 1: Load\nx <- 1", ">y", "># ---- Join ----\nz"}, "a a b"},
		{"comments only where Markdown has none", named("Load", "Join"), []string{"># Load", "# Load", "># Join\n1"}, "- a b"},
		{"comments that say more, or later", named("Load", "Join"), []string{"># Load the data", ">x <- 1\n# Join"}, "- -"},
		{"no sections", named(), []string{"# Load"}, "-"},
		{"no cells", named("Load"), nil, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			nb := cells(c.cells...)
			m := sections.Locate(nb, c.rubric)
			var got []string
			cells := map[string][]int{}
			for i := range nb.Cells {
				id := m.Of(i)
				if id != "" {
					cells[id] = append(cells[id], i)
				}
				if id == "" {
					id = "-"
				}
				got = append(got, id)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("sections %q; want %q", s, c.want)
			}
			if diff := cmp.Diff(cells, m.Cells); diff != "" {
				t.Errorf("Cells is not what Of says: %s", diff)
			}
		})
	}
	if m := sections.Locate(cells(), named("Load")); m.Of(-1) != "" || m.Of(7) != "" {
		t.Error("a cell that is not there is in a section")
	}
}

func FuzzLocate(f *testing.F) {
	f.Add("# Part 2: Join\n", "Join")
	f.Add("```\n# x\n~~~", "x")
	f.Add("<h1>Ü\n</h1>", "ü")
	f.Add("x\n--", "\xff")
	f.Fuzz(func(t *testing.T, text, name string) {
		m := sections.Locate(cells(text, ">"+text), named(name, "other"))
		for id, list := range m.Cells {
			if len(list) == 0 || m.Of(list[0]) != id {
				t.Errorf("section %s has cells %v, the first of %q", id, list, m.Of(list[0]))
			}
		}
	})
}
