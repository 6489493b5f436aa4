// Package bench measures the commands as whole processes.
package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

const model = "qwen3-coder:30b"

// BenchmarkWorkerMemory sends 10,000 jobs with prompts of 4 KB through a prefill and a decode worker,
// processes of their own on the fake Ollama, and reports their resident memory after 1,000 and after
// all, in MB. It runs once whatever b.N says.
func BenchmarkWorkerMemory(b *testing.B) {
	const early, all = 1_000, 10_000
	server := natstest.Start(b, natsembed.Options{Dir: b.TempDir()})
	engine := ollamatest.Start(b, ollamatest.Options{Model: model, Slots: 16})
	bin := b.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "tandem/cmd/...").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	conn, err := queue.Connect(b.Context(), queue.Config{URL: server.URL(), Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if err := conn.EnsureStreams(b.Context()); err != nil {
		b.Fatal(err)
	}
	pids := map[jobs.Stage]int{}
	for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
		cmd := exec.Command(filepath.Join(bin, string(role)+"-worker"), "--nats", server.URL(), "--model", model, "--engine-url", engine.URL(),
			"--slots", "8", "--num-ctx", "8192", "--http", "127.0.0.1:0", "--state-dir", b.TempDir(), "--log-level", "error")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				b.Error(err)
			}
		}()
		pids[role] = cmd.Process.Pid
	}
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	for len(pids) > 0 { // until both are there
		if w, err := conn.Workers(ctx); err != nil {
			b.Fatal(err)
		} else if len(w) == len(pids) {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			b.Fatal("the workers did not start")
		}
	}
	client := queue.NewClient(conn, "bench")
	n := 8
	zero := 0.0
	start := time.Now()
	run := func(from, to int) {
		batch := fmt.Sprintf("b%d", from)
		var ids []string
		for i := from; i < to; i++ {
			j := &jobs.Job{
				V: jobs.Version, ID: jobs.NewID(), User: "bench", Batch: batch, Class: jobs.Batch, Model: model,
				Prompt:      fmt.Sprintf("%d. %s", i, strings.Repeat("x <- mean(df$price)\n", 200)),
				SubmittedAt: time.Now().UTC(), Options: jobs.Options{Temperature: &zero, NumPredict: &n},
			}
			ids = append(ids, j.ID)
			if err := client.Submit(ctx, j, queue.SubmitOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		for r, err := range client.AwaitBatch(ctx, batch, ids) {
			if err != nil {
				b.Fatal(err)
			}
			if r.Status != jobs.Succeeded {
				b.Fatalf("%s: %+v", r.Status, r.Error)
			}
		}
		for role, pid := range pids {
			b.ReportMetric(resident(b, pid), fmt.Sprintf("MB-%s-%d", role, to))
		}
	}
	run(0, early)
	run(early, all)
	b.ReportMetric(all/time.Since(start).Seconds(), "jobs/s")
	b.ReportMetric(0, "ns/op")
}

// resident is a process's resident memory in MB.
func resident(b *testing.B, pid int) float64 {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		b.Fatal(err)
	}
	kb, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb / 1024
}
