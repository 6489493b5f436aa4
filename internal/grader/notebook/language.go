package notebook

import (
	"regexp"
	"strings"
)

// language returns what the notebook's metadata say of its language. Notebooks that were converted from something else often have none, or those of another
// one: lines that are at home in one of the two alone say more, if there are some of them and none of the other.
func (r *reader) language(metadata value) (Language, string) {
	spec := metadata.member("kernelspec")
	for _, v := range []value{metadata.member("language_info").member("name"), spec.member("language"), spec.member("name")} {
		if name := r.label(v); name != "" {
			language := languageOf(name)
			if code, signs := guess(r.nb.Cells); language != Other && code != Other && signs >= enoughSigns {
				language = code
			}
			return language, name
		}
	}
	language, signs := guess(r.nb.Cells)
	if signs == 0 {
		language = languageOf(r.spoken)
	}
	return language, r.spoken
}

// ownLanguage is what a cell says of its language: where VS Code, SoS, Polyglot Notebooks and .NET Interactive write it, "" if it says nothing.
func (r *reader) ownLanguage(metadata value) Language {
	for _, v := range []value{
		metadata.member("vscode").member("languageId"), metadata.member("kernel"),
		metadata.member("polyglot_notebook").member("kernelName"), metadata.member("dotnet_interactive").member("language"),
	} {
		if name := r.label(v); name != "" {
			return languageOf(name)
		}
	}
	return ""
}

// enoughSigns is how many lines must speak against what a notebook says of itself.
const enoughSigns = 3

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

// guess returns the one language that the code has signs of, and how many. A cell with a magic is in a language of its own.
func guess(cells []Cell) (language Language, signs int) {
	r, python := 0, 0
	for _, c := range cells {
		if c.Kind == Code && !strings.HasPrefix(strings.TrimSpace(c.Source), "%%") {
			r += len(signOfR.FindAllString(c.Source, enoughSigns))
			python += len(signOfPython.FindAllString(c.Source, enoughSigns))
		}
	}
	switch {
	case r > 0 && python == 0:
		return R, r
	case python > 0 && r == 0:
		return Python, python
	}
	return Other, 0
}
