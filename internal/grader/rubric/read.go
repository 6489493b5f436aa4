package rubric

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"tandem/jobs"
)

// Read reads a rubric. Errors are of code [jobs.CodeInvalid] and list what is wrong (20 at most), each with its JSON pointer, the value, what is wanted and the remedy: first all that is wrong with the
// form, as docs/schemas/rubric.schema.json has it; once that is right, all that does not fit together. Where they stand in the file is in the [Wrong] of the error.
func Read(data []byte) (*Rubric, error) {
	r, err := readRubric(data)
	if wrong, known := errors.AsType[*Wrong](err); known {
		text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		for i := range wrong.Problems {
			wrong.Problems[i].Line = 1 + bytes.Count(text[:wrong.Problems[i].at], []byte("\n"))
		}
	}
	return r, err
}

func readRubric(data []byte) (*Rubric, error) {
	hash := sha256.Sum256(data)
	r := &Rubric{Raw: data, SHA256: hex.EncodeToString(hash[:])}
	root, err := readTree(data)
	if err != nil {
		return nil, err
	}
	form, err := loadSchema()
	if err != nil {
		return nil, err
	}
	old := &problems{}
	notes := modernise(root, old)
	unknown := form.unknown(root, form.tree)
	if err := old.err(); err != nil {
		return nil, err
	}
	if err := form.check(root, unknown).err(); err != nil {
		return nil, err
	}
	r.root, r.notes = root, notes
	b := builder{Rubric: r, root: root, bad: &problems{}}
	for _, u := range unknown {
		r.Unknown = append(r.Unknown, u.node.pointer())
		if u.meant != "" {
			b.note(u.node, "did you mean %s? Nobody knows this key; it is kept and shown to the models", u.meant)
		} else {
			b.note(u.node, "nobody knows this key; it is kept and shown to the models")
		}
	}
	b.build()
	if err := b.bad.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// readTree reads JSON, of which encoding/json alone would let too much pass.
func readTree(data []byte) (*node, error) {
	if len(data) > maxFile {
		return nil, jobs.Errorf(jobs.CodeInvalid, "rubric: the file has %d bytes; want at most %d; look whether this is the right file", len(data), maxFile)
	}
	text := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := checkText(text); err != nil {
		return nil, err
	}
	var value json.RawMessage
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, syntaxError(text, err)
	}
	root, bad := parse(text)
	if err := bad.err(); err != nil {
		return nil, err
	}
	if err := jobs.CheckJSON(text); err != nil { // what is left: half a surrogate pair
		return nil, jobs.Errorf(jobs.CodeInvalid, "rubric: %v; write the character itself", err)
	}
	if root.kind == '{' && root.get("nbformat") != nil && root.get("cells") != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "rubric: the file is a notebook; want the rubric's JSON; look whether rubric and solution were swapped")
	}
	return root, nil
}

// checkText tells files that are not JSON at all by what they are.
func checkText(text []byte) error {
	start := bytes.TrimSpace(text)
	switch {
	case len(start) == 0:
		return jobs.Errorf(jobs.CodeInvalid, "rubric: the file is empty; want JSON; save it again")
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), bytes.HasPrefix(text, []byte{0xfe, 0xff}), bytes.IndexByte(text[:min(len(text), 4)], 0) >= 0:
		return jobs.Errorf(jobs.CodeInvalid, "rubric: the file is UTF-16 or binary; want JSON in UTF-8; save it with that encoding")
	case start[0] == '<':
		return jobs.Errorf(jobs.CodeInvalid, "rubric: the file begins with %q, as HTML and XML do; want JSON; download the file itself instead of the page that shows it", shorten(string(start[:min(len(start), 20)])))
	case !utf8.Valid(text):
		return jobs.Errorf(jobs.CodeInvalid, "rubric: %v; want JSON in UTF-8; save it with that encoding", jobs.CheckJSON(text))
	}
	return nil
}

// syntaxError says where JSON ends to be JSON.
func syntaxError(text []byte, err error) error {
	at := len(text)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(0, min(at, int(syntax.Offset)-1))
	}
	line := 1 + bytes.Count(text[:at], []byte("\n"))
	column := 1 + utf8.RuneCount(text[bytes.LastIndexByte(text[:at], '\n')+1:at])
	what := fmt.Sprintf("line %d, column %d is not JSON: %v; JSON wants double quotes, no comma after a last entry and no comments", line, column, err)
	return jobs.Errorf(jobs.CodeInvalid, "%w", &Wrong{[]Problem{{Text: what, at: at}}, "rubric: " + what})
}
