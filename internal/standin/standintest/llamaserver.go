package standintest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"tandem/internal/tinymodel"
)

// Thinker is a chat template of a model that thinks, unless it is told not to.
const Thinker = `{%- for m in messages %}
{%- if m.role == 'assistant' and m.reasoning_content %}{{- '<|im_start|>assistant\n<think>\n' + m.reasoning_content + '\n</think>\n\n' + m.content + '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '\n</think>\n\n' }}{%- endif %}
{%- endif %}`

// StartLlamaServer starts a llama-server with one slot of 8192 tokens and one thread, and with the flags
// given, of which later ones count. It ends with the test. Returned is its address, once the model is loaded.
func StartLlamaServer(t testing.TB, spec tinymodel.Spec, flags ...string) string {
	t.Helper()
	return startLlamaServer(t, Engines(t).LlamaServer, spec, flags)
}

// StartBackend does the same with a llama-server of Backend.
func StartBackend(t testing.TB, backend string, spec tinymodel.Spec, flags ...string) string {
	t.Helper()
	return startLlamaServer(t, Backend(t, backend), spec, flags)
}

func startLlamaServer(t testing.TB, program string, spec tinymodel.Spec, flags []string) string {
	t.Helper()
	model := ModelFile(t, spec)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	var log bytes.Buffer
	if spec.Sees {
		flags = append([]string{"--mmproj", ProjectorFile(t, spec)}, flags...)
	}
	flags = append([]string{"--model", model, "--host", "127.0.0.1", "--port", fmt.Sprint(port), "-c", "8192", "-np", "1", "-t", "1", "-fa", "on"}, flags...)
	cmd := exec.Command(program, flags...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		if resp, err := http.Get(url + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
		select {
		case <-tick.C:
		case err := <-exited:
			exited <- err
			t.Fatalf("llama-server ended: %v\n%s", err, &log)
		case <-deadline:
			t.Fatal("llama-server did not load the model within 30 s")
		}
	}
}
