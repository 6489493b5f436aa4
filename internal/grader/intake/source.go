package intake

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tandem/jobs"
)

// A limits bounds what is read.
type limits struct {
	notebook int64 // bytes of one notebook
	folder   int   // files of a folder
	entries  int   // of a ZIP file
	total    int64 // bytes of all notebooks of a ZIP file, unpacked
	ratio    int64 // of an unpacked entry to its packed size, beyond which one that is too large is called a bomb
}

func defaultLimits() limits {
	return limits{notebook: 32e6, folder: 100_000, entries: 10_000, total: 4e9, ratio: 200}
}

// A source is what the instructor named: files, a folder or a ZIP file.
type source struct {
	typed    string // as the instructor named it
	above    string // names of the folders around it, at most as many as an nbgrader tree has, with slashes
	files    []*file
	archived fs.FileInfo // of the ZIP file, nil if it is none

	left    int64 // bytes that may yet be unpacked, of a ZIP file
	links   int   // symbolic links, not followed
	special int   // pipes, devices
	unread  int   // folders that may not be read
}

// A file is one of a source.
type file struct {
	source *source
	path   string      // within the source, with slashes
	where  string      // for the roster: absolute, an entry as archive.zip!entry
	size   int64       // as the folder or the archive says
	packed int64       // of an entry
	info   fs.FileInfo // of a file on the disk, nil for an entry
	open   func() (io.ReadCloser, error)
}

// full is the path with the folders above the source.
func (f *file) full() string { return path.Join(f.source.above, f.path) }

func (f *file) isNotebook() bool { return hasSuffix(f.path, ".ipynb") }

func hasSuffix(name, suffix string) bool {
	return len(name) >= len(suffix) && strings.EqualFold(name[len(name)-len(suffix):], suffix)
}

// hidden reports what the operating system or Jupyter put there, and no student: .ipynb_checkpoints, __MACOSX, .DS_Store.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// openSource lists what lies under a path that the instructor named. The closer is nil if nothing stays open.
func openSource(ctx context.Context, typed string, limits limits) (*source, io.Closer, error) {
	info, err := os.Stat(typed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s is not there; name notebooks, folders or ZIP files", typed)
	}
	if err != nil {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s cannot be read: %w", typed, withoutPath(err))
	}
	abs, err := filepath.Abs(typed)
	if err != nil {
		return nil, nil, fmt.Errorf("find %s: %w", typed, err)
	}
	abs = filepath.ToSlash(abs)
	s := &source{typed: typed}
	switch {
	case info.IsDir():
		s.above = above(abs)
		return s.folder(ctx, abs, limits)
	case !info.Mode().IsRegular():
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s is neither a file nor a folder; name notebooks, folders or ZIP files", typed)
	case hasSuffix(typed, ".ipynb"):
		s.above = above(path.Dir(abs))
		s.files = []*file{{
			source: s, path: path.Base(abs), where: abs, size: info.Size(), info: info,
			open: func() (io.ReadCloser, error) { return os.Open(abs) },
		}}
		return s, nil, nil
	case hasSuffix(typed, ".zip"):
		return s.archive(abs, limits)
	}
	return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s is neither a notebook (.ipynb) nor a folder nor a ZIP file (.zip)", typed)
}

// above keeps the last three folders of an absolute path: step, student and assignment.
func above(abs string) string {
	parts := strings.Split(strings.Trim(abs, "/"), "/")
	return strings.Join(parts[max(0, len(parts)-3):], "/")
}

// folder lists a folder. Links in it are not followed.
func (s *source) folder(ctx context.Context, abs string, limits limits) (*source, io.Closer, error) {
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s cannot be read: %w", s.typed, withoutPath(err))
	}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			s.unread++
			return nil
		case p == ".":
			return nil
		case hidden(d.Name()) && d.IsDir():
			return fs.SkipDir
		case hidden(d.Name()) || d.IsDir():
			return nil
		case len(s.files) == limits.folder:
			return jobs.Errorf(jobs.CodeInvalid, "%s holds more than %d files; name the folder with the submissions", s.typed, limits.folder)
		}
		if info, err := d.Info(); err == nil && s.take(info.Mode()) {
			s.files = append(s.files, &file{
				source: s, path: p, where: path.Join(abs, p), size: info.Size(), info: info,
				open: func() (io.ReadCloser, error) { return root.Open(p) },
			})
		}
		return nil
	})
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	return s, root, nil
}

// take reports a regular file, and counts what is none.
func (s *source) take(mode fs.FileMode) bool {
	switch {
	case mode&fs.ModeSymlink != 0:
		s.links++
	case !mode.IsRegular():
		s.special++
	}
	return mode.IsRegular()
}

var drive = regexp.MustCompile(`^[A-Za-z]:/`)

// archive lists a ZIP file. Nothing is ever unpacked onto the disk; an entry whose name would lead out of the archive shows that
// somebody made it for harm, and the whole is refused.
func (s *source) archive(abs string, limits limits) (*source, io.Closer, error) {
	f, err := os.Open(abs)
	if err != nil {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s cannot be read: %w", s.typed, withoutPath(err))
	}
	if err := s.list(f, abs, limits); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return s, f, nil
}

func (s *source) list(f *os.File, abs string, limits limits) error {
	info, err := f.Stat()
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "%s cannot be read: %w", s.typed, withoutPath(err))
	}
	r, err := zip.NewReader(f, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are looked at below
		return jobs.Errorf(jobs.CodeInvalid, "%s is no ZIP file, or is damaged; get it from the learning system again", s.typed)
	}
	if len(r.File) > limits.entries {
		return jobs.Errorf(jobs.CodeInvalid, "%s has %d entries; %d are allowed: split it", s.typed, len(r.File), limits.entries)
	}
	s.archived, s.left = info, limits.total
	for i, e := range r.File {
		name := strings.ReplaceAll(utf8Name(e.Name), `\`, "/") // Windows
		parts := strings.Split(name, "/")
		if strings.HasPrefix(name, "/") || drive.MatchString(name) || strings.ContainsRune(name, 0) || slices.ContainsFunc(parts, func(p string) bool { return p == ".." }) {
			return jobs.Errorf(jobs.CodeInvalid, "%s is not safe to read: the name of entry %d leads out of the archive; get it from the learning system again", s.typed, i+1)
		}
		name = path.Clean(name)
		switch {
		case slices.ContainsFunc(parts, func(p string) bool { return p != "." && hidden(p) }), strings.HasSuffix(e.Name, "/"), e.Mode().IsDir(), !s.take(e.Mode()):
			continue
		case e.Flags&0x1 != 0:
			return jobs.Errorf(jobs.CodeInvalid, "%s is encrypted; unpack it with its password and name the folder", s.typed)
		}
		s.files = append(s.files, &file{
			source: s, path: name, where: abs + "!" + name,
			size: int64(min(e.UncompressedSize64, 1<<62)), packed: int64(min(e.CompressedSize64, 1<<62)), open: e.Open,
		})
	}
	return nil
}

// utf8Name reads a name that is not UTF-8 as ISO 8859-1: perhaps with wrong letters, but different names stay different.
func utf8Name(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	runes := make([]rune, len(name))
	for i := range len(name) {
		runes[i] = rune(name[i])
	}
	return string(runes)
}

// withoutPath is the cause of an error without the path that the file system names, since that may be a student's.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
