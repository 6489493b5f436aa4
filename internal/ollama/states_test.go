package ollama_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/engine/enginetest"
	"tandem/internal/gguf"
	"tandem/internal/ollama"
	"tandem/internal/shim"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// machine is an Ollama with the shim.
type machine struct{ *standin.Ollama }

func startMachine(t testing.TB, slots int, models map[string]tinymodel.Spec) machine {
	t.Helper()
	return machine{standintest.StartOllama(t, standin.OllamaOptions{Models: models, NumParallel: slots})}
}

// engine returns an engine for one of its models.
func (m machine) engine(t testing.TB, model string) *ollama.Engine {
	t.Helper()
	return m.engineAt(t, m.URL(), model)
}

// engineAt returns an engine that reaches the machine's Ollama at another address.
func (m machine) engineAt(t testing.TB, url, model string) *ollama.Engine {
	t.Helper()
	return newEngine(t, ollama.Options{URL: url, Model: model, RunDir: m.RunDir(), StatePrefix: "test-"})
}

// child is the only llama-server that the machine's Ollama runs.
func (m machine) child(t testing.TB) shim.Record {
	t.Helper()
	list, err := shim.LiveAll(m.RunDir())
	if err != nil || len(list) != 1 {
		t.Fatalf("%d llama-servers (%v), want 1", len(list), err)
	}
	return list[0]
}

// export prefills a request and moves its state to another machine.
func export(t testing.TB, from engine.Engine, to machine, req engine.Request) engine.Prefilled {
	t.Helper()
	req.Export = true
	p, err := from.Prefill(t.Context(), req)
	if err != nil || p.Kind != jobs.KindState || p.State == nil {
		t.Fatalf("Prefill: %s, %s %q, %v; want a state", p.Kind, p.Failure, p.Note, err)
	}
	path := filepath.Join(to.SlotDir(), "moved-"+filepath.Base(p.State.Path))
	data, err := os.ReadFile(p.State.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	os.Remove(p.State.Path)
	t.Cleanup(func() { os.Remove(path) })
	p.State.Path = path
	return p
}

// used checks that the state of a completion was used.
func used(t testing.TB, c engine.Completion, err error, p engine.Prefilled) {
	t.Helper()
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if c.Imported == nil || c.PromptTokens != p.PromptTokens || len(c.Warnings) > 0 {
		t.Errorf("%d of %d prompt tokens cached, warnings %q, imported %+v; the state was of %d", c.CachedTokens, c.PromptTokens, c.Warnings, c.Imported, p.State.Tokens)
	}
}

// window is the sliding window of a model, 0 without.
func window(t testing.TB, spec tinymodel.Spec) int {
	t.Helper()
	h, err := gguf.Read(standintest.ModelFile(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	return h.WindowTokens
}

// TestStates holds two Ollamas, as on two machines, to what a hand-over of KV states promises. TestReal does
// so with the other shapes and slots, and test/engines with all.
func TestStates(t *testing.T) {
	for slots, shapes := range map[int][]tinymodel.Shape{1: {tinymodel.Llama, tinymodel.GraniteHybrid}, 4: {tinymodel.Qwen3MoE, tinymodel.GPTOSS}} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			models := map[string]tinymodel.Spec{}
			for _, shape := range shapes {
				models[string(shape)+":1b"] = tinymodel.TinyShape(shape, tinymodel.BPE)
			}
			there, here := startMachine(t, slots, models), startMachine(t, slots, models)
			for model, spec := range models {
				t.Run(model, func(t *testing.T) {
					enginetest.Handover(t, enginetest.Pair{
						Prefill: there.engine(t, model), Decode: here.engine(t, model), Slots: slots, Tokens: []int{64, 500, 2000}, Window: window(t, spec),
					})
				})
			}
		})
	}
}

// TestClassOfChats: what the chats of a class begin with is computed once, also where a cache can be used
// again only from where a computation ended.
func TestClassOfChats(t *testing.T) {
	specs := map[string]tinymodel.Spec{
		"window:1b":    tinymodel.TinyShape(tinymodel.GPTOSS, tinymodel.SentencePiece),
		"recurrent:1b": tinymodel.TinyShape(tinymodel.GraniteHybrid, tinymodel.BPE),
	}
	m := startMachine(t, 1, specs)
	for model := range specs {
		t.Run(model, func(t *testing.T) {
			e := m.engine(t, model)
			const students = 6
			sum, shared, own := 0, 0, 0
			for i := range students {
				req := greedy("", 8)
				req.Messages = []jobs.Message{
					{Role: jobs.RoleSystem, Content: "Grade by this rubric."}, {Role: jobs.RoleUser, Content: lines("The solution", 40)},
					{Role: jobs.RoleAssistant, Content: "I have read it."}, {Role: jobs.RoleUser, Content: lines(fmt.Sprintf("%d is the student's number", i), 8)},
				}
				req.SharedPrefix, req.Export = 3, true
				estimate, err := e.Estimate(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				p, err := e.Prefill(t.Context(), req)
				if err != nil || p.State == nil {
					t.Fatalf("Prefill: %+v, %v", p, err)
				}
				os.Remove(p.State.Path)
				sum += p.ComputedTokens
				if i == 0 {
					begin := req
					begin.Messages, begin.SharedPrefix = req.Messages[:3], 0
					whole, err := e.Estimate(t.Context(), begin)
					if err != nil {
						t.Fatal(err)
					}
					shared, own = whole.PromptTokens, p.PromptTokens-whole.PromptTokens
				}
				if off := estimate.PromptTokens - estimate.CachedTokens - p.ComputedTokens; estimate.PromptTokens != p.PromptTokens || off < -16 || off > 16 {
					t.Errorf("student %d: estimated %d tokens of %d cached; %d of %d were computed", i, estimate.CachedTokens, estimate.PromptTokens, p.ComputedTokens, p.PromptTokens)
				}
			}
			if limit := float64(shared+students*own) * 1.1; float64(sum) > limit {
				t.Errorf("%d tokens computed for %d chats with %d shared and %d own tokens; want at most %.0f", sum, students, shared, own, limit)
			}
		})
	}
}

// TestTemplates: the tokens of the state are those that Ollama sends, whichever way it makes the prompt:
// by a template, by the Jinja template in the model's file, with a system prompt of the model's own, with thinking
// on and off, with a format (for which a thinking model is asked twice).
func TestTemplates(t *testing.T) {
	there, here := startMachine(t, 1, standin.Models()), startMachine(t, 1, standin.Models())
	variants := map[string]map[string]any{
		"thinker:1b": {"from": standin.CodeModel, "template": thinkTemplate},
		"system:1b":  {"from": standin.FeedbackModel, "system": "You are a patient tutor."},
		"harmony:1b": {"from": standin.CodeModel, "template": harmonyTemplate, "parser": "harmony"},
	}
	for _, m := range []machine{there, here} {
		for name, v := range variants {
			v["model"] = name
			create(t, m.URL(), v)
		}
		var digest string
		for _, model := range []string{standin.CodeModel} {
			_, _, answer := ask(t, m.URL()+"/api/show", fmt.Sprintf(`{"model": %q}`, model))
			_, after, _ := strings.Cut(string(answer), "sha256-")
			digest = after[:64]
		}
		create(t, m.URL(), map[string]any{"model": "native:1b", "files": map[string]string{"m.gguf": "sha256:" + digest}})
	}
	chat := greedy("", 16)
	chat.Messages = []jobs.Message{{Role: jobs.RoleSystem, Content: "Answer briefly."}, {Role: jobs.RoleUser, Content: "  What does group_by do?  "}}
	long := chat
	long.Messages = append(long.Messages, jobs.Message{Role: jobs.RoleAssistant, Content: "It splits."}, jobs.Message{Role: jobs.RoleUser, Content: "And ungroup?"})
	system := greedy("What is a median?", 16)
	system.System = "Answer only in rhymes."
	with := func(r engine.Request, change func(*engine.Request)) engine.Request { change(&r); return r }
	format := json.RawMessage(`{"type": "object", "properties": {"points": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["points"]}`)
	for name, req := range map[string]engine.Request{
		"generate": greedy("What is a median?", 16), "chat": chat, "long chat": long, "system": system,
		"format":      with(greedy("As JSON.", 40), func(r *engine.Request) { r.Format = format }),
		"chat format": with(chat, func(r *engine.Request) { r.Format = format; r.Options.NumPredict = new(40) }),
		"think":       with(system, func(r *engine.Request) { r.Think = jobs.ThinkOn }),
		"think, generate, format": with(system, func(r *engine.Request) {
			r.Think, r.Format, r.Options.NumPredict = jobs.ThinkLow, format, new(40)
		}),
		"no think":   with(system, func(r *engine.Request) { r.Think = jobs.ThinkOff }),
		"chat think": with(chat, func(r *engine.Request) { r.Think = jobs.ThinkOn }),
		"think, format": with(chat, func(r *engine.Request) {
			r.Think, r.Format, r.Options.NumPredict = jobs.ThinkOn, format, new(40)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, model := range []string{standin.CodeModel, standin.FeedbackModel, "thinker:1b", "system:1b", "native:1b", "harmony:1b"} {
				if strings.Contains(name, "think") != (model == "thinker:1b" || model == "harmony:1b") {
					continue
				}
				a, b := there.engine(t, model), here.engine(t, model)
				p := export(t, a, here, req)
				want, err := a.Generate(t.Context(), req, discard)
				if err != nil {
					t.Fatalf("%s: %v", model, err)
				}
				if want.Text == "" && want.FinishReason == "stop" {
					t.Errorf("%s: it ended without a text, after thinking %q: the format must not hold what is thought", model, want.Thinking)
				}
				if want.PromptTokens != p.PromptTokens {
					t.Errorf("%s: Ollama's prompt has %d tokens, the state's %d", model, want.PromptTokens, p.PromptTokens)
				}
				c, err := b.Decode(t.Context(), req, p, discard)
				used(t, c, err, p)
				if c.Text != want.Text || c.Thinking != want.Thinking || c.FinishReason != want.FinishReason {
					t.Errorf("%s: %q %q %s, want %q %q %s", model, c.Text, c.Thinking, c.FinishReason, want.Text, want.Thinking, want.FinishReason)
				}
			}
		})
	}
}

// harmonyTemplate is the bare frame of gpt-oss's.
const harmonyTemplate = `{{ range .Messages }}<|start|>{{ .Role }}<|message|>{{ .Content }}<|end|>{{ end }}<|start|>assistant`

// TestMixed: states are used while other requests run on the same server, for which it chooses the
// slots itself.
func TestMixed(t *testing.T) {
	const slots, jobsEach = 4, 6
	models := map[string]tinymodel.Spec{"m": tinymodel.Tiny(tinymodel.BPE)}
	there, here := startMachine(t, slots, models), startMachine(t, slots, models)
	a, b := there.engine(t, "m"), here.engine(t, "m")
	var work sync.WaitGroup
	free := make(chan struct{}, slots)
	run := func(do func()) {
		work.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			do()
		})
	}
	for i := range jobsEach {
		req := greedy(fmt.Sprintf("Student %d wrote:\n%s", i, strings.Repeat("total <- sum(price * quantity)\n", 12+i)), 40)
		p := export(t, a, here, req)
		want, err := a.Generate(t.Context(), req, discard)
		if err != nil {
			t.Fatal(err)
		}
		run(func() {
			c, err := b.Decode(t.Context(), req, p, discard)
			used(t, c, err, p)
			if c.Text != want.Text {
				t.Errorf("job %d: %q, want %q", i, c.Text, want.Text)
			}
		})
		run(func() {
			if _, err := b.Generate(t.Context(), greedy(fmt.Sprintf("%d other things", i), 40), discard); err != nil {
				t.Errorf("beside it: %v", err)
			}
		})
	}
	work.Wait()
}
