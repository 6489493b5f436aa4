package slots

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// failure is the name of a hand-over's failure, empty if the error is none.
func failure(err error) jobs.Failure {
	if failed, ok := errors.AsType[*protocol.HandoverError](err); ok {
		return failed.Failure
	}
	return ""
}

func TestImportRefuses(t *testing.T) {
	for _, shape := range []tinymodel.Shape{tinymodel.Llama, tinymodel.GPTOSS, tinymodel.GraniteHybrid} {
		t.Run(string(shape), func(t *testing.T) {
			spec := tinymodel.TinyShape(shape, tinymodel.BPE)
			a, b := start(t, setup{spec: spec, slots: 2}), start(t, setup{spec: spec, slots: 2})
			three := start(t, setup{spec: spec, slots: 3})
			spec.Seed = 2
			other := start(t, setup{spec: spec, slots: 2})
			p := a.prompt(t, 1, 400)
			good, err := os.ReadFile(a.export(t, p).Path)
			if err != nil {
				t.Fatal(err)
			}
			for name, tt := range map[string]struct {
				state func(t *testing.T) *engine.StateFile
				want  jobs.Failure
				says  string
			}{
				"other number of tokens": {func(t *testing.T) *engine.StateFile {
					return b.receive(t, a.export(t, a.prompt(t, 1, 401)))
				}, jobs.FailRestore, "holds 400 tokens"},
				"other prompt": {func(t *testing.T) *engine.StateFile {
					return b.receive(t, a.export(t, a.prompt(t, 2, 400)))
				}, jobs.FailRestore, "is not the prompt's"},
				"other weights": {func(t *testing.T) *engine.StateFile {
					return b.receive(t, other.export(t, p))
				}, jobs.FailFirstToken, "first prediction differs by"},
				"other number of slots": {func(t *testing.T) *engine.StateFile {
					return b.receive(t, three.export(t, p))
				}, jobs.FailRestore, "restore the state"},
				"other first prediction": {func(t *testing.T) *engine.StateFile {
					f := b.receive(t, a.export(t, p))
					f.First = f.First[len(f.First)/2:]
					return f
				}, jobs.FailFirstToken, "limit"},
				"no first prediction": {func(t *testing.T) *engine.StateFile {
					f := b.receive(t, a.export(t, p))
					f.First = nil
					return f
				}, jobs.FailFirstToken, "limit"},
				"shorter than it was": {func(t *testing.T) *engine.StateFile {
					f := a.export(t, p)
					return b.write(t, f, good[:len(good)-1])
				}, jobs.FailTruncated, "bytes"},
				"cut and described so": {func(t *testing.T) *engine.StateFile {
					f := b.write(t, a.export(t, p), good[:len(good)/2])
					f.Bytes = int64(len(good) / 2)
					return f
				}, jobs.FailRestore, "check the state file"},
				"garbage of the right size": {func(t *testing.T) *engine.StateFile {
					f := a.export(t, p)
					return b.write(t, f, []byte(strings.Repeat("garbage ", int(f.Bytes)/8+1))[:f.Bytes])
				}, jobs.FailRestore, "check the state file"},
				"another layout than it says": {func(t *testing.T) *engine.StateFile {
					f := b.receive(t, a.export(t, p))
					f.Fingerprint.CacheK = "q4_0"
					return f
				}, jobs.FailRestore, "fingerprint"},
				"in another folder": {func(t *testing.T) *engine.StateFile { return a.export(t, p) }, jobs.FailRestore, "folder"},
				"not there": {func(t *testing.T) *engine.StateFile {
					f := b.receive(t, a.export(t, p))
					f.Path += "-not"
					return f
				}, jobs.FailRestore, "no such file"},
			} {
				t.Run(name, func(t *testing.T) {
					f := tt.state(t)
					sl := b.acquire(t, p)
					sl.erase(t.Context())
					_, err := sl.Import(t.Context(), p, f)
					if failure(err) != tt.want || !strings.Contains(err.Error(), tt.says) {
						t.Errorf("error %v (%s), want %s that says %q", err, failure(err), tt.want, tt.says)
					}
					if started, err := b.Begin(t.Context()); err != nil {
						t.Error(err)
					} else {
						started()
					}
					got, err := say(t.Context(), sl, p)
					sl.Release()
					if err != nil || got.cached != 0 {
						t.Errorf("after the failure %d tokens were found in the slot (%v), want none", got.cached, err)
					}
					if want := a.cold(t, p).text; b.cold(t, p).text != want {
						t.Errorf("after the failure the prompt is answered otherwise than %q", want)
					}
					handOver(t, a, b, a.prompt(t, 3, 350))
				})
			}
		})
	}
}

// Bytes that were changed on the way are for the digest to find: the server takes them, and only a lucky
// hit shows in the first prediction. Whatever it is, the server must live on.
func TestFlippedBytesDoNotEndTheServer(t *testing.T) {
	a, b := start(t, setup{}), start(t, setup{})
	p := a.prompt(t, 1, 400)
	f := a.export(t, p)
	good, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	caught := 0
	for i := range 40 {
		bad := append([]byte(nil), good...)
		for at := i * len(bad) / 40; at < min(len(bad), i*len(bad)/40+64); at++ {
			bad[at] ^= 0xff
		}
		sl := b.acquire(t, p)
		if _, err := sl.Import(t.Context(), p, b.write(t, f, bad)); err != nil {
			if caught++; failure(err) == "" {
				t.Errorf("64 bytes flipped at %d of 40 parts: %v", i, err)
			}
		}
		sl.Release()
	}
	if caught == 0 {
		t.Error("none of forty damaged files was noticed")
	}
	handOver(t, a, b, a.prompt(t, 2, 350))
}

// A full disk leaves part of a file behind, which must go.
func TestSaveOnAFullDisk(t *testing.T) {
	m := start(t, setup{limit: 64})
	if _, err := m.KVTransfer(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := m.prompt(t, 1, 2000)
	sl := m.acquire(t, p)
	defer sl.Release()
	if _, err := sl.Prefill(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	_, err := sl.Export(t.Context(), p)
	if failure(err) != jobs.FailSave || !strings.Contains(err.Error(), "is there room in "+m.config.Dir) {
		t.Errorf("error %v (%s), want save_failed that asks for room", err, failure(err))
	}
	if left := m.files(t); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
	if s, err := say(t.Context(), sl, p); err != nil || s.computed > 1 {
		t.Errorf("afterwards: %+v, %v; want the prompt still in its slot", s, err)
	}
}

// Another's request in a slot that was prefilled must not be exported as ours.
func TestExportOfASlotThatWasUsed(t *testing.T) {
	m := start(t, setup{})
	p := m.prompt(t, 1, 100)
	for name, other := range map[string]Prompt{"shorter": m.prompt(t, 2, 50), "as long": m.prompt(t, 2, 100)} {
		t.Run(name, func(t *testing.T) {
			sl := m.acquire(t, p)
			defer sl.Release()
			if _, err := sl.Prefill(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			body := completion{Prompt: other.head(), Fields: []string{"stop"}, Placement: Placement{Slot: sl.ID(), CachePrompt: true}}
			if err := m.Call(t.Context(), "/completion", body, &struct{}{}); err != nil {
				t.Fatal(err)
			}
			_, err := sl.Export(t.Context(), p)
			if failure(err) != jobs.FailSave || !strings.Contains(err.Error(), "another request has used it") {
				t.Errorf("error %v (%s), want save_failed", err, failure(err))
			}
			if left := m.files(t); len(left) > 0 {
				t.Errorf("files are left: %q", left)
			}
		})
	}
}

func TestOneTokenHasNoState(t *testing.T) {
	m := start(t, setup{})
	p := m.prompt(t, 1, 1)
	sl := m.acquire(t, p)
	defer sl.Release()
	if done, err := sl.Prefill(t.Context(), p); err != nil || done != (Computed{}) {
		t.Errorf("prefill of one token: %+v, %v", done, err)
	}
	if _, err := sl.Export(t.Context(), p); failure(err) != jobs.FailSave {
		t.Errorf("export of one token: %v", err)
	}
	if _, err := sl.Import(t.Context(), p, &engine.StateFile{}); failure(err) != jobs.FailRestore {
		t.Errorf("import for one token: %v", err)
	}
}

// A server that is gone is no failed hand-over: who called must look for it again.
func TestServerGone(t *testing.T) {
	a, b := start(t, setup{}), start(t, setup{})
	p := a.prompt(t, 1, 300)
	f := b.receive(t, a.export(t, p))
	from, to := a.acquire(t, p), b.acquire(t, p)
	before := a.files(t)
	defer from.Release()
	defer to.Release()
	a.kill(t)
	b.kill(t)
	_, prefilled := from.Prefill(t.Context(), p)
	_, exported := from.Export(t.Context(), p)
	_, imported := to.Import(t.Context(), p, f)
	for i, err := range []error{prefilled, exported, imported} {
		if !Lost(err) || failure(err) != "" || jobs.CodeOf(err) != jobs.CodeEngineUnreachable {
			t.Errorf("%d: %v, want the error of a lost connection", i, err)
		}
	}
	if left := a.files(t); len(left) > len(before) {
		t.Errorf("files are left: %q", left)
	}
	started, err := b.Begin(t.Context())
	if err != nil {
		t.Fatalf("the window of the failed import is open: %v", err)
	}
	started()
}

func TestCancelledImport(t *testing.T) {
	a, b := start(t, setup{}), start(t, setup{})
	p := a.prompt(t, 1, 300)
	f := b.receive(t, a.export(t, p))
	sl := b.acquire(t, p)
	defer sl.Release()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	q := p
	q.Progress = func() { cancel(enough) } // when the state has been read
	if _, err := sl.Import(ctx, q, f); !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause", err)
	}
	if s, err := say(t.Context(), sl, p); err != nil || s.cached > 0 {
		t.Errorf("%d tokens are used of an import that was cancelled (%v)", s.cached, err)
	}
}

func TestKVTransfer(t *testing.T) {
	m := start(t, setup{slots: 2})
	first, err := m.KVTransfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.KVTransfer(t.Context())
	if err != nil || len(first.Fingerprint.Differences(again.Fingerprint, true)) > 0 {
		t.Errorf("asked again: %+v, %v; want %+v", again, err, first)
	}
	p := first.Fingerprint
	if len(p.Model) != 64 || p.Build == "" || p.Format == "" || p.CacheK != "f16" || p.CacheV != "f16" || !p.FlashAttention || p.Streams != 2 || p.Layout == "" || p.Positions == "" {
		t.Errorf("fingerprint %+v", p)
	}
	if first.Dir != m.config.Dir || first.Prefix != "test-" || first.BytesPerToken <= 0 || first.FixedBytes <= 0 {
		t.Errorf("transfer %+v", first)
	}
	if left := m.files(t); len(left) > 0 {
		t.Errorf("the sample is left: %q", left)
	}
	file := filepath.Join(m.config.Dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*Config){
		"--slot-dir":                    func(c *Config) { c.Dir = "" },
		"digest is not known":           func(c *Config) { c.Model = func() string { return "" } },
		"which the worker was told":     func(c *Config) { c.Dir = t.TempDir() },
		"name the folder of its --slot": func(c *Config) { c.Dir = file },
	} {
		c := m.config
		change(&c)
		s, err := Connect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.KVTransfer(t.Context()); failure(err) != jobs.FailNoState || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v (%s), want no_state that says %q", err, failure(err), says)
		}
	}
	c := m.config
	c.Settings = "rope-scale 2"
	s, err := Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if set, err := s.KVTransfer(t.Context()); err != nil || len(set.Fingerprint.Differences(p, true)) != 1 {
		t.Errorf("with another flag for positions: %+v, %v", set, err)
	}
	c.Header = nil
	if s, err = Connect(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if set, err := s.KVTransfer(t.Context()); err != nil || set.BytesPerToken != 0 {
		t.Errorf("without the model's header: %+v, %v", set, err)
	}
}

func TestKVTransferNeedsASlotFolder(t *testing.T) {
	m := start(t, setup{noFolder: true})
	for range 2 {
		_, err := m.KVTransfer(t.Context())
		if failure(err) != jobs.FailNoState || !strings.Contains(err.Error(), "was started without --slot-save-path; start it with --slot-save-path "+m.config.Dir) {
			t.Errorf("error %v (%s)", err, failure(err))
		}
	}
}

// A busy server is asked again.
func TestKVTransferOfABusyServer(t *testing.T) {
	m := start(t, setup{})
	p := m.prompt(t, 1, 10)
	sl := m.acquire(t, p)
	enough := protocol.HandoverErrorf(jobs.FailNoState, "busy")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := m.KVTransfer(ctx); !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause", err)
	}
	sl.Release()
	if _, err := m.KVTransfer(t.Context()); err != nil {
		t.Errorf("when the slot is free: %v", err)
	}
}

// A worker takes no job before it knows the server's states, and a sample that is never saved must not keep it from that.
func TestKVTransferOfAServerThatHangs(t *testing.T) {
	m := start(t, setup{})
	var hung atomic.Bool
	c := m.config
	c.Client = NewClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("action") == "save" && hung.CompareAndSwap(false, true) {
			<-r.Context().Done()
		}
		return http.DefaultTransport.RoundTrip(r)
	})})
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	s, err := Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), saveLimit/2)
	defer cancel()
	if _, err := s.KVTransfer(ctx); failure(err) != jobs.FailNoState || !strings.Contains(err.Error(), "too busy to write a sample state") || ctx.Err() != nil {
		t.Errorf("error %v, and the caller's context: %v", err, ctx.Err())
	}
	if _, err := s.KVTransfer(ctx); err != nil || !hung.Load() {
		t.Errorf("when the server saves: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A file that is being written when its job is cancelled must not be left behind.
func TestCancelledExport(t *testing.T) {
	m := start(t, setup{})
	p := m.prompt(t, 1, 2000)
	sl := m.acquire(t, p)
	defer sl.Release()
	if _, err := sl.Prefill(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	before, cancelBefore := context.WithCancelCause(t.Context())
	cancelBefore(enough)
	q := p
	after, cancelAfter := context.WithCancelCause(t.Context())
	q.Progress = func() { cancelAfter(enough) } // when the state has been written
	for ctx, p := range map[context.Context]Prompt{before: p, after: q} {
		if _, err := sl.Export(ctx, p); !errors.Is(err, enough) {
			t.Errorf("error %v, want the cause", err)
		}
		if left := m.files(t); len(left) > 0 {
			t.Errorf("files are left: %q", left)
		}
	}
	if f, err := sl.Export(t.Context(), p); err != nil || f.Tokens != len(p.Tokens)-1 {
		t.Errorf("afterwards: %+v, %v", f, err)
	}
}
