package notebook

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"tandem/internal/units"
	"tandem/jobs"
)

// Read reads a notebook of nbformat 4, or of 2 or 3, which have their cells in worksheets. Errors are of code [jobs.CodeInvalid] and say what the file is instead (a web page, not
// UTF-8, cells missing, larger than allowed) and what to do about it; they never quote the text of the file.
func Read(data []byte, limits Limits) (*Notebook, error) {
	limits = limits.orDefault()
	if len(data) > limits.File {
		return nil, jobs.Errorf(jobs.CodeInvalid, "the notebook is %s bytes long; %s are allowed: clear the outputs that hold pictures or data, and save it again", units.Count(len(data)), units.Count(limits.File))
	}
	file, err := parse(data)
	if err != nil {
		return nil, err
	}
	var format, minor, cells, worksheets, metadata value
	for key, m := range file.members() {
		switch key {
		case "nbformat":
			format = m
		case "nbformat_minor":
			minor = m
		case "cells":
			cells = m
		case "worksheets":
			worksheets = m
		case "metadata":
			metadata = m
		}
	}
	if err := checkFormat(format, cells, worksheets); err != nil {
		return nil, err
	}
	r := &reader{limits: limits, nb: &Notebook{Format: strconv.Itoa(format.whole()) + "." + strconv.Itoa(max(minor.whole(), 0))}}
	lists := []value{cells}
	if format.whole() < 4 {
		lists = lists[:0]
		for sheet := range worksheets.elements() {
			lists = append(lists, sheet.member("cells"))
		}
	}
	if err := r.readCells(lists); err != nil {
		return nil, err
	}
	r.unseen(0, metadata)
	r.nb.Language, r.nb.Kernel = r.language(metadata)
	return r.nb, nil
}

// orDefault fills in what is zero.
func (l Limits) orDefault() Limits {
	return Limits{
		File:    cmp.Or(l.File, 32e6),
		Cells:   cmp.Or(l.Cells, 2000),
		Source:  cmp.Or(l.Source, 256e3),
		Sources: cmp.Or(l.Sources, 2e6),
		Output:  cmp.Or(l.Output, 64e3),
		Each:    cmp.Or(l.Each, 200),
	}
}

// checkFormat reports a file that is of another version, or no notebook.
func checkFormat(format, cells, worksheets value) error {
	version := format.whole()
	switch {
	case (version == 2 || version == 3) && worksheets.kind() == '[':
		return nil
	case version >= 1 && version < 4, format == nil && worksheets != nil:
		return jobs.Errorf(jobs.CodeInvalid, "the notebook is of nbformat %d, and its cells cannot be found: convert it with: jupyter nbconvert --to notebook --nbformat 4 FILE", max(version, 0))
	case version > 4:
		return jobs.Errorf(jobs.CodeInvalid, "the notebook is of nbformat %d; nbformat 4 is read: save it as that from the Jupyter that wrote it", version)
	case format == nil:
		return jobs.Errorf(jobs.CodeInvalid, "the file is JSON but no notebook: nbformat is missing; hand in the notebook as Jupyter saves it")
	case version != 4:
		return jobs.Errorf(jobs.CodeInvalid, "the notebook's nbformat is no version's number; want 4: open the notebook in Jupyter and save it again")
	case cells == nil:
		return jobs.Errorf(jobs.CodeInvalid, "the notebook has no list of cells (cells is missing); open it in Jupyter and save it again")
	case cells.kind() != '[':
		return jobs.Errorf(jobs.CodeInvalid, "the notebook's cells are not a list; open it in Jupyter and save it again")
	}
	return nil
}

// A reader makes a notebook of values.
type reader struct {
	limits Limits
	nb     *Notebook
	buf    []byte // one text at a time
	spoken string // the language that cells name, as those of nbformat 3 do
}

func (r *reader) readCells(lists []value) error {
	n := 0
	for _, cells := range lists {
		for range cells.elements() {
			n++
		}
	}
	if n > r.limits.Cells {
		return jobs.Errorf(jobs.CodeInvalid, "the notebook has %s cells; %s are allowed: split it, or delete the cells that hold nothing", units.Count(n), units.Count(r.limits.Cells))
	}
	r.nb.Cells = make([]Cell, 0, n)
	for _, cells := range lists {
		for v := range cells.elements() {
			if v.kind() != '{' {
				return jobs.Errorf(jobs.CodeInvalid, "cell %d of the notebook is not an object; open the notebook in Jupyter and save it again", len(r.nb.Cells)+1)
			}
			c := r.readCell(v)
			c.Number = len(r.nb.Cells) + 1
			r.unseen(c.Number, v.member("metadata"))
			r.unseen(c.Number, v.member("attachments"))
			r.nb.Cells = append(r.nb.Cells, c)
		}
	}
	return nil
}

func (r *reader) readCell(v value) Cell {
	var kind, source, count, outputs, attachments, metadata, level, language value
	for key, m := range v.members() {
		switch key {
		case "cell_type":
			kind = m
		case "source", "input": // the second as nbformat 3 has it, like the next ones
			source = m
		case "execution_count", "prompt_number":
			count = m
		case "level":
			level = m
		case "language":
			language = m
		case "outputs":
			outputs = m
		case "attachments":
			attachments = m
		case "metadata":
			metadata = m
		}
	}
	heading := ""
	nbgrader := metadata.member("nbgrader")
	c := Cell{Kind: Raw, GradeID: r.label(nbgrader.member("grade_id"))}
	c.Test = string(nbgrader.member("grade")) == "true" && string(nbgrader.member("solution")) != "true"
	if points, err := strconv.ParseFloat(string(nbgrader.member("points")), 64); err == nil && points > 0 && points < 1e6 {
		c.Points = points
	}
	switch kind.text() {
	case "code":
		c.Kind = Code
		if r.spoken == "" {
			r.spoken = r.label(language)
		}
		c.Language = r.ownLanguage(metadata)
		c.Count = max(count.whole(), 0)
		c.Outputs = r.readOutputs(outputs)
	case "markdown":
		c.Kind = Markdown
	case "heading":
		c.Kind, heading = Markdown, strings.Repeat("#", min(max(level.whole(), 1), 6))+" "
	}
	for _, bundle := range attachments.members() {
		r.dropBundle(bundle)
	}
	r.buf = clean(source.appendText(append(r.buf[:0], heading...), ""), false)
	if c.Kind == Markdown {
		r.withoutPictures()
	}
	c.Source = r.take(min(r.limits.Source, r.limits.Sources))
	r.limits.Sources -= len(c.Source)
	return c
}

// take cuts the text in the buffer to its limit.
func (r *reader) take(limit int) string {
	s, left := cut(r.buf, limit)
	if left > 0 {
		r.nb.Dropped.Cut++
		r.nb.Dropped.CutBytes += left
	}
	return s
}

// withoutPictures takes pictures out of the text in the buffer.
func (r *reader) withoutPictures() (pictures int) {
	rest, pictures, size := dropPictures(r.buf)
	r.buf = rest
	r.nb.Dropped.Images += pictures
	r.nb.Dropped.ImageBytes += size
	return pictures
}

// Limits of texts that nobody sees.
const (
	maxUnseen      = 50   // texts
	maxUnseenText  = 2000 // bytes of one
	maxUnseenDepth = 8
)

// unseen collects the texts of some words below a value of a cell: an instruction to a reader is one, the settings of a program are not.
func (r *reader) unseen(cell int, v value) { r.unseenAt(cell, v, 0) }

func (r *reader) unseenAt(cell int, v value, depth int) {
	if depth > maxUnseenDepth || len(r.nb.Unseen) >= maxUnseen {
		return
	}
	switch v.kind() {
	case '{':
		for key, m := range v.members() {
			r.noteUnseen(cell, []byte(key))
			r.unseenAt(cell, m, depth+1)
		}
	case '[':
		for m := range v.elements() {
			r.unseenAt(cell, m, depth+1)
		}
	case '"':
		r.noteUnseen(cell, appendString(r.buf[:0], v))
	}
}

// noteUnseen keeps a text that has three words.
func (r *reader) noteUnseen(cell int, text []byte) {
	if text = text[:boundary(text, min(len(text), maxUnseenText))]; len(bytes.Fields(text)) < 3 || len(r.nb.Unseen) >= maxUnseen {
		return
	}
	r.nb.Unseen = append(r.nb.Unseen, Unseen{cell, string(clean(bytes.Clone(text), false))})
}

// maxLabel is how many bytes of a name are kept: of an error, a language, a cell.
const maxLabel = 200

// label returns a short text of one line.
func (r *reader) label(v value) string {
	if v.kind() != '"' {
		return ""
	}
	r.buf = clean(appendString(r.buf[:0], v), false)
	return strings.Join(strings.Fields(string(r.buf[:boundary(r.buf, min(len(r.buf), maxLabel))])), " ")
}
