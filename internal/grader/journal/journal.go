// Package journal keeps a file of JSON lines that is only ever appended to, each on the disk before what it promises is done.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"tandem/jobs"
)

// Journal is the file. Append may be called from several goroutines.
type Journal struct {
	root *os.Root
	name string // within root
	path string // as the user knows it

	mu   sync.Mutex
	file *os.File // nil before the first line
	err  error    // of the first append that failed: what follows would stand behind a torn line
}

// Open gives every line of a file, if there is one, to take. A last line without an end, of a process that died while it wrote, is cut off: what it promised was not done yet.
// A line that take refuses is an error of code [jobs.CodeInvalid] that names file and line. shown is the folder of root as the user knows it, remedy what to do about a damaged file.
func Open(root *os.Root, name, shown, remedy string, take func(line []byte) error) (*Journal, error) {
	j := &Journal{root: root, name: name, path: path.Join(shown, name)}
	f, err := root.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", j.path, err)
	}
	j.file = f
	data, err := io.ReadAll(f)
	if err != nil {
		err = fmt.Errorf("read %s: %w", j.path, err)
	} else if err = j.read(data, remedy, take); err == nil {
		err = f.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func (j *Journal) read(data []byte, remedy string, take func([]byte) error) error {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		if err := take(text); err != nil {
			return jobs.Errorf(jobs.CodeInvalid, "%s, line %d is damaged: %w; %s", j.path, number, err, remedy)
		}
	}
	return nil
}

// Decode reads a line strictly: fields that it cannot have are an error.
func Decode(line []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return errors.Join(jobs.CheckJSON(line), d.Decode(into))
}

// Append adds a record as a line, which it returns; then the line is on the disk. The file is created for the owner alone.
func (j *Journal) Append(record any) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode a line of %s: %w", j.path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return nil, j.err
	}
	if err := j.write(append(text, '\n')); err != nil {
		j.err = fmt.Errorf("write %s: %w", j.path, err)
		return nil, j.err
	}
	return text, nil
}

func (j *Journal) write(line []byte) error {
	if j.file != nil {
		_, err := j.file.Write(line)
		return errors.Join(err, j.file.Sync())
	}
	dir := path.Dir(j.name)
	if err := j.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := j.root.OpenFile(j.name, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j.file = f
	if _, err := f.Write(line); err != nil {
		return err
	}
	return errors.Join(f.Sync(), syncDir(j.root, dir))
}

// syncDir makes sure that a new name in a folder is on the disk.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
