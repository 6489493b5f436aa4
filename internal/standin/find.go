package standin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"tandem/scripts"
)

// Engines says where the programs are, and which.
type Engines struct {
	Ollama        string // path; at least version 0.34
	LlamaServer   string // path
	LlamaQuantize string // path
	OllamaVersion string // as in 0.34.0
	LlamaVersion  string // as in 0.7.0, or a build number, depending on who packaged it
}

// Options of Find.
type Options struct {
	Log io.Writer // gets progress in lines, when something has to be built or fetched; may be nil
}

// Find returns the engines of this machine, or builds and fetches what is missing into the cache folder, which takes
// minutes, once; afterwards it takes a tenth of a second. Needs bash. TANDEM_OLLAMA, TANDEM_LLAMA_SERVER and
// TANDEM_LLAMA_QUANTIZE name programs to use instead. The error says what was tried and what to do.
func Find(ctx context.Context, o Options) (Engines, error) {
	output, err := runScript(ctx, o)
	if err != nil {
		return Engines{}, err
	}
	return parseEngines(output)
}

// FindBackends returns further llama-servers by the backend that they compute with: "plain" has the simplest kernels for the processor, "blas" and "vulkan"
// are what they say, on the processor, too. All are of one version, which need not be the one of Find. Arguments that name files must do so from the root. It fetches
// what is missing like Find, and gives none where it cannot be fetched, as on macOS.
func FindBackends(ctx context.Context, o Options) (map[string]string, error) {
	output, err := runScript(ctx, o, "backends")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(output) {
		if name, program, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[name] = program
		}
	}
	return found, nil
}

// runScript runs engines.sh and returns what it prints.
func runScript(ctx context.Context, o Options, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", scripts.Engines, "engines.sh"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if o.Log != nil {
		cmd.Stderr = io.MultiWriter(&stderr, o.Log)
	}
	// A group of its own, so that cancelling ends the compiler and downloads as well.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("find engines: %w\n%s", cmp.Or(context.Cause(ctx), err), lastLines(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// parseEngines reads the script's KEY=VALUE lines.
func parseEngines(output string) (Engines, error) {
	var e Engines
	fields := map[string]*string{
		"TANDEM_OLLAMA":         &e.Ollama,
		"TANDEM_OLLAMA_VERSION": &e.OllamaVersion,
		"TANDEM_LLAMA_SERVER":   &e.LlamaServer,
		"TANDEM_LLAMA_QUANTIZE": &e.LlamaQuantize,
		"TANDEM_LLAMA_VERSION":  &e.LlamaVersion,
	}
	for line := range strings.Lines(output) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && fields[key] != nil {
			*fields[key] = value
		}
	}
	for key, value := range fields {
		if *value == "" {
			return Engines{}, fmt.Errorf("find engines: engines.sh gave no %s", key)
		}
	}
	return e, nil
}

// lastLines gives the end of a log, for an error.
func lastLines(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
