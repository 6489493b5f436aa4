package llamacpp

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// flags are the command-line flags that a build of llama-server knows.
type flags struct {
	known map[string]bool
	help  string
}

var flagName = regexp.MustCompile(`(?:^|[\s,])(--?[a-z][a-z0-9-]*)`)

// flagsOf asks the program for its flags.
func flagsOf(ctx context.Context, binary string) (*flags, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--help")
	cmd.Env = environment("")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its flags: %w", binary, err)
	}
	return parseFlags(string(out)), nil
}

func parseFlags(help string) *flags {
	f := &flags{known: map[string]bool{}, help: help}
	for _, m := range flagName.FindAllStringSubmatch(help, -1) {
		f.known[m[1]] = true
	}
	return f
}

// arguments are what a server is started with. What is fixed here is what makes states of two machines
// equal: the number of slots, a cache that is divided between them, flash attention, cache types, and
// no moving of an idle slot's cache out of it.
func (f *flags) arguments(o Options, port int) []string {
	args := []string{
		"--model", o.ModelFile, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--parallel", strconv.Itoa(o.Slots),
		"--ctx-size", strconv.Itoa(o.NumCtx * o.Slots), // it is divided by the number of slots
		"--flash-attn",
	}
	if strings.Contains(f.help, "'on', 'off'") || strings.Contains(f.help, "[on|off|auto]") { // older: a switch without value
		args = append(args, "on")
	}
	for _, each := range [...][]string{
		{"--no-kv-unified"},
		{"--cache-ram", "0"},
		{"--no-cache-idle-slots"},
		{"--no-context-shift"}, // a full context ends the answer; it never drops the prompt's beginning
		{"--jinja"},            // the model's own chat template
		{"--slots"},
		{"--metrics"},
		{"--no-webui"},
	} {
		if f.known[each[0]] {
			args = append(args, each...)
		}
	}
	if o.Model != "" {
		args = append(args, "--alias", o.Model)
	}
	if o.Threads > 0 {
		args = append(args, "--threads", strconv.Itoa(o.Threads))
	}
	if o.SlotDir != "" {
		args = append(args, "--slot-save-path", o.SlotDir)
	}
	if o.CacheType != "" {
		args = append(args, "--cache-type-k", o.CacheType, "--cache-type-v", o.CacheType)
	}
	return args
}
