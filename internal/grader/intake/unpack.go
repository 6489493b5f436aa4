package intake

import (
	"context"
	"path/filepath"

	"tandem/internal/units"
	"tandem/jobs"
)

// Unpack gives take the files of a learning system's ZIP file, each with its name, which leads nowhere out of a folder. What is no file is left out; read fails for a file that is larger than a notebook may be, whatever the archive says of it. shown is what the user calls the archive; left is how many links and
// other things that are no files were left out.
func Unpack(ctx context.Context, archive, shown string, take func(name string, read func() ([]byte, error)) error) (left int, err error) {
	abs, err := filepath.Abs(archive)
	if err != nil {
		return 0, err
	}
	limits := defaultLimits()
	s, file, err := (&source{typed: shown}).archive(abs, limits)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for _, f := range s.files {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		err := take(f.path, func() ([]byte, error) {
			data, err := f.read(limits)
			s.left -= int64(len(data))
			return data, err
		})
		if err != nil {
			return 0, err
		}
		if s.left < 0 {
			return 0, jobs.Errorf(jobs.CodeInvalid, "%s unpacks to more than %s; split it", shown, units.Bytes(limits.total))
		}
	}
	return s.links + s.special, nil
}
