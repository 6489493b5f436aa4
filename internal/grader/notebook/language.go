package notebook

import (
	"regexp"
	"strings"
)

// language returns what the notebook's metadata say of its language. Notebooks that were converted from something else often have no metadata;
// then, and only then, the language is guessed by lines that are at home in one of the two alone.
func (r *reader) language(metadata value) (Language, string) {
	spec := metadata.member("kernelspec")
	for _, v := range []value{metadata.member("language_info").member("name"), spec.member("language"), spec.member("name")} {
		if name := r.label(v); name != "" {
			return languageOf(name), name
		}
	}
	return guess(r.nb.Cells), ""
}

// languageOf knows the names of languages and those of kernels: ir, python3, conda-env-class-r.
func languageOf(name string) Language {
	name = strings.ToLower(name)
	switch {
	case name == "r" || name == "ir" || name == "irkernel" || strings.HasSuffix(name, "-r"):
		return R
	case strings.HasPrefix(name, "python") || strings.HasPrefix(name, "ipython") || strings.HasSuffix(name, "-py"):
		return Python
	}
	return Other
}

var (
	signOfR      = regexp.MustCompile(`(?m)^[ \t]*(?:library\(|[A-Za-z.][A-Za-z0-9._]*[ \t]*<-[ \t])`)
	signOfPython = regexp.MustCompile(`(?m)^(?:import [a-z_]|from [a-z_.]+ import |def [a-z_A-Z0-9]+\(.*:)`)
)

// guess returns the one language that the code has a sign of.
func guess(cells []Cell) Language {
	r, python := false, false
	for _, c := range cells {
		if c.Kind == Code {
			r = r || signOfR.MatchString(c.Source)
			python = python || signOfPython.MatchString(c.Source)
		}
	}
	switch {
	case r && !python:
		return R
	case python && !r:
		return Python
	}
	return Other
}
