package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// holds checks what a folder holds: one file, with a text and a mode.
func holds(t *testing.T, file, text string, mode fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v; want one file", entries, err)
	}
	data, err := os.ReadFile(file)
	if err != nil || string(data) != text {
		t.Errorf("the file holds %q, %v; want %q", data, err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
		t.Errorf("the file has mode %v, %v; want %v", info.Mode(), err, mode)
	}
}

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "second"} {
		if err := Write(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		holds(t, file, text, 0o600)
	}
	if err := Write(filepath.Join(t.TempDir(), "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// What fails leaves the file as it was, and nothing beside it.
func TestWriteFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := Write(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	err := WriteFrom(file, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("error = %v", err)
	}
	holds(t, file, "old", 0o600)
}

func TestReplace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := Replace(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, file, "new", 0o600)
	if err := os.Chmod(file, 0o646); err != nil {
		t.Fatal(err)
	}
	if err := Replace(file, []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, file, "newer", 0o646)
}

// Below a root no link leads away.
func TestWriteIn(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteIn(root, "sub/file", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "sub", "file"), "text", 0o600)
	if err := WriteIn(root, "link/file", []byte("text"), 0o600); err == nil {
		t.Error("a link led away")
	}
}

// Of several writers at once the file is one's, whole.
func TestWritersAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := Write(file, []byte("the same"), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	holds(t, file, "the same", 0o600)
}
