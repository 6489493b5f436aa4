package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"tandem/internal/standin"
)

// llamaServer is a llama.cpp server with one model.
type llamaServer struct {
	*server
	slotDir string
}

// StartLlamaServer starts a llama-server that keeps its slots' states in files, with a small model in place of the one that is named.
func StartLlamaServer(ctx context.Context, o Options) (Engine, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	if len(o.Models) != 1 {
		return nil, fmt.Errorf("start engine %s: Options.Models has %d names; a llama-server has one model", o.Name, len(o.Models))
	}
	programs, err := standin.Find(ctx, standin.Options{})
	if err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	model, err := standin.ModelFile("", o.spec(o.Models[0]))
	if err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	e := &llamaServer{s, filepath.Join(s.options.Dir, "slots")}
	if err := os.MkdirAll(e.slotDir, 0o700); err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	args, err := e.arguments(ctx, programs.LlamaServer, model)
	if err != nil {
		return nil, fmt.Errorf("start engine %s: %w", o.Name, err)
	}
	s.run = func(ctx context.Context) (process, error) {
		return s.launch(ctx, programs.LlamaServer, args, "/health")
	}
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// oneByOne has llama-server compute one token at a time. Otherwise the shape of a batch, and with it what happens to be cached, changes the last digits, and
// in one or two of a hundred answers a token. So there is one right text, and a wrong one cannot be taken for rounding.
const oneByOne = "--ubatch-size 1"

// arguments are those that make the states of two machines equal, as docs/ARCHITECTURE.md asks of both. Flags that a build does not know are left out.
func (e *llamaServer) arguments(ctx context.Context, program, model string) ([]string, error) {
	cmd := exec.CommandContext(ctx, program, "--help")
	cmd.Env = environment(e.options.Dir)
	help, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its flags: %w", program, err)
	}
	o := e.options
	args := []string{
		"--model", model, "--alias", o.Models[0], "--host", "127.0.0.1", "--port", strconv.Itoa(e.port),
		"--parallel", strconv.Itoa(o.Slots), "--ctx-size", strconv.Itoa(o.NumCtx * o.Slots), // which is divided by the number of slots
		"--threads", "1", "--flash-attn", "on", "--slot-save-path", e.slotDir,
	}
	if !o.Batches {
		args = append(args, strings.Fields(oneByOne)...)
	}
	for _, each := range []string{"--no-kv-unified", "--cache-ram 0", "--no-cache-idle-slots", "--no-context-shift", "--jinja", "--slots", "--metrics", "--no-webui"} {
		flag := strings.Fields(each)
		if bytes.Contains(help, []byte(flag[0])) {
			args = append(args, flag...)
		}
	}
	return args, nil
}

func (e *llamaServer) Flags(url string) []string {
	return append(e.flags("llamacpp", url), "--slot-dir", e.slotDir)
}

// Unload does nothing: a llama-server has its model as long as it runs.
func (e *llamaServer) Unload(context.Context) error { return nil }

// noSampler is how llama-server refuses a format for some tokenizers, before it computes anything.
const noSampler = "Failed to initialize samplers"

// Ask sends the request that a worker would send, to an empty slot and to one that holds all tokens of the prompt but the last.
func (e *llamaServer) Ask(ctx context.Context, job []byte) ([]string, error) {
	q, err := e.read(job)
	if err != nil {
		return nil, err
	}
	texts, err := e.texts(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("ask engine %s: %w", e.Name(), err)
	}
	return distinct(texts), nil
}

func (e *llamaServer) Answer(ctx context.Context, job []byte) (string, error) {
	q, err := e.read(job)
	if err != nil {
		return "", err
	}
	var tokens []int32
	if len(q.Format) > 0 { // else no client would ask for them
		if tokens, err = e.tokens(ctx, q); err != nil {
			return "", fmt.Errorf("ask engine %s: %w", e.Name(), err)
		}
	}
	text, err := e.answer(ctx, q, tokens, true)
	if err != nil {
		return "", fmt.Errorf("ask engine %s: %w", e.Name(), err)
	}
	return text, nil
}

func (e *llamaServer) texts(ctx context.Context, q question) (texts []string, err error) {
	tokens, err := e.tokens(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, cached := range []bool{false, true} {
		if cached {
			head := map[string]any{"prompt": tokens[:len(tokens)-1], "n_predict": 0, "id_slot": 0, "cache_prompt": false}
			if _, err := e.call(ctx, "/completion", head); err != nil {
				return nil, err
			}
		}
		text, err := e.answer(ctx, q, tokens, cached)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// tokens is the prompt as the chat API makes it of a question.
func (e *llamaServer) tokens(ctx context.Context, q question) ([]int32, error) {
	var rendered struct{ Prompt string }
	if err := e.fetch(ctx, "/apply-template", q.llamaChat(), &rendered); err != nil {
		return nil, err
	}
	var cut struct{ Tokens []int32 }
	if err := e.fetch(ctx, "/tokenize", map[string]any{"content": rendered.Prompt, "add_special": true, "parse_special": true}, &cut); err != nil {
		return nil, err
	}
	if len(cut.Tokens) == 0 {
		return nil, errors.New("/tokenize: the prompt has no tokens")
	}
	return cut.Tokens, nil
}

// answer has a question answered by the chat API, or, where that cannot hold the answer to the format, by the one that takes tokens, as a worker does.
func (e *llamaServer) answer(ctx context.Context, q question, tokens []int32, cached bool) (string, error) {
	place := map[string]any{"stream": false, "id_slot": 0, "cache_prompt": cached}
	chat := q.llamaChat()
	maps.Copy(chat, place)
	var a struct{ Choices []struct{ Message turn } }
	err := e.fetch(ctx, "/v1/chat/completions", chat, &a)
	switch {
	case err == nil && len(a.Choices) == 1:
		return a.Choices[0].Message.Content, nil
	case err == nil:
		return "", fmt.Errorf("/v1/chat/completions: %d choices; want 1", len(a.Choices))
	case len(q.Format) == 0 || !strings.Contains(err.Error(), noSampler):
		return "", err
	}
	completion := q.llamaSampling()
	maps.Copy(completion, place)
	completion["prompt"], completion["json_schema"] = tokens, q.schema()
	var c struct{ Content string }
	err = e.fetch(ctx, "/completion", completion, &c)
	return c.Content, err
}

// llamaChat is a question for the chat API.
func (q question) llamaChat() map[string]any {
	body := q.llamaSampling()
	body["messages"], body["reasoning_format"] = q.chat(), "auto"
	switch q.Think {
	case "":
	case "on", "off":
		body["chat_template_kwargs"] = map[string]any{"enable_thinking": q.Think == "on"}
	default:
		body["chat_template_kwargs"] = map[string]any{"enable_thinking": true, "reasoning_effort": q.Think}
	}
	if f := q.Format; len(f) > 0 && f[0] == '"' {
		body["response_format"] = map[string]any{"type": "json_object"}
	} else if len(f) > 0 {
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": f}}
	}
	return body
}

// llamaSampling are a question's options by the names of llama-server, whose seeds have 32 bits.
func (q question) llamaSampling() map[string]any {
	body := map[string]any{}
	for _, name := range samplingOptions {
		v, ok := q.Options[name]
		switch {
		case !ok:
		case name == "num_predict":
			body["n_predict"] = v
		default:
			body[name] = v
		}
	}
	return body
}

// schema is what the format asks for: any object if it is "json".
func (q question) schema() json.RawMessage {
	if len(q.Format) == 0 || q.Format[0] == '"' {
		return json.RawMessage(`{"type":"object"}`)
	}
	return q.Format
}
