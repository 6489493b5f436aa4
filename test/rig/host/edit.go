package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Edit is a change to a source file, for a program that is broken on purpose: the build sees the edited file, the tree
// does not change. Edits of one file are made one after the other.
type Edit struct {
	File     string // relative to the module's root, such as internal/queue/settle.go; or std:time/time.go for the standard library
	Old, New string // Old must occur exactly once
}

// overlay writes the edited files into dir, with the file that tells go about them, whose path it returns: empty if
// nothing is edited.
func (s sources) overlay(dir string, o BuildOptions) (string, error) {
	files := make(map[string]string) // what the build is to see, by path
	if o.Clock {
		files[s.path(clockFile)] = clockSource
		if err := s.edit(files, clockEdit()); err != nil {
			return "", err
		}
	}
	for _, e := range o.Edits {
		if err := s.edit(files, e); err != nil {
			return "", err
		}
	}
	if len(files) == 0 {
		return "", nil
	}

	replace := make(map[string]string)
	for path, text := range files {
		folder := filepath.Join(dir, strconv.Itoa(len(replace)))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return "", fmt.Errorf("write edited file: %w", err)
		}
		replace[path] = filepath.Join(folder, filepath.Base(path)) // errors of the compiler name it
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write edited file: %w", err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write list of edited files: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", fmt.Errorf("write list of edited files: %w", err)
	}
	return overlay, nil
}

func (s sources) edit(files map[string]string, e Edit) error {
	path := s.path(e.File)
	text, known := files[path]
	if !known {
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("edit %s: %w", e.File, err)
		}
		text = string(b)
	}
	if n := strings.Count(text, e.Old); n != 1 {
		return fmt.Errorf("edit %s: Old occurs %d times, want once; it is %q", e.File, n, e.Old)
	}
	files[path] = strings.Replace(text, e.Old, e.New, 1)
	return nil
}

// path is where the file of an edit lies.
func (s sources) path(file string) string {
	if below, std := strings.CutPrefix(file, "std:"); std {
		return filepath.Join(s.goroot, "src", filepath.FromSlash(below))
	}
	return filepath.Join(s.root, filepath.FromSlash(file))
}
