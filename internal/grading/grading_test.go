package grading

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime/multipart"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/grader"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/paperworker"
)

const example = "../../examples/class/"

// openDesk opens a desk on a queue without workers.
func openDesk(t *testing.T, dir string) *Desk {
	t.Helper()
	server := natstest.Start(t, natsembed.Options{})
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), User: "gateway", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d, err := OpenDesk(Options{Dir: dir, System: admin.New(c)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// file is a part of a form.
type file struct{ field, name, content string }

func form(t *testing.T, files ...file) *multipart.Reader {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, f := range files {
		var part io.Writer
		var err error
		if f.name == "" {
			part, err = w.CreateFormField(f.field)
		} else {
			part, err = w.CreateFormFile(f.field, f.name)
		}
		if err == nil {
			_, err = io.WriteString(part, f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return multipart.NewReader(&body, w.Boundary())
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(example, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// class are the files of a class of two.
func class(t *testing.T, name string, more ...file) *multipart.Reader {
	return form(t, append([]file{
		{"name", "", name}, {"submissions", "student-01.ipynb", content(t, "submissions/student-01.ipynb")}, {"submissions", "student-02.ipynb", content(t, "submissions/student-02.ipynb")},
		{"rubric", "rubric.json", content(t, "rubric.json")}, {"solution", "hw4.ipynb", content(t, "solution.ipynb")}, {"template", "start.ipynb", content(t, "template.ipynb")},
	}, more...)...)
}

func archive(t *testing.T, entries ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		h := &zip.FileHeader{Name: entries[i], Method: zip.Deflate}
		if entries[i+1] == "→ /etc/passwd" {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, entries[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// await waits until nothing is done to a class any more.
func await(t *testing.T, d *Desk, name string) *Class {
	t.Helper()
	changed := make(chan struct{}, 1)
	d.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	for {
		c, err := d.Class(name)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Checking && c.Run == nil {
			return c
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("it never ends")
		}
	}
}

// tree lists the files below a folder.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, name)
			list = append(list, rel)
			info, _ := e.Info()
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", rel, info.Mode())
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What is uploaded stays in its folder, is bounded, and what is not taken is told.
func TestUpload(t *testing.T) {
	above := t.TempDir()
	d := openDesk(t, filepath.Join(above, "classes"))
	good := content(t, "submissions/student-01.ipynb")
	large := strings.Repeat(" ", maxNotebook+1)
	name, err := d.Upload(t.Context(), "", "ada", form(t,
		file{"name", "", " Homework 4 "},
		file{"submissions", "../../student-01.ipynb", good}, file{"submissions", `C:\work\student-02.ipynb`, good}, file{"submissions", "student-01.ipynb", "another one"},
		file{"submissions", ".hidden.ipynb", good}, file{"submissions", "essay.docx", "text"}, file{"submissions", "large.ipynb", large},
		file{"submissions", "moodle.zip", archive(t, "student-03/hw.ipynb", good, "student-04/link.ipynb", "→ /etc/passwd", "student-05/hw.ipynb", large, "bell\a.ipynb", good, "__MACOSX/x.ipynb", good)},
		file{"submissions", "slip.zip", archive(t, "a.ipynb", good, "../../../out.ipynb", good)}, file{"submissions", "none.zip", "PK"},
		file{"rubric", "rubric.yaml", "a: 1"}, file{"solution", "solution.ipynb", large},
		file{"notebook", "", "hw4"},
	))
	if err != nil || name != "Homework-4" {
		t.Fatalf("class %q, %v", name, err)
	}
	want := []string{"Homework-4/class.json", "Homework-4/submissions/student-01.ipynb", "Homework-4/submissions/student-02.ipynb", "Homework-4/submissions/student-03/hw.ipynb"}
	for i := range want {
		want[i] = "classes/" + want[i]
	}
	if got := tree(t, above); !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
	c, err := d.Class(name)
	if err != nil {
		t.Fatal(err)
	}
	if c.Owner != "ada" || c.Notebook != "hw4" || c.Rubric || c.Solution || c.State() != Waiting {
		t.Errorf("class %+v", c)
	}
	told := map[string]string{}
	for _, l := range c.LeftOut {
		told[l.File] += l.Why
	}
	for name, why := range map[string]string{
		"student-01.ipynb": "another file of this name", ".hidden.ipynb": "characters", "bell\a.ipynb": "characters", "essay.docx": "neither", "large.ipynb": "larger than 32 MB",
		"moodle.zip": "no files: 1", "student-05/hw.ipynb": "at most 32 MB", "slip.zip": "leads out of the archive", "none.zip": "no ZIP file", "rubric.yaml": "no .json", "solution.ipynb": "larger than",
	} {
		if !strings.Contains(told[name], why) {
			t.Errorf("of %q it tells %q, want %q", name, told[name], why)
		}
		delete(told, name)
	}
	if len(told) > 0 {
		t.Errorf("it tells also %q", told)
	}
	for typed, why := range map[string]string{"homework 4": "", "Homework-4": "already", "": "no name", "../x": "letters", "new": "letters", ".x": "letters"} {
		if _, err := d.Upload(t.Context(), "", "ada", form(t, file{"name", "", typed})); why != "" && (jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), why)) {
			t.Errorf("a class %q: %v", typed, err)
		}
	}
}

// An upload that breaks off leaves no class.
func TestUploadBreaksOff(t *testing.T) {
	d := openDesk(t, t.TempDir())
	whole, boundary := new(bytes.Buffer), "b"
	w := multipart.NewWriter(whole)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	name, _ := w.CreateFormField("name")
	_, _ = io.WriteString(name, "hw")
	part, _ := w.CreateFormFile("submissions", "a.ipynb")
	_, _ = io.WriteString(part, strings.Repeat("x", 10_000))
	if _, err := d.Upload(t.Context(), "", "ada", multipart.NewReader(whole, boundary)); err == nil {
		t.Fatal("it was taken")
	}
	if list, err := d.Classes(); err != nil || len(list) > 0 {
		t.Errorf("classes %v, %v", list, err)
	}
}

// A mistake of the rubric is told with its line and the lines around it, also where JSON itself ends.
func TestCheckRubric(t *testing.T) {
	d := openDesk(t, t.TempDir())
	for name, change := range map[string]struct{ old, new, text string }{
		"a-value": {`"weight": 0.25`, `"weight": "heavy"`, `/rubric_elements/join/weight: "heavy"`}, "a-comma": {`"weight": 0.25,`, `"weight": 0.25`, "is not JSON"},
	} {
		rubric := strings.Replace(content(t, "rubric.json"), change.old, change.new, 1)
		if _, err := d.Upload(t.Context(), "", "ada", class(t, name, file{"rubric", "rubric.json", rubric})); err != nil {
			t.Fatal(err)
		}
		if err := d.Check(name); err != nil {
			t.Fatal(err)
		}
		c := await(t, d, name)
		if c.Check == nil || len(c.Check.Rubric) != 1 {
			t.Fatalf("check %+v", c.Check)
		}
		q := c.Check.Rubric[0]
		lines := strings.Split(rubric, "\n")
		if len(q.Lines) != 5 || !q.Lines[2].Meant || q.Lines[2].Number != q.Line || q.Lines[2].Text != lines[q.Line-1] || q.Line < 19 || q.Line > 20 || !strings.Contains(q.Text, change.text) {
			t.Errorf("%s: %+v", name, q)
		}
	}
}

// A class that the console has begun is gone on with by what submitter grade does, by the same user alone, and the other way round.
func TestGoOn(t *testing.T) {
	dir := t.TempDir()
	d := openDesk(t, dir)
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw")); err != nil {
		t.Fatal(err)
	}
	if err := d.Check("hw"); err != nil {
		t.Fatal(err)
	}
	c := await(t, d, "hw")
	if k := c.Check; k.Problem != "" || !k.Fair || len(k.Found) != 2 || k.Jobs != 4 || k.Found[0].File != "student-01.ipynb" || len(k.Missing) != 2 {
		t.Fatalf("check %+v", k)
	}
	if err := d.Start("hw", Ask{WithoutModels: true}); err != nil {
		t.Fatal(err)
	}
	if c = await(t, d, "hw"); c.State() != Graded || c.Owner != "ada" || c.Summary.Submissions != 2 || c.Names[c.Summary.Students[0].ID] == "" || c.Problem != "" {
		t.Fatalf("class %+v", c)
	}
	ids := []string{c.Summary.Students[0].ID, c.Summary.Students[1].ID}

	a, err := grader.Load(grader.Inputs{Rubric: d.path("hw", rubricFile), Solution: d.path("hw", solutionFile), Template: d.path("hw", templateFile)})
	if err != nil {
		t.Fatal(err)
	}
	o := grader.Options{Paths: []string{d.path("hw", submissions)}, Out: d.path("hw", grades), User: "bob", WithoutAsk: true, Resume: true}
	if g, err := grader.Open(t.Context(), a, o); err == nil {
		t.Error("another user goes on with it")
		_ = g.Close()
	}
	o.User = "ada"
	g, err := grader.Open(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start("hw", Ask{WithoutModels: true}); err != nil {
		t.Fatal(err)
	}
	if c := await(t, d, "hw"); !strings.Contains(c.Problem, "another run is grading") || strings.Contains(c.Problem, dir) {
		t.Errorf("while a terminal grades it: %q", c.Problem)
	}
	summary, err := g.Run(t.Context(), nil, nil)
	if err != nil || !slices.Equal(ids, []string{summary.Students[0].ID, summary.Students[1].ID}) {
		t.Errorf("the terminal has %+v, %v; want students %q", summary, err, ids)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}

	if err := os.RemoveAll(d.path("hw", keptFile)); err != nil { // as if it were begun there
		t.Fatal(err)
	}
	if err := d.Start("hw", Ask{WithoutModels: true}); err != nil {
		t.Fatal(err)
	}
	if c := await(t, d, "hw"); c.Problem != "" || c.Owner != "ada" || !slices.Equal(ids, []string{c.Summary.Students[0].ID, c.Summary.Students[1].ID}) {
		t.Errorf("class %+v", c)
	}
}

// Decisions are those of submitter review, and the archive has what it wrote.
func TestDecide(t *testing.T) {
	d := openDesk(t, t.TempDir())
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw")); err != nil {
		t.Fatal(err)
	}
	if err := d.Start("hw", Ask{WithoutModels: true}); err != nil {
		t.Fatal(err)
	}
	id := await(t, d, "hw").Summary.Students[0].ID
	decide := func(pairs ...string) error {
		form := url.Values{"student": {id}}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return d.Decide("hw", "ada", form)
	}
	for _, wrong := range [][]string{
		{"do", "final"}, {"do", "points", "points", "many", "why", "x"}, {"do", "points", "points", "7"}, {"do", "credit", "credit", "1", "why", "x", "thing", "nothing"},
		{"do", "comment", "text", " "}, {"do", "undo", "of", "9"}, {"do", "class", "verdict", "maybe"}, {"do", "everything"},
	} {
		if err := decide(wrong...); err == nil {
			t.Errorf("%q was decided", wrong)
		}
	}
	s, err := d.Submission("hw", "ada", id)
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range [][]string{
		{"do", "points", "points", "61,5", "why", "as agreed"}, {"do", "credit", "credit", "0.5", "why", "half", "thing", s.Things()[0].String()}, {"do", "comment", "text", "See me."}, {"do", "final"}, {"do", "undo", "of", "2"},
	} {
		if err := decide(right...); err != nil {
			t.Errorf("%q: %v", right, err)
		}
	}
	if s, err = d.Submission("hw", "ada", id); err != nil || s.Status != "final" || s.Score.Points != 61.5 || len(s.History) != 4 || !s.History[1].Taken || s.Next == id {
		t.Errorf("%+v, %v", s, err)
	}
	if released, err := d.Release("hw", "ada", false); err != nil || released.Released != 1 {
		t.Errorf("released %+v, %v", released, err)
	}
	var b bytes.Buffer
	if err := d.Archive("hw", &b); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	for _, want := range []string{"hw/index.html", "hw/grades.csv", "hw/students/" + id + ".html", "hw/instructor/overrides.jsonl"} {
		if !slices.Contains(names, want) {
			t.Errorf("the archive has %q, and no %s", names, want)
		}
	}
	if err := d.Delete(t.Context(), "hw"); err == nil || !strings.Contains(err.Error(), "no worker is alive") {
		t.Errorf("what the queue holds cannot be removed, and deleting says %v", err)
	}
	here := queue.Config{URL: d.System.JetStream().Conn().ConnectedUrl(), Log: slog.New(slog.DiscardHandler)}
	paperworker.Start(t, here, here, "other:1b", "mac-1", 1, func(context.Context, *protocol.Task) (protocol.Outcome, error) {
		return protocol.Outcome{}, errors.New("nothing is asked of it")
	})
	unlock, err := grader.Lock(d.path("hw", grades)) // as a terminal does that grades there
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "hw"); err == nil || strings.Contains(err.Error(), d.Dir) {
		t.Errorf("another program is at it, and deleting says %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "hw"); err != nil {
		t.Error(err)
	}
	if _, err := d.Class("hw"); err == nil {
		t.Error("it was not deleted")
	}
}

// One thing at a time is done to a class, and a desk that closes ends it.
func TestOneAtATime(t *testing.T) {
	d := openDesk(t, t.TempDir())
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw")); err != nil {
		t.Fatal(err)
	}
	if err := d.Start("hw", Ask{}); err != nil { // nobody answers
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"start": func() error { return d.Start("hw", Ask{}) }, "check": func() error { return d.Check("hw") }, "delete": func() error { return d.Delete(t.Context(), "hw") },
		"review": func() error { _, err := d.Queue("hw", "ada"); return err },
		"upload": func() error {
			_, err := d.Upload(context.Background(), "hw", "ada", form(t, file{"notebook", "", "x"}))
			return err
		},
	} {
		if err := do(); jobs.CodeOf(err) != jobs.CodeInvalid || !strings.Contains(err.Error(), "graded") {
			t.Errorf("%s: %v", what, err)
		}
	}
	d.Pause("hw")
	if c := await(t, d, "hw"); c.Problem != "" || c.State() == Graded {
		t.Errorf("class %+v, state %s", c, c.State())
	}
	if err := d.Start("hw", Ask{}); err != nil {
		t.Fatal(err)
	}
}

// What is kept of a class is what a person can read.
func TestKept(t *testing.T) {
	d := openDesk(t, t.TempDir())
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw", file{"notebook", "", "hw4"})); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(d.path("hw", keptFile))
	if err != nil {
		t.Fatal(err)
	}
	var k Kept
	if err := json.Unmarshal(data, &k); err != nil || k.User != "ada" || k.Notebook != "hw4" {
		t.Errorf("%s: %v", data, err)
	}
	c, err := d.Class("hw")
	if want := "submitter grade submissions --rubric rubric.json --solution solution.ipynb --template template.ipynb --notebook hw4 --out grades --user ada"; err != nil || c.Command() != want {
		t.Errorf("command %q, %v; want %q", c.Command(), err, want)
	}
}

// While somebody adds files to a class nobody deletes it, and the desk goes on whoever comes first.
func TestDeleteBesideAnUpload(t *testing.T) {
	d := openDesk(t, t.TempDir())
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw")); err != nil {
		t.Fatal(err)
	}
	body, sender := io.Pipe()
	parts := multipart.NewWriter(sender)
	uploaded := make(chan error, 1)
	go func() {
		_, err := d.Upload(t.Context(), "hw", "ada", multipart.NewReader(body, parts.Boundary()))
		uploaded <- err
	}()
	if err := parts.WriteField("notebook", "hw4"); err != nil { // it has begun
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "hw"); err == nil {
		t.Error("a class was deleted to which files are added")
	}
	if err := errors.Join(parts.Close(), sender.Close(), <-uploaded); err != nil {
		t.Error(err)
	}
	if err := d.Delete(t.Context(), "hw"); err != nil {
		t.Error(err)
	}
	if _, err := d.Upload(t.Context(), "hw", "ada", class(t, "hw")); err == nil {
		t.Error("files were added to a class that is gone")
	}
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw")); err != nil {
		t.Errorf("the class cannot be made again: %v", err)
	}
}

// What a form says stays text: for a shell, and in a file that is read at each look at the list.
func TestHostileTexts(t *testing.T) {
	d := openDesk(t, t.TempDir())
	const hostile = "x'; touch y; '"
	many := []file{{"notebook", "", hostile}}
	for i := range maxLeft + 50 {
		many = append(many, file{"submissions", fmt.Sprint(strings.Repeat("n", 5000), i, ".docx"), "x"})
	}
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw", many...)); err != nil {
		t.Fatal(err)
	}
	c, err := d.Class("hw")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "submitter() { printf '%s\\n' \"$@\"; }; "+c.Command()).Output()
	if err != nil || !slices.Contains(strings.Split(string(out), "\n"), hostile) {
		t.Errorf("a shell makes of %s\n%s(%v)", c.Command(), out, err)
	}
	if n := len(c.LeftOut); n != maxLeft+1 || len(c.LeftOut[0].File) > maxName+10 {
		t.Errorf("%d files are told of that were not taken, the first by a name of %d bytes", n, len(c.LeftOut[0].File))
	}
	if _, err := d.Upload(t.Context(), "hw", "ada", form(t, file{"assignment", "", "two\nlines"})); jobs.CodeOf(err) != jobs.CodeInvalid {
		t.Errorf("an assignment of two lines: %v", err)
	}
}

// Of a ZIP file only notebooks are unpacked, whatever else it holds; and what was handed in before goes if that is asked for.
func TestZIPOfOtherThings(t *testing.T) {
	d := openDesk(t, t.TempDir())
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for i := range 20 {
		w, err := z.Create(fmt.Sprint("data-", i, ".csv"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw", file{"submissions", "all.zip", archive.String()})); err != nil {
		t.Fatal(err)
	}
	before, err := d.Class("hw")
	if err != nil || before.Files != 2 || len(before.LeftOut) != 1 || !strings.Contains(before.LeftOut[0].Why, "20 files") {
		t.Errorf("%d files are there, %+v, %v", before.Files, before.LeftOut, err)
	}
	if _, err := d.Upload(t.Context(), "hw", "ada", form(t, file{"replace", "", "on"})); err != nil {
		t.Fatal(err)
	}
	if after, err := d.Class("hw"); err != nil || after.Files != 0 {
		t.Errorf("%d files are left, %v", after.Files, err)
	}
}

// A class is graded by the models that the token may ask, or not at all.
func TestModelsOfTheToken(t *testing.T) {
	d := openDesk(t, t.TempDir())
	if _, err := d.Upload(t.Context(), "", "ada", class(t, "hw")); err != nil {
		t.Fatal(err)
	}
	if err := d.Start("hw", Ask{Models: []string{"small:1b"}}); err != nil {
		t.Fatal(err)
	}
	if c := await(t, d, "hw"); c.Started || !strings.Contains(c.Problem, "your token may not ask") {
		t.Errorf("it says %q, begun: %t", c.Problem, c.Started)
	}
}
