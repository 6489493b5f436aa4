package enginetest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tandem/internal/engine"
	"tandem/jobs"
)

// addTool is the function that the caller calls, with 2 and 3.
const addTool = `{"type": "function", "function": {"name": "add", "description": "Adds two numbers.",
	"parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}`

// tools: the model is told of functions, its calls come back as such, and what came of them goes to it.
func (s *suite) tools(t *testing.T) {
	if s.Caller == nil {
		return // Run has said why
	}
	if err := s.Caller.Load(patient(t)); err != nil {
		t.Fatal(err)
	}
	d, err := s.Caller.Describe(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Capabilities != nil && !slices.Contains(d.Capabilities, jobs.CanTools) {
		t.Errorf("capabilities are %q, want tools among them", d.Capabilities)
	}
	req := greedy("What are two and three?", 64)
	req.Prompt, req.Messages = "", []jobs.Message{{Role: jobs.RoleUser, Content: req.Prompt}}
	plain := s.complete(t, req, s.Caller.Generate)
	if !strings.Contains(plain.Text, `"add"`) || plain.ToolCalls != nil {
		t.Errorf("without tools: text %q, calls %s; want a text", plain.Text, plain.ToolCalls)
	}
	req.Tools = []json.RawMessage{[]byte(addTool)}
	called := func(what string, c engine.Completion) {
		t.Helper()
		var arguments map[string]int
		if len(c.ToolCalls) != 1 || c.ToolCalls[0].Name != "add" || json.Unmarshal(c.ToolCalls[0].Arguments, &arguments) != nil || !reflect.DeepEqual(arguments, map[string]int{"a": 2, "b": 3}) {
			t.Errorf("%s: calls %s, want one of add with 2 and 3", what, c.ToolCalls)
		}
		if strings.TrimSpace(c.Text) != "" || c.FinishReason != "stop" || len(c.Warnings) > 0 {
			t.Errorf("%s: text %q, reason %q, warnings %q", what, c.Text, c.FinishReason, c.Warnings)
		}
		if c.PromptTokens <= plain.PromptTokens {
			t.Errorf("%s: the prompt has %d tokens, and without tools %d", what, c.PromptTokens, plain.PromptTokens)
		}
	}
	c := s.complete(t, req, s.Caller.Generate)
	called("tools", c)

	export := req
	export.Export = d.KVTransfer != nil
	p, err := s.Caller.Prefill(patient(t), export)
	if err != nil || p.PromptTokens != c.PromptTokens || export.Export != (p.State != nil) {
		t.Fatalf("Prefill with tools: %d tokens, want %d; state %v; %s, %v", p.PromptTokens, c.PromptTokens, p.State, p.Note, err)
	}
	var got emitted
	if c, err = s.Caller.Decode(patient(t), req, p, got.emit); err != nil {
		t.Fatal(err)
	}
	got.check(t, c)
	called("handed over", c)
	if export.Export && c.Imported == nil {
		t.Error("a KV state of a prompt with tools was not used")
	}

	short := req
	short.Options.NumPredict = new(4)
	if c := s.complete(t, short, s.Caller.Generate); c.ToolCalls != nil || c.FinishReason != "length" {
		t.Errorf("a call that is cut off: calls %s, reason %q; want none, and length", c.ToolCalls, c.FinishReason)
	}
	none := req
	none.ToolChoice = jobs.ToolsNone
	if c := s.complete(t, none, s.Caller.Generate); c.ToolCalls != nil {
		t.Errorf("tool_choice none: calls %s", c.ToolCalls)
	}
	req.Messages = append(req.Messages,
		jobs.Message{Role: jobs.RoleAssistant, ToolCalls: []jobs.ToolCall{{ID: "c1", Name: "add", Arguments: json.RawMessage(`{"a":2,"b":3}`)}}},
		jobs.Message{Role: jobs.RoleTool, Content: "5", ToolName: "add", ToolCallID: "c1"})
	if after := s.complete(t, req, s.Caller.Generate); after.PromptTokens <= c.PromptTokens {
		t.Errorf("with what came of the call the prompt has %d tokens, and before %d", after.PromptTokens, c.PromptTokens)
	}
	req = greedy("What are two and three?", 8)
	req.Tools = []json.RawMessage{[]byte(addTool)}
	if about, err := s.Engine.Describe(patient(t)); err != nil {
		t.Fatal(err)
	} else if about.Capabilities != nil && !slices.Contains(about.Capabilities, jobs.CanTools) {
		_, err := s.Engine.Generate(patient(t), req, discard)
		if CheckError(t, err); jobs.CodeOf(err) != jobs.CodeEngineRefused || !strings.Contains(err.Error(), "tools") {
			t.Errorf("a model without tools: %v (%s), want %s that names tools", err, jobs.CodeOf(err), jobs.CodeEngineRefused)
		}
	}
}
