package notebook

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"tandem/internal/units"
	"tandem/jobs"
)

// maxDepth is how deep lists and objects may be nested; a notebook's own need eight.
const maxDepth = 200

// parse returns the object that the file holds.
func parse(data []byte) (value, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // Windows writes it in front of UTF-8
	if err := checkMagic(data); err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, jobs.Errorf(jobs.CodeInvalid, "the notebook is not valid UTF-8 (at byte %s); convert the file to UTF-8", units.Count(invalidAt(data)))
	}
	text := bytes.Trim(data, " \t\r\n")
	end, deepest := span(text)
	if deepest > maxDepth {
		return nil, jobs.Errorf(jobs.CodeInvalid, "the notebook nests lists and objects %s deep; %d are allowed: open it in Jupyter and save it again", units.Count(deepest), maxDepth)
	}
	if err := json.Unmarshal(text, new(struct{})); err != nil {
		return nil, syntaxError(err, text, end < 0)
	}
	return value(text), nil
}

// syntaxError says where a text stops being JSON; open that it ends within a value.
func syntaxError(err error, text []byte, open bool) error {
	at := int64(0)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	}
	switch {
	case open && at == int64(len(text)):
		return jobs.Errorf(jobs.CodeInvalid, "the notebook ends in the middle, after byte %s: it was not copied or uploaded whole; get it again", units.Count(len(text)))
	case bytes.Contains(text, []byte("\n<<<<<<< ")):
		return jobs.Errorf(jobs.CodeInvalid, "the notebook holds the marks of a merge conflict of git (<<<<<<<); resolve it, and save the notebook from Jupyter")
	}
	return jobs.Errorf(jobs.CodeInvalid, "the notebook is not valid JSON (at byte %s); it was edited by hand or damaged: open it in Jupyter and save it again, or get it again", units.Count(int(at)))
}

func invalidAt(data []byte) int {
	for i := 0; ; {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// magics are how files of other kinds begin.
var magics = []struct{ begin, what string }{
	{"\xff\xfe", utf16Text}, {"\xfe\xff", utf16Text}, {"{\x00", utf16Text}, {"\x00{", utf16Text},
	{"PK\x03\x04", "a ZIP file or an office document; unpack it, and hand in the notebook itself"},
	{"%PDF-", "a PDF; hand in the notebook itself (.ipynb), not its print-out"},
	{"\x1f\x8b", "compressed by gzip; unpack it"},
	{"\x89PNG", "a picture; hand in the notebook itself (.ipynb)"},
	{"\xff\xd8\xff", "a picture; hand in the notebook itself (.ipynb)"},
	{"\xd0\xcf\x11\xe0", "an office document; hand in the notebook itself (.ipynb)"},
	{`{\rtf`, "a text document (RTF); hand in the notebook itself (.ipynb)"},
	{"[", "a JSON list; a notebook is an object: hand it in as Jupyter saves it"},
	{"---\n", "an R Markdown, Quarto or Jupytext document; hand in the notebook itself (.ipynb), with its outputs"},
	{"---\r\n", "an R Markdown, Quarto or Jupytext document; hand in the notebook itself (.ipynb), with its outputs"},
}

const utf16Text = "UTF-16; convert it to UTF-8"

// checkMagic says what a file is that is no JSON object.
func checkMagic(data []byte) error {
	text := bytes.TrimLeft(data, " \t\r\n")
	if len(text) == 0 {
		return jobs.Errorf(jobs.CodeInvalid, "the file is empty; save the notebook again and hand it in")
	}
	for _, m := range magics {
		if bytes.HasPrefix(text, []byte(m.begin)) {
			return jobs.Errorf(jobs.CodeInvalid, "the file is no notebook but %s", m.what)
		}
	}
	switch {
	case text[0] == '{':
		return nil
	case text[0] == '<':
		return jobs.Errorf(jobs.CodeInvalid, "the file is no notebook but a web page (HTML), such as a log-in page that was saved in its place; download the notebook itself")
	case bytes.IndexByte(text[:min(len(text), 4096)], 0) < 0:
		return jobs.Errorf(jobs.CodeInvalid, "the file is no notebook but plain text, such as an R or Python script; hand in the notebook itself (.ipynb), with its outputs")
	}
	return jobs.Errorf(jobs.CodeInvalid, "the file is no notebook: it does not begin with { as one does; hand in the notebook as Jupyter saves it")
}
