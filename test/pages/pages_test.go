// Package pages looks at the grader's pages in a real browser: on a desktop and on a phone, light, dark and printed. They must stand by themselves, fit, and be
// accessible by the rules of axe-core.
//
// To look at the pages of a real run, and to take pictures of them:
//
//	TANDEM_PAGES=$PWD/demo-grades TANDEM_PICTURES=/tmp/pictures go test -count=1 ./test/pages
package pages

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tandem/test/npm"
)

// seen is what browser.mjs saw of a page in one view.
type seen struct {
	Page, View string
	Requests   []string // beside the page itself
	Violations []string // of axe-core's rules
	Overflow   int      // pixels by which the page is wider than the screen
	Hidden     []string // what is not printed
	Sheets     int      // of paper
}

// views are those of each page: two screens, light and dark, and paper.
const views = 5

func TestPages(t *testing.T) {
	folder := os.Getenv("TANDEM_PAGES")
	if folder == "" {
		folder = t.TempDir()
		writeClasses(t, folder)
	}
	pages := find(t, folder)
	npm.Install(t)
	all := look(t, folder, pages)
	if len(all) != views*len(pages) {
		t.Errorf("the browser saw %d views of %d pages, want %d of each", len(all), len(pages), views)
	}
	for _, s := range all {
		t.Run(s.Page+", "+s.View, func(t *testing.T) {
			if len(s.Requests) > 0 {
				t.Errorf("the page asks for %q", s.Requests)
			}
			for _, v := range s.Violations {
				t.Errorf("axe-core: %s", v)
			}
			if s.Overflow > 0 {
				t.Errorf("the page is %d pixels wider than the screen", s.Overflow)
			}
			if len(s.Hidden) > 0 {
				t.Errorf("closed parts are not printed: %q", s.Hidden)
			}
			if s.View == "print" && s.Sheets == 0 {
				t.Error("nothing was printed")
			}
		})
	}
}

// find lists the pages below a folder.
func find(t *testing.T, folder string) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir(folder, func(name string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".html") {
			rel, relErr := filepath.Rel(folder, name)
			pages = append(pages, filepath.ToSlash(rel))
			return relErr
		}
		return err
	})
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages in %s: %d (%v)", folder, len(pages), err)
	}
	return pages
}

// look has the browser look at the pages.
func look(t *testing.T, folder string, pages []string) []seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"browser.mjs", folder}, pages...)...)
	cmd.Env = append(os.Environ(), "TANDEM_BROWSER="+browser(t))
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node browser.mjs: %v; it printed:\n%s", err, out)
	}
	var all []seen
	for line := range strings.Lines(string(out)) {
		var s seen
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// browser finds Chromium, or Chrome, which is the same to these tests.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium and no Chrome on this machine: install one (tools/needs.sh chromium)")
	return ""
}
