package engine

import (
	"encoding/json"
	"fmt"
	"strings"

	"tandem/jobs"
)

// ToolCallDelta is a piece of a call as servers that speak the OpenAI API stream it.
type ToolCallDelta struct {
	Index    int `json:"index"` // of the call in the answer
	Function struct {
		Name      string `json:"name"`      // in the first piece
		Arguments string `json:"arguments"` // to append to those before
	} `json:"function"`
}

// ToolCalls puts calls together. One that is no call, since its arguments are cut off for example, is a warning.
type ToolCalls struct {
	Warnings  []string
	name      string
	index     int
	arguments strings.Builder
}

// Add takes a piece. It returns the call that came before, if the piece begins another.
func (t *ToolCalls) Add(d ToolCallDelta) (before []jobs.ToolCall) {
	if d.Index != t.index {
		before = t.End()
	}
	t.index = d.Index
	t.name += d.Function.Name
	t.arguments.WriteString(d.Function.Arguments)
	return before
}

// Bytes is how long the call is that is being put together.
func (t *ToolCalls) Bytes() int { return len(t.name) + t.arguments.Len() }

// End returns the last call, if there is one.
func (t *ToolCalls) End() []jobs.ToolCall {
	if t.name == "" {
		return nil
	}
	call := jobs.ToolCall{Name: t.name, Arguments: json.RawMessage(t.arguments.String())}
	if strings.TrimSpace(t.arguments.String()) == "" { // of a function that has none
		call.Arguments = json.RawMessage("{}")
	}
	t.name = ""
	t.arguments.Reset()
	if err := call.Validate(); err != nil {
		t.Warnings = append(t.Warnings, fmt.Sprintf("the model began to call %.60q, and what it wrote is no call", call.Name))
		return nil
	}
	return []jobs.ToolCall{call}
}
