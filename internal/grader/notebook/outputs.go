package notebook

import (
	"cmp"
	"slices"
	"strings"
)

// readOutputs reads the outputs of a cell. What a cell prints piece by piece comes as many stream outputs, and is one text. Of
// more outputs than allowed the first ones stay, and the last, since an error is the last.
func (r *reader) readOutputs(outputs value) []Output {
	var list []Output
	var pieces []value // of the stream that is being printed
	printed := ""      // its name
	add := func(o Output) {
		if len(list) < r.limits.Each {
			list = append(list, o)
			return
		}
		last := &list[len(list)-1]
		r.nb.Dropped.Cut++
		r.nb.Dropped.CutBytes += len(last.Text) + len(last.HTML) + len(last.ErrorValue)
		*last = o
	}
	flush := func() {
		if len(pieces) == 0 {
			return
		}
		r.buf = r.buf[:0]
		for _, p := range pieces {
			r.buf = p.appendText(r.buf, "")
		}
		r.buf = clean(r.buf, true)
		if len(r.buf) > 0 {
			add(Output{Kind: Stream, Stream: printed, Text: r.take(r.limits.Output)})
		}
		pieces = pieces[:0]
	}
	for v := range outputs.elements() {
		var kind, name, text, data, ename, evalue, traceback value
		for key, m := range v.members() {
			switch key {
			case "output_type":
				kind = m
			case "name", "stream": // the second as nbformat 3 has it
				name = m
			case "text":
				text = m
			case "data":
				data = m
			case "ename":
				ename = m
			case "evalue":
				evalue = m
			case "traceback":
				traceback = m
			}
		}
		if kind.text() == string(Stream) {
			stream := "stdout"
			if name.text() == "stderr" {
				stream = "stderr"
			}
			if stream != printed {
				flush()
			}
			printed, pieces = stream, append(pieces, text)
			continue
		}
		flush()
		switch kind.text() {
		case "execute_result", "display_data", "update_display_data", "pyout":
			if data == nil { // nbformat 3 has the forms beside the kind
				data = v
			}
			if o, ok := r.readBundle(data); ok {
				add(o)
			}
		case string(Error), "pyerr":
			add(r.readError(ename, evalue, traceback))
		default:
			r.nb.Dropped.Other++
		}
	}
	flush()
	return list
}

func (r *reader) readError(ename, evalue, traceback value) Output {
	o := Output{Kind: Error, ErrorName: r.label(ename)}
	r.buf = clean(evalue.appendText(r.buf[:0], ""), true)
	o.ErrorValue = r.take(r.limits.Output)
	r.buf = clean(traceback.appendText(r.buf[:0], "\n"), true)
	o.Text = r.take(r.limits.Output)
	if o.Text == "" {
		r.buf = append(r.buf[:0], strings.TrimPrefix(o.ErrorName+": "+o.ErrorValue, ": ")...)
		o.Text = r.take(r.limits.Output)
	}
	return o
}

// oldTypes are the names that nbformat 3 has for types.
var oldTypes = map[string]string{
	"text": "text/plain", "html": "text/html", "latex": "text/latex", "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg+xml", "javascript": "application/javascript",
}

// plainTypes hold a value as text, the best first. R writes tables as markdown and LaTeX, too.
var plainTypes = []string{"text/plain", "text/markdown", "text/latex"}

// readBundle reads a value that is there in several forms. It reports false if none of them says anything to a grader.
func (r *reader) readBundle(data value) (Output, bool) {
	o := Output{Kind: Value}
	var html value
	plain := make([]value, len(plainTypes))
	script := false
	for mime, m := range data.members() {
		mime = cmp.Or(oldTypes[mime], mime)
		switch i := slices.Index(plainTypes, mime); {
		case i >= 0:
			plain[i] = m
		case mime == "text/html":
			html = m
		case isActive(mime):
			script = true
		}
	}
	o.Images = r.dropBundle(data)
	for i, form := range plain {
		r.buf = clean(form.appendText(r.buf[:0], ""), true)
		if i == 0 && standsIn(string(r.buf[:min(len(r.buf), maxLabel)])) {
			continue
		}
		if i > 0 {
			o.Images += r.withoutPictures()
		}
		if len(r.buf) > 0 {
			o.Text = r.take(r.limits.Output)
			break
		}
	}
	if script { // its HTML is the same widget or script
		r.nb.Dropped.Other++
	} else {
		r.buf = clean(html.appendText(r.buf[:0], ""), false)
		o.Images += r.withoutPictures()
		o.HTML = r.take(r.limits.Output)
	}
	says := o.Text != "" || o.HTML != "" || o.Images > 0
	if !says && !script {
		r.nb.Dropped.Other++
	}
	return o, says
}

// dropBundle counts the picture of a bundle: one, in however many forms.
func (r *reader) dropBundle(bundle value) (pictures int) {
	for mime, m := range bundle.members() {
		mime = cmp.Or(oldTypes[mime], mime)
		if strings.HasPrefix(mime, "image/") || mime == "application/pdf" {
			pictures = 1
			r.nb.Dropped.ImageBytes += len(m)
		}
	}
	r.nb.Dropped.Images += pictures
	return pictures
}

// active are the beginnings of forms that only a browser's program makes something of. Others that begin with application/vnd. stand beside
// tables: Colab and nteract add one to each data frame.
var active = []string{
	"application/javascript", "application/vnd.jupyter.widget", "application/vnd.plotly", "application/vnd.vega",
	"application/vnd.bokehjs", "application/vnd.holoviews",
}

func isActive(mime string) bool {
	return slices.ContainsFunc(active, func(begin string) bool { return strings.HasPrefix(mime, begin) })
}

// standsIn reports a text/plain that stands where a picture or a formatted text is, and says nothing itself: IPython's, matplotlib's and
// that of R.
func standsIn(text string) bool {
	text = strings.TrimSpace(text)
	object := strings.HasPrefix(text, "<IPython.core.display.") || strings.HasPrefix(text, "<Figure size ")
	return object && strings.HasSuffix(text, ">") || text == "plot without title"
}
