package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/engine"
	"tandem/jobs"
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

// A prefix is held as long as some slot has not been used for something else since, and only if the engine found it; in as many slots as jobs
// had it at once.
func TestPrefixesHeld(t *testing.T) {
	class := strings.Repeat("instructions ", 100)
	a, b, none := shared(class, "short"), shared("other "+class, "short"), engine.Request{Prompt: "x"}
	keyA, keyB := engine.PrefixKey(a), engine.PrefixKey(b)
	p := engine.NewPrefixes(3)
	job := func(r engine.Request, busy, found int) {
		p.Begins(engine.PrefixKey(r), busy)
		p.Computed(r, 400, found)
	}
	held := func(when string, want, wantSlots map[string]int) {
		t.Helper()
		tokens, slots := p.Held()
		if diff := cmp.Diff([]map[string]int{want, wantSlots}, []map[string]int{tokens, slots}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	held("at first", nil, nil)
	job(a, 1, 0)
	held("after the first job, which found nothing", nil, nil)
	job(a, 1, 390)
	held("after the second", map[string]int{keyA: 390}, map[string]int{keyA: 1})
	job(b, 1, 0)
	job(b, 1, 380)
	held("after two of another class", map[string]int{keyA: 390, keyB: 380}, map[string]int{keyA: 1, keyB: 1})
	job(a, 2, 390)
	held("after two at once", map[string]int{keyA: 390, keyB: 380}, map[string]int{keyA: 2, keyB: 1})
	job(a, 3, -1)
	held("after a hand-over into the slot of another class", map[string]int{keyA: 390}, map[string]int{keyA: 3})
	job(a, 1, 0)
	held("after a miss", nil, nil)
	job(a, 1, 399)
	if tokens, _ := p.Held(); tokens[keyA] < 390 || tokens[keyA] > 399 {
		t.Errorf("%d tokens of the prefix after the same request came again, want those of the prefix", tokens[keyA])
	}
	job(none, 1, 0)
	job(none, 1, 0)
	if _, slots := p.Held(); slots[keyA] != 1 {
		t.Errorf("%d slots have it after two jobs that share nothing, want 1", slots[keyA])
	}
	job(none, 1, 0)
	held("after a third", nil, nil)
}

func TestPrefixesHeldAreFew(t *testing.T) {
	p := engine.NewPrefixes(100)
	for i := range 100 {
		r := shared(strings.Repeat("x", i+1), "y")
		p.Begins(engine.PrefixKey(r), 1)
		p.Computed(r, 100, 50)
	}
	if tokens, slots := p.Held(); len(tokens) != 8 || len(slots) != 8 {
		t.Errorf("%d prefixes in %d slots, want 8 in 8", len(tokens), len(slots))
	}
}
