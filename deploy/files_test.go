// Package deploy holds what an installation needs beside the binaries. It has no code, only tests of those files.
package deploy

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"tandem/internal/app"
)

// TestSamples has the worker that each file is for read it, with the settings that are the same on all machines.
func TestSamples(t *testing.T) {
	for line := range strings.Lines(read(t, "sample/tandem.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			t.Setenv(name, value)
		}
	}
	for _, tt := range []struct{ machine, address, model, http string }{
		{"dgx-spark-1", "169.254.150.103", "qwen3-coder:30b", ":8000"},
		{"dgx-spark-2", "169.254.150.104", "gpt-oss:120b", ":8000"},
		{"mac-studio-1", "169.254.150.101", "gpt-oss:120b", ":8001"},
		{"mac-studio-2", "169.254.150.102", "qwen3-coder:30b", ":8001"},
	} {
		t.Run(tt.machine, func(t *testing.T) {
			worker := app.PrefillWorkerMain
			if strings.HasPrefix(tt.machine, "mac") {
				worker = app.DecodeWorkerMain
			}
			var out, problems bytes.Buffer
			if code := worker([]string{"--config", "sample/" + tt.machine + ".yaml", "--print-config"}, &out, &problems); code != 0 {
				t.Fatalf("the worker exits with %d: %s", code, &problems)
			}
			var got map[string]any
			if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]any{
				"nats": "nats://169.254.150.101:4222", "machine": tt.machine, "model": tt.model, "http": tt.address + tt.http,
				"engine": "ollama", "engine-url": "http://127.0.0.1:11434", "log-format": "json",
			} {
				if got[key] != want {
					t.Errorf("%s is %v, want %v", key, got[key], want)
				}
			}
		})
	}
}

// The gateway reads its file, too.
func TestSampleOfTheGateway(t *testing.T) {
	var out, problems bytes.Buffer
	if code := app.GatewayMain([]string{"--config", "sample/gateway.yaml", "--print-config"}, &out, &problems); code != 0 || !strings.Contains(out.String(), "http: 127.0.0.1:11500\n") || !strings.Contains(out.String(), "user: gateway\n") {
		t.Errorf("the gateway exits with %d: %s%s", code, &problems, &out)
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
