package code_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"tandem/internal/grader/code"
	"tandem/internal/grader/notebook"
)

// row is a cell and what must be found in it. Lists are names separated by spaces; nil means that it does not matter.
type row struct {
	what     string
	source   string
	assigned string // all of them
	called   string // at least
	named    string // at least
	strings  string // at least, separated by |
	shown    string // all of them
	not      string // neither assigned, called nor named
}

func (want row) check(t *testing.T, lang notebook.Language) {
	t.Helper()
	f := code.Analyse(lang, want.source)
	if got := names(f.Assigned); got != sorted(want.assigned) {
		t.Errorf("assigned %q; want %q", got, sorted(want.assigned))
	}
	if got := names(f.Shown); got != sorted(want.shown) {
		t.Errorf("shown %q; want %q", got, sorted(want.shown))
	}
	has(t, "called", f.Called, strings.Fields(want.called))
	has(t, "named", f.Named, strings.Fields(want.named))
	if want.strings != "" {
		has(t, "strings", f.Strings, strings.Split(want.strings, "|"))
	}
	for w := range strings.FieldsSeq(want.not) {
		for where, m := range map[string]map[string][]int{"assigned": f.Assigned, "called": f.Called, "named": f.Named} {
			if lines, ok := m[w]; ok {
				t.Errorf("%s is %s on lines %v", w, where, lines)
			}
		}
	}
}

func names(m map[string][]int) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}

func sorted(list string) string {
	l := strings.Fields(list)
	slices.Sort(l)
	return strings.Join(l, " ")
}

func has(t *testing.T, what string, m map[string][]int, want []string) {
	t.Helper()
	for _, w := range want {
		if _, ok := m[w]; !ok {
			t.Errorf("%s is not %s: %q", w, what, slices.Sorted(maps.Keys(m)))
		}
	}
}

func TestR(t *testing.T) {
	for _, want := range []row{
		{what: "the arrow", source: "x <- 1", assigned: "x"},
		{what: "the arrow without blanks", source: "x<-1", assigned: "x"},
		{what: "the global arrow", source: "x <<- 1", assigned: "x"},
		{what: "the arrow to the right", source: "1 -> x\n2 ->> y", assigned: "x y"},
		{what: "at the end of a pipe", source: "sales |>\n  filter(a > 1) |>\n  head(3) -> top", assigned: "top", called: "filter head |>", named: "sales a"},
		{what: "on the next line", source: "total <-\n  sum(x)", assigned: "total", called: "sum"},
		{what: "an equals sign", source: "x = 1; y = x", assigned: "x y", named: "x"},
		{what: "a chain", source: "a <- b <- 1\nc = d = 2", assigned: "a b c d"},
		{what: "dots and accents in names", source: "sales.total <- 1\n.hidden <- 2\ngrößte_zahl <- 3", assigned: "sales.total .hidden größte_zahl"},
		{what: "backticks", source: "`my total` <- 1; `x` <- 2", assigned: "x", not: "my", shown: ""},
		{what: "a string in a name's place", source: `"x" <- 1`, assigned: "x"},
		{what: "assign", source: `assign("x", 1); delayedAssign("y", 2); assign(x = "z", value = 3)`, assigned: "x y z", called: "assign delayedAssign"},
		{what: "a function", source: "area <- function(r, digits = 2) {\n  res = pi * r^2\n  round(res, digits)\n}", assigned: "area res", called: "round", named: "r digits pi"},
		{what: "a lambda", source: `f <- \(x, k = 2) x + k`, assigned: "f", named: "x k"},
		{what: "a loop", source: "for (region in regions) print(region)", assigned: "region", named: "regions", called: "print", shown: "region"},
		{what: "to and fro", source: "sales %<>% filter(a)", assigned: "sales"},
		{what: "braces within a call", source: "res = tryCatch({\n  y = f(x)\n  z <- 2\n}, error = function(e) NULL)", assigned: "res y z", called: "tryCatch f", named: "error e x"},
		{what: "bare parentheses", source: "(x = 3)", assigned: "x", shown: "x"},

		{what: "a comparison", source: "x == 1; y <= 2; z >= 3; w != 4; v < -1", not: "", named: "x y z w v"},
		{what: "an argument's name", source: "f(x = 1)\ng(y = 2,\n  z = 3)", called: "f g", named: "x y z"},
		{what: "an argument's name by an index", source: "dt[, total := sum(x), by = region]", named: "dt total region x", called: "sum"},
		{what: "a default of a parameter", source: "function(x = 1) x", named: "x"},
		{what: "a comment", source: "# total <- 1\n1 # total = 2", not: "total"},
		{what: "a string", source: `note <- "total <- 1; it's"; other <- 'say "total = 1"'`, assigned: "note other", not: "total"},
		{what: "escaped quotes", source: `s <- "a \" total <- 1"; x <- 1`, assigned: "s x", not: "total"},
		{what: "a string over lines", source: "s <- \"one\ntotal <- 1\n\"\nx <- 1", assigned: "s x", not: "total"},
		{what: "a raw string", source: `s <- r"(C:\total <- "1")"; x <- R"--[total <- ")" ]-"]--"`, assigned: "s x", not: "total"},
		{what: "a hash in a string", source: "s <- \"# no comment\"; x <- 1", assigned: "s x"},
		{what: "a string that is not closed", source: "x <- 1\ns <- \"open\ny <- 2", assigned: "x s", not: "y"},
		{what: "a raw string that is not closed", source: "x <- 1\ns <- r\"(open\ny <- 2)", assigned: "x s", not: "y"},
		{what: "a backtick that is not closed", source: "f(`open <- 1\ny <- 2", assigned: "y", shown: ""},
		{what: "a bracket that is not closed", source: "print((x)\ny = 3\n(z = 4)", assigned: "y z", called: "print", named: "x", shown: "z"},
		{what: "a bracket that is never opened", source: "x <- 1)\n}}\ny = 2", assigned: "x y"},
		{what: "brackets that do not match", source: "f(x]\ny = 1\ng[z)", assigned: "y"},
		{what: "a part of a variable", source: "df$y <- 1\ndf[[\"a\"]] <- 2\ndf[1, 2] = 3\nnames(df) <- c(\"b\")\ns@slot <- 1\nattr(df, \"k\") = 2\n3 -> df$w", strings: "a|b", named: "df y slot s w", called: "names attr c"},

		{what: "pipes into names and packages", source: "a %>% head\nb %>% dplyr::n_distinct(x)\nc |> stats::na.omit()", called: "head n_distinct dplyr::n_distinct na.omit stats::na.omit %>% |>", named: "dplyr stats", shown: "a"},
		{what: "infix functions", source: "x %in% y", called: "%in%", named: "x y"},
		{what: "a modulo sign alone", source: "x % y\nz <- 1", assigned: "z"},
		{what: "columns of verbs", source: "summary_df <- sales |> group_by(region, month) |> summarise(revenue = sum(units * price), .groups = \"drop\")", assigned: "summary_df", named: "region month revenue units price .groups", called: "group_by summarise sum"},
		{what: "both names of rename", source: "rename(df, new = old)", named: "new old"},
		{what: "columns by dollar and string", source: "df$region; df[['month']]; inner_join(a, b, by = c(\"id\" = \"key\"))", named: "region", strings: "month|id|key"},
		{what: "a formula", source: "lm(y ~ a + b:c, data = d)", called: "lm", named: "y a b c data d"},
		{what: "a name that is no call", source: "sapply(x, mean)", called: "sapply mean", named: "x"},
		{what: "a function named by hand-over", source: "do.call(rbind, l); Reduce(merge, l); aggregate(x ~ g, d, FUN = median); map_dbl(l, stats::sd); across(c(a, b), max)", called: "rbind merge median sd max do.call across"},
		{what: "a method in a list", source: "obj$run(1)", called: "run", named: "obj"},
		{what: "words of the language", source: "if (TRUE) NULL else NA", not: "TRUE NULL NA if else"},
		{what: "library", source: "library(dplyr)", called: "library", named: "dplyr"},

		{what: "shown alone", source: "x <- 1\nx", assigned: "x", shown: "x"},
		{what: "shown after a semicolon", source: "x <- 1; x", assigned: "x", shown: "x"},
		{what: "shown before the last line", source: "a\nb <- 1\nc", assigned: "b", shown: "a c"},
		{what: "shown by parentheses", source: "(x <- f(1))", assigned: "x", shown: "x"},
		{what: "shown by functions", source: "head(a, n)\nprint(b, digits = k)\nknitr::kable(head(c))\ntibble::glimpse(d)\nView(e)\nprint(tail(g, 3))\nstr(h)", shown: "a b c d e g h"},
		{what: "shown by pipes", source: "a |> head(3)\nb %>% print()\nc %>% head\nd |> filter(x) |> head()\nsales |>\n  knitr::kable()", shown: "a b c sales"},
		{what: "shown in another order and dress", source: "a |> arrange(desc(x)) |> kable() |> kable_styling()\nscales::dollar(b)", shown: "a b"},
		{what: "shown in a sentence", source: "cat(\"Mean:\", round(m, 2), \"\\n\")\nprint(paste(\"Total\", total))", shown: "m total"},
		{what: "not shown", source: "invisible(a)\nb <- head(c)\nsummary(d)\nplot(e)\nf + 1\ng$h\nk |> head() -> l", assigned: "b l"},
		{what: "shown within a function is shown", source: "for (i in 1:3) { print(x) }", assigned: "i", shown: "x"},

		{what: "nothing", source: ""},
		{what: "numbers", source: "x <- 1e-3 + 0x1F - 1L - .5", assigned: "x", not: "e L x1F"},
		{what: "windows line ends", source: "x <- 1\r\ny <- 2\r\n", assigned: "x y"},
	} {
		t.Run(want.what, func(t *testing.T) {
			if want.what == "backticks" {
				if f := code.Analyse(notebook.R, want.source); f.Assigned["my total"] == nil {
					t.Errorf("assigned %q", names(f.Assigned))
				}
				return
			}
			want.check(t, notebook.R)
		})
	}
}
