package paced

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

// fetch sends a body, or asks with GET if it is nil, and returns the answer's objects: the events of a stream, or one.
func fetch(ctx context.Context, method, url string, body any) (status int, answers []any, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, nil, err
		}
		var one any
		err = json.Unmarshal(data, &one)
		return resp.StatusCode, []any{one}, err
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		event, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is || event == "[DONE]" {
			continue
		}
		var one any
		if err := json.Unmarshal([]byte(event), &one); err != nil {
			return 0, nil, err
		}
		answers = append(answers, one)
	}
	return resp.StatusCode, answers, lines.Err()
}

// The server answers as a real llama-server does: with the same status and in the same form, as far as it says something at all, and with
// the same counts.
func TestAnswersAreLlamaServers(t *testing.T) {
	dir := t.TempDir()
	real := standintest.StartLlamaServer(t, tinymodel.Tiny(tinymodel.BPE), "--parallel", "2", "--ctx-size", "1024", "--no-kv-unified", "--cache-ram", "0", "--slot-save-path", dir, "--slots")
	s := started(t, Options{Fleet: quick(2, false), Machine: "prefill", Context: 512})
	type m = map[string]any
	prompt := func(n int) []int32 { return numbered(0, n, 0) }
	talk := []m{{"role": "user", "content": "Hello."}}
	for _, call := range []struct {
		name, method, path string
		body               m
	}{
		{"health", "GET", "/health", nil},
		{"props", "GET", "/props", nil},
		{"adapters", "GET", "/lora-adapters", nil},
		{"idle slots", "GET", "/slots", nil},
		{"tokens", "POST", "/tokenize", m{"content": "some words", "add_special": true}},
		{"template", "POST", "/apply-template", m{"messages": talk}},
		{"prefill", "POST", "/completion", m{"prompt": prompt(20), "n_predict": 0, "id_slot": 1, "cache_prompt": true, "stream": true, "return_progress": true, "temperature": 0}},
		{"prefill the rest", "POST", "/completion", m{"prompt": prompt(30), "n_predict": 0, "id_slot": 1, "cache_prompt": true, "stream": true, "temperature": 0}},
		{"save", "POST", "/slots/1?action=save", m{"filename": "a.kv"}},
		{"first prediction", "POST", "/completion", m{"prompt": prompt(31), "n_predict": 1, "n_probs": 5, "id_slot": 1, "cache_prompt": true, "temperature": 0}},
		{"the same again", "POST", "/completion", m{"prompt": prompt(31), "n_predict": 1, "id_slot": 1, "cache_prompt": true, "temperature": 0}},
		{"restore", "POST", "/slots/0?action=restore", m{"filename": "a.kv"}},
		{"from a state", "POST", "/completion", m{"prompt": prompt(31), "n_predict": 3, "id_slot": 0, "cache_prompt": true, "stream": true, "temperature": 0, "ignore_eos": true}},
		{"after an answer", "POST", "/slots/0?action=save", m{"filename": "b.kv"}},
		{"without the cache", "POST", "/completion", m{"prompt": prompt(31), "n_predict": 3, "id_slot": 0, "cache_prompt": false, "temperature": 0, "ignore_eos": true}},
		{"chat", "POST", "/v1/chat/completions", m{"messages": talk, "n_predict": 3, "id_slot": 0, "temperature": 0}},
		{"chat stream", "POST", "/v1/chat/completions", m{"messages": talk, "n_predict": 3, "stream": true, "return_progress": true, "temperature": 0}},
		{"erase", "POST", "/slots/1?action=erase", m{}},
		{"erase again", "POST", "/slots/1?action=erase", m{}},
		{"restore what is not there", "POST", "/slots/1?action=restore", m{"filename": "none.kv"}},
		{"a path", "POST", "/slots/1?action=save", m{"filename": "../a.kv"}},
		{"another action", "POST", "/slots/1?action=copy", m{"filename": "a.kv"}},
		{"too long", "POST", "/completion", m{"prompt": prompt(600), "n_predict": 1}},
	} {
		t.Run(call.name, func(t *testing.T) {
			status, want, err := fetch(t.Context(), call.method, real+call.path, call.body)
			if err != nil {
				t.Fatalf("llama-server: %v", err)
			}
			got, answers, err := fetch(t.Context(), call.method, s.URL()+call.path, call.body)
			if err != nil {
				t.Fatal(err)
			}
			if got != status {
				t.Errorf("status %d, llama-server has %d", got, status)
			}
			likeOneOf(t, answers, want)
			if a, b := counts(answers), counts(want); !maps.Equal(a, b) {
				t.Errorf("counts %v, llama-server has %v", a, b)
			}
		})
	}
}

// likeOneOf checks that each value has the form of one of those.
func likeOneOf(t *testing.T, values, those []any) {
	t.Helper()
	for _, v := range values {
		differs := ""
		if !slices.ContainsFunc(those, func(other any) bool { differs = unlike("", v, other); return differs == "" }) {
			t.Errorf("%v is unlike llama-server's %v: %s", v, those, differs)
		}
	}
}

// unlike says where the form of a is not b's: b may have more.
func unlike(at string, a, b any) string {
	if fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) {
		return fmt.Sprintf("%s is %T, not %T", at, a, b)
	}
	switch a := a.(type) {
	case map[string]any:
		for key, v := range a {
			other, has := b.(map[string]any)[key]
			if !has {
				return fmt.Sprintf("%s.%s is not there", at, key)
			}
			if differs := unlike(at+"."+key, v, other); differs != "" {
				return differs
			}
		}
	case []any:
		if others := b.([]any); len(a) > 0 && len(others) > 0 {
			return unlike(at+"[0]", a[0], others[0])
		}
	}
	return ""
}

// counts are the figures of the answers that do not depend on the model, of a list the first one's.
func counts(answers []any) map[string]any {
	names := []string{
		"n_saved", "n_restored", "n_erased", "cache_n", "prompt_n", "predicted_n", "id_slot", "total_slots", "n_ctx", "stop_type", "code", "type", "n_prompt_tokens",
		"is_processing", "stop", "processed",
	}
	found := map[string]any{}
	var look func(v any, chat bool)
	look = func(v any, chat bool) {
		switch v := v.(type) {
		case map[string]any:
			chat = chat || v["choices"] != nil // whose tokens are the tokenizer's
			for name, value := range v {
				_, list := value.([]any) // llama-server repeats the request's stop words
				if slices.Contains(names, name) && !list && !(chat && slices.Contains([]string{"cache_n", "prompt_n", "processed"}, name)) && v["stop"] != false {
					found[name] = value
				}
				look(value, chat)
			}
		case []any:
			for _, each := range v {
				look(each, chat)
			}
		}
	}
	look(answers, false)
	return found
}

// A request that nobody waits for any more gives its slot back, and its answer up.
func TestWhoLeavesEndsTheRequest(t *testing.T) {
	f := quick(1, false)
	f.Machines[0].Decode[0].Value = 10
	s := started(t, Options{Fleet: f, Machine: "prefill"})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := fetch(ctx, "POST", s.URL()+"/completion", map[string]any{"prompt": "answer:1000", "stream": true})
		left <- err
	}()
	busy := func() bool {
		_, answers, err := fetch(t.Context(), "GET", s.URL()+"/slots", nil)
		if err != nil {
			t.Fatal(err)
		}
		return answers[0].([]any)[0].(map[string]any)["is_processing"].(bool)
	}
	until := func(want bool) {
		for deadline := time.Now().Add(10 * time.Second); busy() != want; {
			if time.Now().After(deadline) {
				t.Fatalf("the slot's being busy is not %v within 10 s", want)
			}
		}
	}
	until(true)
	leave()
	if err := <-left; err == nil {
		t.Error("the request ended by itself")
	}
	until(false)
}

func TestPacedOverHTTP(t *testing.T) {
	s := started(t, Options{Fleet: quick(1, false), Machine: "prefill", Slower: true})
	ask := func(method string, body any) (int, []any) {
		t.Helper()
		status, answers, err := fetch(t.Context(), method, s.URL()+"/paced", body)
		if err != nil {
			t.Fatal(err)
		}
		return status, answers
	}
	for body, want := range map[string]int{`{"slower": 3}`: 200, `{"slower": 0}`: 400, `{}`: 400} {
		if status, answers := ask("POST", json.RawMessage(body)); status != want {
			t.Errorf("%s: status %d, %v; want %d", body, status, answers, want)
		}
	}
	if _, _, err := fetch(t.Context(), "POST", s.URL()+"/completion", map[string]any{"prompt": "answer:2"}); err != nil {
		t.Fatal(err)
	}
	_, answers := ask("GET", nil)
	spans := answers[0].(map[string]any)["slots"].([]any)[0].([]any)
	if len(spans) != 2 || spans[1].(map[string]any)["kind"] != "decode" {
		t.Errorf("timeline %v", answers)
	}
	ask("DELETE", nil)
	if _, answers := ask("GET", nil); len(answers[0].(map[string]any)["slots"].([]any)[0].([]any)) != 0 {
		t.Errorf("timeline %v after it was forgotten", answers)
	}
}

func TestStartRefuses(t *testing.T) {
	f := quick(1, false)
	for name, o := range map[string]Options{
		"no such machine": {Fleet: f, Machine: "cray", Dir: t.TempDir()},
		"no folder":       {Fleet: f, Machine: "prefill", Dir: "/nowhere/at/all"},
		"relative folder": {Fleet: f, Machine: "prefill", Dir: "slots"},
		"time backwards":  {Fleet: f, Machine: "prefill", Dir: t.TempDir(), TimeScale: -1},
	} {
		if s, err := Start("127.0.0.1:0", o); err == nil {
			s.Close()
			t.Errorf("%s: started", name)
		}
	}
}
