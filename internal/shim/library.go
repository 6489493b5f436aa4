package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"tandem/internal/shim/program"
)

// serverName is what Ollama looks for.
const serverName = "llama-server"

// binaryOf returns the Ollama program itself, which finds its library from where it really is.
func binaryOf(ollama string) (string, error) {
	path, err := exec.LookPath(ollama)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("find ollama: install it, or name the program (--ollama FILE, --ollama-binary FILE): %w", err)
	}
	return path, nil
}

// libraryOf returns the library folder of an Ollama program: where it looks for llama-server. The places are
// those of Ollama's own ml/path.go, 0.34.
func libraryOf(binary string) (string, error) {
	bin := filepath.Dir(binary)
	places := []string{filepath.Join(bin, "..", "lib", "ollama"), filepath.Join(bin, "lib", "ollama"), bin}
	if runtime.GOOS == "darwin" {
		places[0], places[1] = places[1], places[0]
	}
	for _, dir := range places {
		if _, err := os.Stat(filepath.Join(dir, serverName)); err == nil {
			return filepath.Clean(dir), nil
		}
	}
	return "", fmt.Errorf("there is no %s in %s: this Ollama is older than 0.30, which does not start one, or not installed whole",
		serverName, strings.Join(places, ", "))
}

// realIn returns the path of the real llama-server in a library folder, whether the shim is installed there or not.
func realIn(library string) string {
	server := filepath.Join(library, serverName)
	if isShim(server) {
		return program.RealName(server)
	}
	return server
}

// helpLimit is how long a llama-server may take to tell its flags; it takes some milliseconds.
const helpLimit = 30 * time.Second

var flagName = regexp.MustCompile(`(?:^|[\s,])(--[a-z][a-z0-9-]*)`)

// flagsFor returns the switches with which a llama-server should be started beside its slot folder, as far as
// it knows them. One that cannot save its slots at all is an error.
func flagsFor(ctx context.Context, server string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, helpLimit)
	defer cancel()
	real, err := filepath.EvalSymlinks(server)
	if err != nil {
		return nil, fmt.Errorf("find the real llama-server: %w", err)
	}
	cmd := exec.CommandContext(ctx, real, "--help")
	cmd.Env = withLibraries(os.Environ(), filepath.Dir(real))
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ask %s for its flags: %w", server, context.Cause(ctx))
	}
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok && len(e.Stderr) > 0 {
			err = fmt.Errorf("%w: %.300s", err, strings.TrimSpace(string(e.Stderr)))
		}
		return nil, fmt.Errorf("ask %s for its flags: %w", server, err)
	}
	var known []string
	for _, m := range flagName.FindAllStringSubmatch(string(out), -1) {
		known = append(known, m[1])
	}
	if !slices.Contains(known, "--slot-save-path") {
		return nil, fmt.Errorf("%s does not know --slot-save-path, so it cannot save what it computed; it is no llama-server, or one without that", server)
	}
	var flags []string
	// Otherwise it moves an idle slot's cache out of it at every new request, and a slot that is pointed at finds nothing.
	for _, wanted := range []string{"--no-cache-idle-slots"} {
		if slices.Contains(known, wanted) {
			flags = append(flags, wanted)
		}
	}
	return flags, nil
}

// withLibraries has a program look for its libraries where Ollama would have it look.
func withLibraries(env []string, dir string) []string {
	key := "LD_LIBRARY_PATH="
	if runtime.GOOS == "darwin" {
		key = "DYLD_LIBRARY_PATH="
	}
	paths := dir
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, key) && v != key }); i >= 0 {
		paths += string(filepath.ListSeparator) + strings.TrimPrefix(env[i], key)
	}
	return append(env, key+paths)
}
