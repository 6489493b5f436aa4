package grading

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"tandem/internal/atomicfile"
	"tandem/internal/grader/intake"
	"tandem/internal/units"
	"tandem/jobs"
)

// What one upload may hold.
const (
	MaxUpload   = 1 << 30    // bytes of all
	maxNotebook = 32_000_000 // bytes of one, as the grader reads at most
	maxFiles    = 10_000
	maxField    = 1000    // bytes of a text
	maxUnpacked = 4 << 30 // bytes of all that ZIP files hold
	maxLeft     = 300     // files that were not taken, and are told of
	maxName     = 200     // bytes of a name

	uploading = ".upload-*.zip" // a ZIP file while it comes
)

// upload takes the parts of a form into the folder of a class.
type upload struct {
	desk   *Desk
	user   string
	class  string   // its name
	root   *os.Root // its folder, nil until the name is known
	made   bool     // by this upload
	kept   Kept
	taken  map[string]bool // submissions of this upload
	bytes  int64           // that may still be read of ZIP files
	others int             // files that are no notebooks
}

// Upload takes a form with files for a class of a user: submissions (notebooks, or ZIP files of a learning system, of which the notebooks are unpacked),
// rubric, solution and template, and the texts assignment, notebook, and replace: that what was handed in before is removed. With an empty class, the form begins with the name of one that is made. What is not taken is noted there. It returns the class's name.
func (d *Desk) Upload(ctx context.Context, class, user string, form *multipart.Reader) (name string, err error) {
	u := &upload{desk: d, user: user, taken: map[string]bool{}, bytes: maxUnpacked}
	defer func() {
		if u.root == nil {
			return
		}
		if err = errors.Join(err, u.root.Close()); u.made && err != nil {
			_ = d.root.RemoveAll(u.class) // the browser still has the files
		}
		d.free(u.class, func(w *work) { w.check, w.problem = nil, "" })
	}()
	if class != "" {
		if err := u.enter(class); err != nil {
			return "", err
		}
		u.kept.LeftOut = nil
	}
	for err == nil {
		var part *multipart.Part
		if part, err = form.NextPart(); err == nil {
			err = u.part(ctx, part)
		} else if err != io.EOF {
			err = jobs.Errorf(jobs.CodeInvalid, "the form cannot be read: %w", err)
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return "", err
	case u.root == nil:
		return "", jobs.Errorf(jobs.CodeInvalid, "the form has no name of a class")
	}
	if u.others > 0 {
		u.leave("ZIP files", "they hold %d files that are no notebooks", u.others)
	}
	return u.class, keep(u.root, u.kept)
}

// enter opens the folder of a class that is there.
func (u *upload) enter(class string) (err error) {
	if _, err := u.desk.Class(class); err != nil {
		return err
	}
	if err := u.open(class); err != nil {
		return err
	}
	u.kept, err = kept(u.root)
	return err
}

// open takes a class, to which nothing else is done meanwhile.
func (u *upload) open(class string) error {
	if err := u.desk.claim(class, func(error) {}, nil); err != nil {
		return err
	}
	root, err := u.desk.root.OpenRoot(class)
	if err != nil {
		u.desk.free(class, func(*work) {})
		return err
	}
	u.class, u.root = class, root
	return nil
}

// make makes a class.
func (u *upload) make(typed string) error {
	name, err := NameOf(typed)
	if err != nil {
		return err
	}
	if err := u.desk.root.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		return jobs.Errorf(jobs.CodeInvalid, "there is a class %q already; open it, or choose another name", name)
	} else if err != nil {
		return fmt.Errorf("make class: %w", err)
	}
	u.made, u.kept.User = true, u.user
	if err := u.open(name); err != nil {
		return err
	}
	return keep(u.root, u.kept) // whose it is, should this end here
}

func (u *upload) part(ctx context.Context, part *multipart.Part) error {
	field := part.FormName()
	if u.root == nil && field != "name" {
		return jobs.Errorf(jobs.CodeInvalid, "the form must begin with the name of the class")
	}
	switch file := fileName(part); {
	case file == "" && slices.Contains([]string{"submissions", "rubric", "solution", "template"}, field): // nothing was chosen
		return nil
	case field == "submissions":
		return u.submission(ctx, file, part)
	case field == "rubric":
		return u.own(rubricFile, ".json", file, part)
	case field == "solution":
		return u.own(solutionFile, ".ipynb", file, part)
	case field == "template":
		return u.own(templateFile, ".ipynb", file, part)
	}
	text, err := io.ReadAll(io.LimitReader(part, maxField))
	if err != nil {
		return err
	}
	value := strings.TrimSpace(string(text))
	if len(value) > maxName || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return jobs.Errorf(jobs.CodeInvalid, "%s is %.40q; want at most %d bytes of text in one line", field, value, maxName)
	}
	switch field {
	case "replace": // all that was handed in before
		return u.root.RemoveAll(submissions)
	case "name":
		if u.root == nil {
			return u.make(value)
		}
	case "assignment":
		u.kept.Assignment = value
	case "notebook":
		u.kept.Notebook = value
	}
	return nil
}

// fileName is the name of an uploaded file without folders.
func fileName(part *multipart.Part) string {
	name := part.FileName() // which takes off folders as this system writes them
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// own takes one of the instructor's files.
func (u *upload) own(as, ext, file string, part io.Reader) error {
	if !strings.EqualFold(path.Ext(file), ext) {
		u.leave(file, "it is no %s file", ext)
		return nil
	}
	data, err := read(part)
	if err != nil || data == nil {
		u.leave(file, "it is larger than %s; clear the outputs that are pictures, and save it again", units.Bytes(maxNotebook))
		return err
	}
	return atomicfile.WriteIn(u.root, as, data, 0o600)
}

// read reads a file of an upload, nil if it is too large.
func read(part io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(part, maxNotebook+1))
	if err != nil || len(data) > maxNotebook {
		return nil, err
	}
	return append([]byte{}, data...), nil
}

func (u *upload) submission(ctx context.Context, file string, part io.Reader) error {
	switch strings.ToLower(path.Ext(file)) {
	case ".ipynb":
		data, err := read(part)
		if err != nil {
			return err
		}
		return u.take(file, func() ([]byte, error) {
			if data == nil {
				return nil, jobs.Errorf(jobs.CodeInvalid, "it is larger than %s: clear the outputs that are pictures, and save it again", units.Bytes(maxNotebook))
			}
			return data, nil
		})
	case ".zip":
		return u.archive(ctx, file, part)
	}
	u.leave(file, "it is neither a notebook (.ipynb) nor a ZIP file")
	return nil
}

// archive takes what a ZIP file holds, which needs it whole.
func (u *upload) archive(ctx context.Context, file string, part io.Reader) (err error) {
	whole, err := os.CreateTemp(u.desk.path(u.class), uploading)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, whole.Close(), os.Remove(whole.Name())) }()
	if _, err := io.Copy(whole, part); err != nil {
		return err
	}
	left, err := intake.Unpack(ctx, whole.Name(), file, u.entry)
	if left > 0 {
		u.leave(file, "links and other things in it that are no files: %d", left)
	}
	if jobs.CodeOf(err) == jobs.CodeInvalid {
		u.leave(file, "%v", err)
		return nil
	}
	return err
}

// entry takes one file of a ZIP file: what the grader does not read is not unpacked.
func (u *upload) entry(name string, read func() ([]byte, error)) error {
	if !strings.EqualFold(path.Ext(name), ".ipynb") {
		u.others++
		return nil
	}
	if u.bytes <= 0 {
		return jobs.Errorf(jobs.CodeInvalid, "the ZIP files of one upload hold more than %s; send fewer at a time", units.Bytes(int64(maxUnpacked)))
	}
	return u.take(name, func() ([]byte, error) {
		data, err := read()
		if u.bytes -= int64(len(data)); err != nil {
			u.bytes -= maxNotebook // so much was read of it
		}
		return data, err
	})
}

// take writes one submission, unless there is something wrong with it.
func (u *upload) take(name string, read func() ([]byte, error)) error {
	switch {
	case len(u.taken) == maxFiles:
		return jobs.Errorf(jobs.CodeInvalid, "there are more than %d files", maxFiles)
	case !safe(name):
		u.leave(name, "its name is longer than 200 bytes, or has characters that no file's name should have")
	case u.taken[name]:
		u.leave(name, "there is another file of this name; put the students' folders into a ZIP file")
	default:
		data, err := read()
		if err != nil {
			u.leave(name, "%v", err)
			return nil
		}
		at := path.Join(submissions, name)
		if err = u.root.MkdirAll(path.Dir(at), 0o700); err == nil {
			err = atomicfile.WriteIn(u.root, at, data, 0o600)
		}
		if pe, is := errors.AsType[*fs.PathError](err); is && !errors.Is(err, syscall.ENOSPC) {
			u.leave(name, "it cannot be written: %v", pe.Err)
			return nil
		}
		u.taken[name] = err == nil
		return err
	}
	return nil
}

// leave notes what is not taken.
func (u *upload) leave(file, format string, args ...any) {
	switch n := len(u.kept.LeftOut); {
	case n < maxLeft:
		if len(file) > maxName {
			file = strings.ToValidUTF8(file[:maxName], "") + " …"
		}
		u.kept.LeftOut = append(u.kept.LeftOut, LeftOut{file, fmt.Sprintf(format, args...)})
	case n == maxLeft:
		u.kept.LeftOut = append(u.kept.LeftOut, LeftOut{"…", "and more"})
	}
}

// safe reports whether a path names a file below a folder that everybody can open again.
func safe(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || len(part) > 200 || !utf8.ValidString(part) || strings.ContainsFunc(part, unicode.IsControl) {
			return false
		}
	}
	return true
}
