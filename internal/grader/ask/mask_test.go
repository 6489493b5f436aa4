package ask

import (
	"testing"

	"tandem/internal/grader/notebook"
)

func TestMask(t *testing.T) {
	common := map[string]bool{}
	addWords(common, "unit_price orders region Garden")
	m := (&Masks{common}).of(nil, []string{"Ada Lovelace", "Mu\u0308ller-Price, Jo", "Lovelace, Ada", "orders", "48291377", "kim"})
	const md, code, out = notebook.Markdown, notebook.Code, notebook.Kind("")
	for _, tt := range []struct {
		kind     notebook.Kind
		in, want string
	}{
		{md, "By Ada Lovelace, ada_lovelace, LOVELACE ADA and adaLovelace.", "By [student], [student], [student] and [student]."},
		{md, "Lovelace says", "[student] says"},
		{md, "adalovelacey stays, and lovelace in lower case, too", "adalovelacey stays, and lovelace in lower case, too"},
		{code, "df <- read('/home/Müller/x'); sum(Price * unit_price)", "df <- read('/home/[student]/x'); sum(Price * unit_price)"},
		{code, "orders <- 1; kim <- 2; x_48291377 = 48291377", "orders <- 1; kim <- 2; x_[student] = [student]"},
		{md, "Name: Grace H.", "Name: [student]"},
		{md, "# **Student name:** Grace\n- author: G.\nauthor:\n  - Grace H", "# **Student name:** [student]\n- author: [student]\nauthor:\n  - [student]"},
		{md, "Autorin: Grace; Text", "Autorin: [student]"},
		{md, "Submitted by: Grace", "Submitted by: [student]"},
		{md, "Hello, my name is Grace Hopper and I study", "Hello, my name is [student] and I study"},
		{md, "The name: of a region", "The name: of a region"},
		{code, "# Name: Grace\nname: str = 'x'\n#' @author Grace\n__author__ = 'Grace'", "# Name: [student]\nname: str = 'x'\n#' @author [student]\n__author__ = [student]"},
		{out, "Name: revenue, dtype: float64", "Name: revenue, dtype: float64"},
		{md, "write to grace.h+x@cs.example.edu!", "write to [student]!"},
		{code, "'zoë.o'hara@cs.example.edu', '_x@y.de'", "'[student]', '_[student]'"},
		{code, "fit@coef.names; A@B.copy; @app.route; x@y", "fit@coef.names; A@B.copy; @app.route; x@y"},
	} {
		if got := m.mask(tt.kind, tt.in); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := (&Masks{common}).of(nil, nil).mask(code, "x <- 1"); got != "x <- 1" {
		t.Errorf("without names a text becomes %q", got)
	}
}

// TestMaskRunTogether: learning systems write names into file names without what stands between their words.
func TestMaskRunTogether(t *testing.T) {
	common := map[string]bool{}
	addWords(common, "total revenue per region")
	for _, tt := range []struct{ name, in, want string }{
		{"examplemaria", "Maria Example; Example, Maria; maria.example, /Users/maria_example/x, C:\\Users\\Maria Example\\x, MariaExample, EXAMPLE MARIA", "[student]; [student]; [student], /Users/[student]/x, C:\\Users\\[student]\\x, [student], [student]"},
		{"obrientestina", "by Testina O'Brien and O’Brien, Testina", "by [student] and [student]"},
		{"lindqvistzoe", "Zoë Lindqvist, Zoe\u0308 Lindqvist", "[student], [student]"},
		{"vandenbergan", "An van den Berg", "[student]"},
		{"totalrevenue", "total revenue, revenue total", "total revenue, revenue total"},
		{"examplemaria", "an example: Mariachi; examples Maria", "an example: Mariachi; examples Maria"},
		{"leeann", "lee, ann", "lee, ann"}, // too short to tell from words
	} {
		if got := (&Masks{common}).of(nil, []string{tt.name}).mask(notebook.Markdown, tt.in); got != tt.want {
			t.Errorf("%s: %q becomes %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}
