package intake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path"
	"path/filepath"

	"tandem/internal/units"
	"tandem/jobs"
)

// measure makes a submission of a file: it reads it once, for the hash, and no further than a notebook may be long. The error is that of an archive of which that is too much in all;
// what is wrong with this file alone is the submission's Problem.
func (f *file) measure(ctx context.Context, limits limits) (*Submission, error) {
	s := &Submission{Size: f.size}
	s.read = func() ([]byte, error) { return f.read(limits) }
	if f.source.archived == nil && f.size > limits.notebook {
		s.Problem = tooLarge(f.size, limits)
		return s, nil
	}
	hash := sha256.New()
	n, err := f.copy(hash, limits)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if f.source.archived != nil {
		if f.source.left -= n; f.source.left < 0 {
			return nil, jobs.Errorf(jobs.CodeInvalid, "%s unpacks to more than %s of notebooks; split it", f.source.typed, units.Bytes(limits.total))
		}
	}
	switch {
	case n > limits.notebook:
		s.Size = max(s.Size, n)
		s.Problem = tooLarge(s.Size, limits)
		if f.source.archived != nil && s.Size/limits.ratio > f.packed {
			s.Problem = jobs.Errorf(jobs.CodeInvalid, "the notebook is a ZIP bomb: it unpacks to %s, more than %d times its size in the ZIP file, and at most %s are read; ask for the notebook itself",
				units.Bytes(s.Size), limits.ratio, units.Bytes(limits.notebook))
		}
	case err != nil:
		s.Problem = unreadable(err)
	default:
		s.Size = n
		s.SHA256 = hex.EncodeToString(hash.Sum(nil))
	}
	return s, nil
}

// is reports whether the file is the very one at a path.
func (f *file) is(at string) bool {
	info, err := os.Stat(at)
	return err == nil && f.info != nil && os.SameFile(f.info, info)
}

// isCopy reports whether the file has the name and the content of the one at a path.
func (f *file) isCopy(at string) bool {
	if path.Base(f.path) != filepath.Base(at) {
		return false
	}
	there, err := os.ReadFile(at)
	if err != nil {
		return false
	}
	limits := defaultLimits()
	limits.notebook = int64(len(there))
	here, err := f.read(limits)
	return err == nil && bytes.Equal(here, there)
}

// copy reads the file, but no more than one byte above the limit, whatever size the archive promises.
func (f *file) copy(w io.Writer, limits limits) (int64, error) {
	r, err := f.open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.Copy(w, io.LimitReader(r, limits.notebook+1))
}

func (f *file) read(limits limits) ([]byte, error) {
	var data bytes.Buffer
	data.Grow(int(min(max(f.size, 0), limits.notebook)) + bytes.MinRead)
	n, err := f.copy(&data, limits)
	switch {
	case n > limits.notebook:
		return nil, tooLarge(n, limits)
	case err != nil:
		return nil, unreadable(err)
	}
	return data.Bytes(), nil
}

func tooLarge(size int64, limits limits) error {
	return jobs.Errorf(jobs.CodeInvalid, "the notebook has %s bytes, and at most %s are read: clear the outputs that hold pictures or data, and save it again", units.Count(size), units.Bytes(limits.notebook))
}

func unreadable(err error) error {
	return jobs.Errorf(jobs.CodeInvalid, "the notebook cannot be read; fix what is wrong with the file, or get it again: %w", withoutPath(err))
}
