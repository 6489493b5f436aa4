package pages

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"tandem/test/npm"
)

// What the console brings along of others is what npm has under the version in its name.
func TestVendored(t *testing.T) {
	npm.Install(t)
	const folder = "../../internal/console/static/vendor"
	of := map[string]string{
		"htmx-4.0.1.min.js": "htmx.org/dist/htmx.min.js", "htmx-4.0.1.LICENSE": "htmx.org/LICENSE",
		"uplot-1.6.32.min.js": "uplot/dist/uPlot.iife.min.js", "uplot-1.6.32.min.css": "uplot/dist/uPlot.min.css", "uplot-1.6.32.LICENSE": "uplot/LICENSE",
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		own, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join("node_modules", of[file.Name()]))
		if err != nil || !bytes.Equal(own, theirs) {
			t.Errorf("%s is not %s of npm (%v)", file.Name(), of[file.Name()], err)
		}
	}
	if len(files) != len(of) {
		t.Errorf("there are %d files in %s, want %d", len(files), folder, len(of))
	}
}
