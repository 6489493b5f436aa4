package llamacpp

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/slots"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

func TestDescribeSaysWhetherStatesMove(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		engine *Engine
		says   string // why not; empty if they do
	}{
		"supervised":                  {supervised(t, Options{NumCtx: 512, StateDir: dir, StatePrefix: "p-", Slots: 2}), ""},
		"supervised without a folder": {supervised(t, Options{NumCtx: 512}), "--slot-dir"},
		"attached":                    {attach(t, Options{SlotDir: dir, StatePrefix: "p-"}, "--slot-save-path", dir), ""},
		"attached without a folder":   {attach(t, Options{SlotDir: dir}), "start it with --slot-save-path " + dir},
		"attached, folder not named":  {attach(t, Options{}, "--slot-save-path", dir), "--slot-dir"},
		"attached, folder misnamed":   {attach(t, Options{SlotDir: t.TempDir()}, "--slot-save-path", dir), "name the folder of its --slot-save-path"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := tt.engine.Describe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := ask(prose(1, 100), 4)
			r.Export = true
			p, err := tt.engine.Prefill(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if tt.says != "" {
				if d.KVTransfer != nil || !strings.Contains(d.NoKVTransfer, tt.says) || len(d.Handover) != 1 || d.Handover[0] != jobs.KindNone {
					t.Errorf("mover %+v, hand-over %v, reason %q; want one that says %q", d.KVTransfer, d.Handover, d.NoKVTransfer, tt.says)
				}
				if p.Kind != jobs.KindNone || p.State != nil || p.Failure == "" || p.Note == "" || p.ComputedTokens == 0 {
					t.Errorf("prefill hands over %+v, want nothing, and why", p)
				}
				return
			}
			if m := d.KVTransfer; m == nil || d.NoKVTransfer != "" || m.Prefix != "p-" || len(d.Handover) != 2 || d.Handover[0] != jobs.KindState {
				t.Fatalf("mover %+v (%s), hand-over %v", d.KVTransfer, d.NoKVTransfer, d.Handover)
			}
			if info, err := os.Stat(d.KVTransfer.Dir); err != nil || info.Mode().Perm() != 0o700 && name == "supervised" {
				t.Errorf("folder %s: %v, %v", d.KVTransfer.Dir, info.Mode(), err)
			}
			if p.Kind != jobs.KindState || p.State == nil || p.Failure != "" || len(p.State.Fingerprint.Differences(d.KVTransfer.Fingerprint, true)) > 0 {
				t.Fatalf("prefill hands over %+v", p)
			}
			if filepath.Dir(p.State.Path) != d.KVTransfer.Dir || !strings.HasPrefix(filepath.Base(p.State.Path), "p-") {
				t.Errorf("the state is at %s", p.State.Path)
			}
		})
	}
}

// A server that died while it was prefilling or decoding is not to be held against the hand-over, and
// its successor moves states again.
func TestStatesMoveAgainAfterARestart(t *testing.T) {
	e := supervised(t, Options{NumCtx: 2048, StateDir: t.TempDir()})
	r := ask(prose(1, 200), 8)
	r.Export = true
	if _, err := e.Prefill(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	first := pidOf(e)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the death was noticed", func() bool { return pidOf(e) != first })
	if err := e.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := e.Prefill(t.Context(), r) // the first call for the new server
	if err != nil || p.State == nil || p.CachedTokens != 0 {
		t.Fatalf("after the restart: %+v, %v", p, err)
	}
	c, err := e.Decode(t.Context(), r, p, ignore)
	if err != nil || c.Imported == nil || c.ComputedTokens != 1 {
		t.Errorf("decoded: %+v, %v", c, err)
	}
}

// An answer for which the state was not used after all is as good as any, but says so.
func TestStateThatIsNotUsedIsSeen(t *testing.T) {
	s, err := supervised(t, Options{NumCtx: 256}).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &call{server: s, prompt: slots.Prompt{Tokens: make([]int32, 10)}, imported: &engine.Imported{Tokens: 9}}
	for cached, warnings := range map[int]int{9: 0, 8: 1, 0: 1} {
		var a answer
		a.took.Cached, a.took.Computed = cached, 10-cached
		c.account(&a)
		if used := a.Imported != nil; used != (warnings == 0) || len(a.Warnings) != warnings {
			t.Errorf("%d of 10 tokens cached: imported %v, warnings %q", cached, a.Imported, a.Warnings)
		}
	}
}

func TestEstimate(t *testing.T) {
	for _, shape := range []tinymodel.Shape{tinymodel.Llama, tinymodel.GPTOSS} {
		t.Run(string(shape), func(t *testing.T) {
			e := supervised(t, Options{NumCtx: 4096, Slots: 2, ModelFile: modelOf(t, tinymodel.TinyShape(shape, tinymodel.BPE))})
			rubric := prose(1, 400)
			r := ask(rubric+prose(2, 100), 4)
			r.SharedPrefix = len(rubric)
			before, err := e.Estimate(t.Context(), r)
			if err != nil || before.PromptTokens < 400 || before.CachedTokens != 0 {
				t.Errorf("cold: %+v, %v", before, err)
			}
			p, err := e.Prefill(t.Context(), r)
			if err != nil || p.PromptTokens != before.PromptTokens {
				t.Fatalf("prefill %+v, %v", p, err)
			}
			if same, err := e.Estimate(t.Context(), r); err != nil || same.CachedTokens != before.PromptTokens-1 {
				t.Errorf("the same again: %+v, %v", same, err)
			}
			r.Prompt = rubric + prose(3, 100)
			next, err := e.Estimate(t.Context(), r)
			if err != nil || next.CachedTokens < next.PromptTokens/2 || next.CachedTokens > next.PromptTokens*9/10 {
				t.Errorf("another of the class: %+v, %v", next, err)
			}
			p, err = e.Prefill(t.Context(), r)
			if off := p.CachedTokens - next.CachedTokens; err != nil || off > 8 || off < -8 {
				t.Errorf("%d tokens were thought to be cached, and %d were (%v)", next.CachedTokens, p.CachedTokens, err)
			}
		})
	}
}

// The shared part ends where the rendered text of all that is not shared begins.
func TestSharedPart(t *testing.T) {
	e := supervised(t, Options{NumCtx: 4096})
	rubric := prose(1, 200)
	long := ask(rubric+prose(2, 50), 1)
	talk := ask("", 1)
	talk.Messages = []jobs.Message{{Role: jobs.RoleUser, Content: rubric}, {Role: jobs.RoleAssistant, Content: "Yes."}, {Role: jobs.RoleUser, Content: prose(3, 50)}}
	for name, tt := range map[string]struct {
		req    engine.Request
		prefix int
		least  int // tokens
		most   int
	}{
		"nothing":            {long, 0, 0, 0},
		"negative":           {long, -1, 0, 0},
		"bytes":              {long, len(rubric), 200, 230},
		"all":                {long, len(long.Prompt), 0, 0},
		"more than there is": {long, len(long.Prompt) + 7, 0, 0},
		"messages":           {talk, 1, 200, 230},
		"two messages":       {talk, 2, 205, 240},
		"all messages":       {talk, 3, 0, 0},
	} {
		tt.req.SharedPrefix = tt.prefix
		c, err := e.read(t.Context(), tt.req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := c.prompt.Shared; n < tt.least || n > tt.most {
			t.Errorf("%s: %d of %d tokens are shared, want %d to %d", name, n, len(c.prompt.Tokens), tt.least, tt.most)
		}
	}
	// In mid-character, and where the next text grows together with it.
	word := ask("größere größere", 1)
	for n := range len(word.Prompt) {
		word.SharedPrefix = n
		c, err := e.read(t.Context(), word)
		if err != nil || c.prompt.Shared >= len(c.prompt.Tokens) {
			t.Errorf("%d bytes shared: %d tokens of %d, %v", n, c.prompt.Shared, len(c.prompt.Tokens), err)
		}
	}
}
