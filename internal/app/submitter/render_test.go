package submitter

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/batchstats"
	"tandem/jobs"
)

func TestClockAndFigure(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 59*time.Second + 400*time.Millisecond: "59 s", 125 * time.Second: "2 min 05 s", 80 * time.Minute: "1 h 20 min",
	} {
		if got := clock(d); got != want {
			t.Errorf("clock(%v) = %q, want %q", d, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00", 0.683: "0.68", 12.34: "12.3", 754.2: "754"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %q, want %q", v, got, want)
		}
	}
}

// ended is a result with the given figures.
func ended(model string, status jobs.Status, method jobs.Method, prefill, decode, total float64) *jobs.Result {
	r := &jobs.Result{V: jobs.Version, JobID: jobs.NewID(), User: "u", Batch: "b", CustomID: "c", Model: model, Status: status, Method: method}
	if status != jobs.Succeeded {
		r.Error = &jobs.ErrorInfo{Code: jobs.CodeModelMissing, Stage: jobs.StagePrefill, Message: "no such model"}
	}
	r.Timings.PrefillSeconds, r.Timings.DecodeSeconds, r.Timings.TotalSeconds = prefill, decode, total
	r.Usage.PromptTokens, r.Usage.PrefillComputed, r.Usage.GeneratedTokens = 1000, 500, 100
	return r
}

// TestReport uses figures that can be checked by hand: the seeds' two requests, in parallel.
func TestReport(t *testing.T) {
	results := []*jobs.Result{
		ended("qwen3-coder:30b", jobs.Succeeded, jobs.MethodDisaggregated, 0.5, 9.5, 10),
		ended("gpt-oss:120b", jobs.Succeeded, jobs.MethodFallback, 2, 18, 20),
		ended("gpt-oss:120b", jobs.Failed, "", 7, 7, 7),
	}
	results[0].Usage.PrefillCached, results[0].Usage.HandedOver, results[0].Usage.DecodeCached, results[0].Usage.DecodeComputed = 500, 999, 999, 1
	results[0].Handover = &jobs.HandoverReport{Bytes: 98_304_000, MovedBytes: 40_304_000, BytesPerSecond: 1e9}
	results[1].Handover = &jobs.HandoverReport{Failure: jobs.FailDigest}
	results[1].Warnings = []string{jobs.WarnFallback}
	sum := func(wall time.Duration) batchReport {
		rep := batchReport{batchstats.New("b")}
		for _, r := range results {
			rep.Add(r)
		}
		rep.Sum(wall)
		return rep
	}
	rep := sum(20 * time.Second)
	if rep.Jobs != 3 || rep.Succeeded != 2 || rep.Failed != 1 {
		t.Errorf("jobs, succeeded, failed = %d, %d, %d, want 3, 2, 1", rep.Jobs, rep.Succeeded, rep.Failed)
	}
	if rep.SequentialSeconds != 30 || rep.SpeedUp != 1.5 || rep.JobsPerMinute != 6 {
		t.Errorf("sequential, speed-up, jobs/min = %v, %v, %v, want 30, 1.5, 6 (a failed job counts nowhere)", rep.SequentialSeconds, rep.SpeedUp, rep.JobsPerMinute)
	}
	if got := sum(0).WallSeconds; got != 20 {
		t.Errorf("wall time without a clock = %v, want that of the longest job, 20", got)
	}
	var b bytes.Buffer
	if err := rep.writeTo(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.golden", b.Bytes())
}

// golden compares with a file of testdata; UPDATE=1 in the environment writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); UPDATE=1 accepts it:\n%s", name, diff)
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := newBatchProgress(&session{err: &b}, 4)
		p.live = true // as on a terminal
		p.had(ended("m", jobs.Succeeded, jobs.MethodLocal, 1, 1, 1))
		time.Sleep(20 * time.Second)
		first := ended("m", jobs.Succeeded, jobs.MethodLocal, 1, 1, 1)
		p.event(&jobs.Event{Type: jobs.EventAccepted, JobID: first.JobID, Model: "m"})
		p.result(first)
		time.Sleep(time.Second)
		for _, e := range []jobs.Event{{Type: jobs.EventPrefillBegun}, {Type: jobs.EventOffered}, {Type: jobs.EventDecodeBegun}, {Type: jobs.EventProgress, Tokens: 5}} {
			e.JobID, e.Model = "another", "m"
			p.event(&e)
			time.Sleep(time.Second)
		}
		p.result(ended("m", jobs.Failed, "", 0, 0, 0))
		p.stop()
		var lines []string
		for line := range strings.Lines(b.String()) {
			lines = append(lines, strings.NewReplacer("\r", "", "\n", "", "\x1b[K", "", "\x1b[J", "", "\x1b[1A", "", "\x1b[2A", "").Replace(line))
		}
		want := []string{
			"1 of 4 jobs done · 20 s",
			"prefill 0 running, 1 waiting · decode 0 running, 0 waiting · 2 not heard of yet",
			"2 of 4 jobs done · about 40 s left · 5.00 tok/s",
			"2 of 4 jobs done · about 42 s left · 4.76 tok/s",
			"prefill 1 running, 0 waiting · decode 0 running, 0 waiting · 1 not heard of yet",
			"2 of 4 jobs done · about 44 s left · 4.55 tok/s",
			"prefill 0 running, 0 waiting · decode 0 running, 1 waiting · 1 not heard of yet",
			"2 of 4 jobs done · about 46 s left · 4.35 tok/s",
			"prefill 0 running, 0 waiting · decode 1 running, 0 waiting · 1 not heard of yet",
			"2 of 4 jobs done · about 48 s left · 4.38 tok/s",
			"prefill 0 running, 0 waiting · decode 1 running, 0 waiting · 1 not heard of yet",
			"c: failed at prefill: no such model",
			"3 of 4 jobs done (1 failed) · about 13 s left · 8.20 tok/s",
			"prefill 0 running, 0 waiting · decode 1 running, 0 waiting",
			"",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("live lines (-want +got):\n%s", diff)
		}
	})
}

func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p := newBatchProgress(&session{err: &b}, 2)
	p.result(ended("m", jobs.Succeeded, jobs.MethodLocal, 1, 1, 1))
	if b.Len() > 0 {
		t.Errorf("progress told %q at once, want one line every %v", b.String(), plainEvery)
	}
	p.result(ended("m", jobs.Succeeded, jobs.MethodLocal, 1, 1, 1))
	p.stop()
	if got := b.String(); !strings.HasPrefix(got, "2 of 2 jobs done") || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("progress told %q, want one plain line at the end", got)
	}
}

func TestResultDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "out")
	d, err := openResultDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, id := range []string{"student-01", "../../escape", "a/b", ".hidden", "ümlaut", "-rf", "x.part"} {
		r := ended("m", jobs.Succeeded, jobs.MethodLocal, 1, 1, 1)
		r.CustomID = id
		if err := d.write(r); err != nil {
			t.Fatalf("write %q: %v", id, err)
		}
		got, err := d.read(id, r.JobID)
		if err != nil || got == nil || got.CustomID != id {
			t.Errorf("read %q = %v, %v; want what was written", id, got, err)
		}
		if other, err := d.read(id, jobs.NewID()); other != nil || err != nil {
			t.Errorf("read of another job's result = %v, %v; want nothing", other, err)
		}
		back, err := jobs.DecodeToken(strings.TrimSuffix(resultFile(id), ".json"))
		if back != id || err != nil {
			t.Errorf("file name of %q reads back as %q, %v", id, back, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 7 {
		t.Fatalf("folder has %d files, %v; want 7 and nothing left over", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", f.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder has mode %v, %v; want 0700", info.Mode(), err)
	}
	if missing, err := d.read("nobody", jobs.NewID()); missing != nil || err != nil {
		t.Errorf("read of a missing result = %v, %v; want nothing", missing, err)
	}
}

func TestProblem(t *testing.T) {
	for _, tt := range []struct {
		info *jobs.ErrorInfo
		want string
	}{
		{nil, "failed"},
		{&jobs.ErrorInfo{Message: "it was\nlost"}, "failed: it was lost"},
		{&jobs.ErrorInfo{Stage: jobs.StagePrefill, Message: "no such model"}, "failed at prefill: no such model"},
		{&jobs.ErrorInfo{Stage: jobs.StagePrefill, Message: "prefill: the prompt is too long"}, "failed at prefill: the prompt is too long"},
		{&jobs.ErrorInfo{Stage: jobs.StageDecode, Message: "prefill: \x1b[31mred"}, "failed at decode: prefill: ␛[31mred"},
	} {
		if got := problem(&jobs.Result{Status: jobs.Failed, Error: tt.info}); got != tt.want {
			t.Errorf("problem(%+v) = %q, want %q", tt.info, got, tt.want)
		}
	}
}
