package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptsSpeakToTheServiceManager runs the scripts with stand-ins for the system's own commands, which write down how they are
// called; so the macOS side is tried on Linux too.
func TestScriptsSpeakToTheServiceManager(t *testing.T) {
	for _, tt := range []struct {
		system, script string
		args           []string
		want           []string // the calls
	}{
		{"Linux", "start.sh", []string{"prefill", "qwen3-coder"}, []string{"systemctl enable --now --quiet tandem-prefill@qwen3-coder.service"}},
		{"Linux", "stop.sh", []string{"decode", "gpt-oss"}, []string{"systemctl disable --now --quiet tandem-decode@gpt-oss.service"}},
		{"Linux", "logs.sh", []string{"nats"}, []string{"journalctl --unit tandem-nats.service --lines 100 --follow --output cat"}},
		{"Linux", "status.sh", []string{"nats"}, []string{"systemctl status --no-pager --lines 5 tandem-nats.service"}},
		{"Darwin", "start.sh", []string{"decode", "gpt-oss"}, []string{
			"launchctl enable system/tandem.decode.gpt-oss",
			"launchctl print system/tandem.decode.gpt-oss",
			"find /var/log/tandem -name decode-gpt-oss.log -size +10M -exec mv {} {}.1 ;",
			"launchctl bootstrap system /Library/LaunchDaemons/tandem.decode.gpt-oss.plist",
		}},
		{"Darwin", "stop.sh", []string{"nats"}, []string{
			"launchctl disable system/tandem.nats",
			"launchctl print system/tandem.nats", // says that it is not loaded
		}},
		{"Darwin", "logs.sh", []string{"decode", "gpt-oss"}, []string{"tail -n 100 -F /var/log/tandem/decode-gpt-oss.log"}},
	} {
		t.Run(tt.system+" "+tt.script, func(t *testing.T) {
			env, calls := standIns(t, tt.system)
			if out, err := run(t.Context(), env, filepath.Join("scripts", tt.script), tt.args...); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := strings.TrimSpace(read(t, calls)); got != strings.Join(tt.want, "\n") {
				t.Errorf("it called\n%s\nwant\n%s", got, strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestScriptsRefuseUnknownServices(t *testing.T) {
	for _, args := range [][]string{nil, {"grader"}, {"prefill"}, {"decode", "qwen3-coder:30b"}, {"decode", "../x"}} {
		for _, script := range []string{"install.sh", "start.sh", "stop.sh", "logs.sh", "status.sh"} {
			env, calls := standIns(t, "Linux")
			out, err := run(t.Context(), env, filepath.Join("scripts", script), args...)
			if err == nil || !strings.Contains(out, "usage: "+script) {
				t.Errorf("%s %v: %v, want a usage message; it said\n%s", script, args, err, out)
			}
			if got := read(t, calls); got != "" {
				t.Errorf("%s %v called %s", script, args, got)
			}
		}
	}
}

// standIns makes a folder of commands that only write down their calls, and returns the environment that finds them first.
// uname names the system, id says root, and launchctl knows of no service.
func standIns(t *testing.T, system string) (env []string, calls string) {
	t.Helper()
	folder := t.TempDir()
	calls = filepath.Join(folder, "calls")
	record := `echo "$(basename "$0") $*" >>` + calls + "\n"
	commands := map[string]string{"uname": "echo " + system, "id": "echo 0", "launchctl": record + `[ "$1" != print ]`}
	for _, name := range []string{"systemctl", "journalctl", "curl", "find", "tail"} {
		commands[name] = record
	}
	for name, script := range commands {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(calls, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + folder + string(os.PathListSeparator) + os.Getenv("PATH")}, calls
}
