// Package deploy holds what an installation needs beside the binaries. It has no code, only tests of those files.
package deploy

import (
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// workerFlags are the flags of the two workers, which are the keys of their configuration files.
var workerFlags = []string{
	"nats", "creds", "nkey", "tls-ca", "model", "engine", "engine-url", "model-file", "slots", "http", "machine", "log-format",
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("sample/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("found samples %v, want one for each of the 4 machines (%v)", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var sample map[string]any
			if err := yaml.Unmarshal([]byte(read(t, file)), &sample); err != nil {
				t.Fatal(err)
			}
			for key := range sample {
				if !slices.Contains(workerFlags, key) {
					t.Errorf("%s is no flag of a worker", key)
				}
			}
			if want := strings.TrimSuffix(filepath.Base(file), ".yaml"); sample["machine"] != want {
				t.Errorf("machine is %v, want the file's name %s", sample["machine"], want)
			}
			address, _ := sample["http"].(string)
			if host, port, err := net.SplitHostPort(address); err != nil || net.ParseIP(host) == nil || port != "8000" && port != "8001" {
				t.Errorf("http is %q, want the machine's address with port 8000 (prefill) or 8001 (decode)", address)
			}
			engine, _ := sample["engine-url"].(string)
			if u, err := url.Parse(engine); err != nil || u.Hostname() != "127.0.0.1" {
				t.Errorf("engine-url is %q, want an engine on the machine itself", engine)
			}
			if sample["model"] != "qwen3-coder:30b" && sample["model"] != "gpt-oss:120b" {
				t.Errorf("model is %v, want one of the two", sample["model"])
			}
		})
	}
}

// TestNobodyIsNamed looks for login names: home folders, and names before the address or name of a machine.
func TestNobodyIsNamed(t *testing.T) {
	login := regexp.MustCompile(`/home/\w|/Users/\w|\w@\d+\.\d+|ssh +(-\S+ +)*\w+@`)
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if found := login.FindString(read(t, path)); found != "" {
			t.Errorf("%s seems to name somebody's account: %q", path, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
