package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/internal/jobs"
)

func shared(instructions, own string) engine.Request {
	return engine.Request{Prompt: instructions + own, SharedPrefix: len(instructions)}
}

func TestPrefixKey(t *testing.T) {
	a := engine.PrefixKey(shared("grade this: ", "x <- 1"))
	if len(a) != 16 || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("key %q, want 16 hexadecimal digits", a)
	}
	if b := engine.PrefixKey(shared("grade this: ", "y <- 2")); b != a {
		t.Errorf("keys %s and %s of one prefix", a, b)
	}
	message := func(role jobs.Role, content string) jobs.Message { return jobs.Message{Role: role, Content: content} }
	seen := map[string]string{}
	for name, req := range map[string]engine.Request{
		"prompt":     shared("grade this: ", "x"),
		"other":      shared("grade that: ", "x"),
		"longer":     shared("grade this: x", ""),
		"system":     {System: "s", Prompt: "grade this: x", SharedPrefix: len("grade this: ")},
		"chat":       {Messages: []jobs.Message{message("system", "grade this: "), message("user", "x")}, SharedPrefix: 1},
		"role":       {Messages: []jobs.Message{message("user", "grade this: "), message("user", "x")}, SharedPrefix: 1},
		"whole chat": {Messages: []jobs.Message{message("system", "grade this: "), message("user", "x")}, SharedPrefix: 2},
	} {
		key := engine.PrefixKey(req)
		if as, twice := seen[key]; twice || key == "" {
			t.Errorf("%s has the key %q of %s", name, key, as)
		}
		seen[key] = name
	}
	if key := engine.PrefixKey(engine.Request{Prompt: "x"}); key != "" {
		t.Errorf("key %q of a prompt that shares nothing", key)
	}
	beyond := shared("abc", "")
	beyond.SharedPrefix = 1000
	if engine.PrefixKey(beyond) != engine.PrefixKey(shared("abc", "")) {
		t.Error("a prefix beyond the prompt's end is not the prompt")
	}
}

// A prefix is held as long as some slot has not been used for something else since, and only if the engine found it.
func TestPrefixesHeld(t *testing.T) {
	class := strings.Repeat("instructions ", 100)
	a, b := shared(class, "short"), shared("other "+class, "short")
	keyA, keyB := engine.PrefixKey(a), engine.PrefixKey(b)
	p := engine.NewPrefixes(2)
	held := func(when string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, p.Held()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	held("at first", nil)
	p.Computed(a, 400, 0)
	held("after the first job, which found nothing", nil)
	p.Computed(a, 400, 390)
	held("after the second", map[string]int{keyA: 390})
	p.Computed(b, 400, 0)
	p.Computed(b, 400, 380)
	held("after two of another class", map[string]int{keyB: 380})
	p.Computed(a, 400, 390)
	held("with one of each", map[string]int{keyA: 390, keyB: 380})
	p.Computed(a, 400, -1)
	held("after a hand-over, which took the other's slot", map[string]int{keyA: 390})
	p.Computed(a, 400, 0)
	held("after a miss", nil)
	p.Computed(a, 400, 399)
	if got := p.Held()[keyA]; got < 390 || got > 399 {
		t.Errorf("%d tokens of the prefix after the same request came again, want those of the prefix", got)
	}
	p.Computed(engine.Request{Prompt: "x"}, 1, 0)
	p.Computed(engine.Request{Prompt: "y"}, 1, 0)
	held("after jobs that share nothing", nil)
}

func TestPrefixesHeldAreFew(t *testing.T) {
	p := engine.NewPrefixes(100)
	for i := range 100 {
		p.Computed(shared(strings.Repeat("x", i+1), "y"), 100, 50)
	}
	if n := len(p.Held()); n != 8 {
		t.Errorf("%d prefixes, want 8", n)
	}
}
