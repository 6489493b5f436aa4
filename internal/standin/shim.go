package standin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"tandem/internal/shim"
)

// shimSources are the folders that the shim's program is built from.
var shimSources = [...]string{"cmd/" + shim.Name, "internal/shim/program"}

// Shim returns the path of the shim's program. Where none was installed with this program, it is built from the sources
// into the cache, if they are here: so a test, or `go run`, has the one that belongs to it.
func Shim(ctx context.Context) (string, error) {
	path, err := shim.Find()
	if !errors.Is(err, shim.ErrNoProgram) {
		return path, err
	}
	root, sourceErr := sourceFolder()
	if sourceErr != nil {
		return "", err
	}
	return buildShim(ctx, root)
}

// sourceFolder is the folder of the project's sources that this process works in.
func sourceFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(b, []byte("module tandem\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fs.ErrNotExist
		}
		dir = parent
	}
}

// buildShim returns the shim built from the sources as they are now.
func buildShim(ctx context.Context, root string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, dir := range shimSources {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return "", err
		}
		slices.Sort(files)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", fmt.Errorf("build %s: %w", shim.Name, err)
			}
			fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(f), len(b), b)
		}
	}
	path := filepath.Join(cache, "shim", fmt.Sprintf("%x", hash.Sum(nil)[:8]), shim.Name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", shim.Name, err)
	}
	// In a folder of its own first: it may be built several times at once.
	work, err := os.MkdirTemp(filepath.Dir(path), "build-*")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", shim.Name, err)
	}
	defer os.RemoveAll(work)
	temporary := filepath.Join(work, shim.Name)
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", temporary, "./"+shimSources[0])
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", shim.Name, err, lastLines(out))
	}
	if err := os.Rename(temporary, path); err != nil {
		return "", fmt.Errorf("build %s: %w", shim.Name, err)
	}
	return path, nil
}
