package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var b bytes.Buffer
	if err := run([]string{"../../examples/class"}, &b); err != nil || !strings.Contains(b.String(), "10 notebooks, 1 of which cannot be read; of the others 9 match as a whole") {
		t.Errorf("run of the example: %v\n%s", err, &b)
	}
	empty := t.TempDir()
	for _, folders := range [][]string{nil, {empty}, {filepath.Join(empty, "absent")}} {
		if err := run(folders, &b); err == nil {
			t.Errorf("run of %v gives no error", folders)
		}
	}
	if err := os.WriteFile(filepath.Join(empty, "a.ipynb"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{empty}, &b); err == nil {
		t.Error("run of a folder with nothing to compare gives no error")
	}
}
