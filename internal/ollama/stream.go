package ollama

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

const (
	maxLine   = 4 << 20  // bytes of one line; the last one holds the whole context
	maxAnswer = 64 << 20 // bytes of a whole answer
	// repeatLimit is how many equal pieces in a row Ollama takes for a model that has lost its way: it then ends
	// the answer without marking it as done.
	repeatLimit = 30
)

// answer is one line of what /api/generate and /api/chat stream. Only the last one, with Done set,
// has the fields below it; Ollama leaves out those that are zero.
type answer struct {
	Response string `json:"response"` // of /api/generate
	Thinking string `json:"thinking"` // likewise
	Message  struct {
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []toolCall `json:"tool_calls"`
	} `json:"message"` // of /api/chat
	Logprobs []engine.TokenLogprob `json:"logprobs"`
	Error    string                `json:"error"`
	Done     bool                  `json:"done"`

	DoneReason         string        `json:"done_reason"`
	Context            []int         `json:"context"`                  // of /api/generate
	PromptEvalCount    int           `json:"prompt_eval_count"`        // whole prompt
	PromptEvalCached   *int          `json:"prompt_eval_cached_count"` // of those, found in the cache; absent before 0.34
	PromptEvalDuration time.Duration `json:"prompt_eval_duration"`     // of those computed
	EvalCount          int           `json:"eval_count"`
	EvalDuration       time.Duration `json:"eval_duration"`
}

// text returns the text and the thinking of a line, whichever API it came from.
func (a answer) text() (text, thinking string) {
	return a.Response + a.Message.Content, a.Thinking + a.Message.Thinking
}

// calls are those of a line, each whole.
func (a answer) calls() (list []jobs.ToolCall) {
	for _, call := range a.Message.ToolCalls {
		list = append(list, jobs.ToolCall{Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return list
}

// cached is the part of the prompt found in the cache; an older Ollama does not say, and then
// everything counts as computed.
func (a answer) cached() int {
	if a.PromptEvalCached == nil {
		return 0
	}
	return *a.PromptEvalCached
}

// check reports an end that no generation can have.
func (a answer) check() error {
	switch {
	case a.PromptEvalCount < 0 || a.EvalCount < 0 || a.cached() < 0 || a.cached() > a.PromptEvalCount:
		return jobs.Errorf(jobs.CodeEngineFailed, "Ollama's counts are impossible: %d prompt tokens, %d of them cached, %d generated", a.PromptEvalCount, a.cached(), a.EvalCount)
	case a.PromptEvalDuration < 0 || a.EvalDuration < 0:
		return jobs.Errorf(jobs.CodeEngineFailed, "Ollama's durations are impossible: %v and %v", a.PromptEvalDuration, a.EvalDuration)
	}
	return nil
}

// readStream reads NDJSON lines, hands each to the function, and returns the one that is marked as
// done. An error line, an end without that mark, and anything that is not such a line are errors.
func readStream(r io.Reader, each func(answer)) (answer, error) {
	limited := &io.LimitedReader{R: r, N: maxAnswer}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 4096), maxLine)
	var last string
	repeats := 0
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			if lines.Err() != nil || limited.N <= 0 {
				break // the rest of the line was lost
			}
			return answer{}, fmt.Errorf("line %d of the answer: %w", n, errNotOllama)
		}
		if a.Error != "" {
			return answer{}, readRefusal(200, lines.Bytes())
		}
		each(a)
		if a.Done {
			return a, a.check()
		}
		text, thinking := a.text()
		if piece := strings.TrimSpace(text + thinking); piece == last {
			repeats++
		} else {
			last, repeats = piece, 0
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong), limited.N <= 0:
		return answer{}, jobs.Errorf(jobs.CodeEngineFailed, "Ollama's answer is too long: more than %d bytes in a line or %d in all", maxLine, maxAnswer)
	case err != nil:
		return answer{}, err
	case repeats >= repeatLimit-1:
		return answer{}, jobs.Errorf(jobs.CodeEngineFailed, "Ollama ended the answer, since the model repeated itself (%d equal pieces): raise repeat_penalty or temperature", repeats+1)
	}
	return answer{}, errors.New("the answer ended without its mark of completion")
}
