package deploy

import (
	"errors"
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
		{"Linux", "start.sh", []string{"gateway"}, []string{"systemctl enable --now --quiet tandem-gateway.service"}},
		{"Darwin", "logs.sh", []string{"gateway"}, []string{"sudo -u _tandem-gateway tail -n 100 -F /var/log/tandem/gateway/gateway.log"}},
		{"Linux", "status.sh", []string{"nats"}, []string{"systemctl status --no-pager --lines 5 tandem-nats.service"}},
		{"Darwin", "start.sh", []string{"decode", "gpt-oss"}, []string{
			"launchctl enable system/tandem.decode.gpt-oss",
			"launchctl print system/tandem.decode.gpt-oss",
			"sudo -u _tandem-decode find /var/log/tandem/decode -name decode-gpt-oss.log -size +10M -exec mv -f {} {}.1 ;",
			"launchctl bootstrap system /Library/LaunchDaemons/tandem.decode.gpt-oss.plist",
		}},
		{"Darwin", "stop.sh", []string{"nats"}, []string{
			"launchctl disable system/tandem.nats",
			"launchctl print system/tandem.nats", // says that it is not loaded
		}},
		{"Darwin", "logs.sh", []string{"decode", "gpt-oss"}, []string{"sudo -u _tandem-decode tail -n 100 -F /var/log/tandem/decode/decode-gpt-oss.log"}},
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

// TestRootLeavesTheServicesFoldersToThem: what lies in a service's folder may be links by the time root comes to it.
func TestRootLeavesTheServicesFoldersToThem(t *testing.T) {
	folder, store := t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"bin/submitter", "bin/nats-server"} {
		path := filepath.Join(folder, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(store, "jetstream"), 0o700); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(folder, "backup.tar.gz")
	if out, err := run(t.Context(), nil, "nats/backup.sh", backup, store); err != nil {
		t.Fatalf("backup.sh: %v\n%s", err, out)
	}
	for script, args := range map[string][]string{"scripts/install.sh": {"nats"}, "nats/restore.sh": {backup}} {
		env, calls := standIns(t, "Linux")
		if out, err := run(t.Context(), env, filepath.Join(folder, "deploy", script), args...); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		below := 0
		for line := range strings.Lines(read(t, calls)) {
			if strings.Contains(line, "/var/lib/tandem/nats") && line != "install -d -m 0700 -o tandem-nats -g tandem-nats /var/lib/tandem/nats\n" {
				below++
				if !strings.HasPrefix(line, "runuser -u tandem-nats -- ") {
					t.Errorf("%s has root do %s", script, line)
				}
			}
		}
		if (below > 0) != (script == "nats/restore.sh") {
			t.Errorf("%s touched the services' folders %d times:\n%s", script, below, read(t, calls))
		}
	}

	env, calls := standIns(t, "Linux")
	for _, mode := range []string{"drwxrwxr-x 1 0 50", "drwxr-xrwx 1 0 0", "drwxr-xr-x 1 501 20"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(calls), "ls"), []byte("#!/bin/sh\necho "+mode+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := run(t.Context(), env, filepath.Join(folder, "deploy/scripts/install.sh"), "nats")
		if err == nil || !strings.Contains(out, "may be written by others") || strings.Contains(read(t, calls), "install -m") {
			t.Errorf("a folder with %s: %v, want a refusal before anything is installed\n%s%s", mode, err, out, read(t, calls))
		}
	}
}

// TestBackupFollowsNoLink: whoever may write the folder of the backup must not choose which file it is written over.
func TestBackupFollowsNoLink(t *testing.T) {
	store, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	file := filepath.Join(t.TempDir(), "store.tar.gz")
	err := errors.Join(os.Mkdir(filepath.Join(store, "jetstream"), 0o700), os.WriteFile(victim, []byte("as it was"), 0o600), os.Symlink(victim, file+".part"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t.Context(), nil, "nats/backup.sh", file, store); err == nil {
		t.Errorf("it wrote a backup:\n%s", out)
	}
	if got := read(t, victim); got != "as it was" {
		t.Errorf("the file that the link leads to has %d bytes now", len(got))
	}
}

// standIns makes a folder of commands that only write down their calls, and returns the environment that finds them first.
// uname names the system, id says root, and launchctl knows of no service.
func standIns(t *testing.T, system string) (env []string, calls string) {
	t.Helper()
	folder := t.TempDir()
	calls = filepath.Join(folder, "calls")
	record := `echo "$(basename "$0") $*" >>` + calls + "\n"
	commands := map[string]string{"uname": "echo " + system, "id": "echo 0", "ls": "echo drwxr-xr-x 1 0 0", "launchctl": record + `[ "$1" != print ]`}
	for _, name := range []string{"systemctl", "journalctl", "curl", "find", "tail", "sudo", "runuser", "install", "mkdir", "mktemp", "mv", "rm", "rmdir", "chown", "chmod", "useradd"} {
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
