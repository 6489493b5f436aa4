package jobs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const protocolPage = "../docs/PROTOCOL.md"

// The records shown in the protocol's description are valid.
func TestProtocolExamples(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	decode := map[string]func([]byte) error{
		"job":      func(b []byte) error { _, err := Decode[Job](b); return err },
		"handover": func(b []byte) error { _, err := Decode[Handover](b); return err },
		"result":   func(b []byte) error { _, err := Decode[Result](b); return err },
		"chunk":    func(b []byte) error { _, err := Decode[Chunk](b); return err },
		"event":    func(b []byte) error { _, err := Decode[Event](b); return err },
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)<!-- example: (\\w+) -->\n```json\n(.*?)```").FindAllSubmatch(page, -1) {
		kind := string(m[1])
		if decode[kind] == nil {
			t.Errorf("example of a %s: no such record", kind)
		} else if err := decode[kind](m[2]); err != nil {
			t.Errorf("example of a %s: %v\n%s", kind, err, m[2])
		}
		seen[kind] = true
	}
	for kind := range decode {
		if !seen[kind] {
			t.Errorf("there is no example of a %s", kind)
		}
	}
	if all := regexp.MustCompile("```json\n").FindAll(page, -1); len(all) != 5 {
		t.Errorf("%d JSON blocks, want the 5 marked examples: a block without a mark is not checked", len(all))
	}
}

// The table of names and tokens shows what the code does.
func TestProtocolTokens(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| name | token |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	pairs := regexp.MustCompile("\\| `([^`]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(pairs) < 3 {
		t.Fatalf("found %d rows of names and tokens, want 3 or more", len(pairs))
	}
	for _, p := range pairs {
		if got := EncodeToken(p[1]); got != p[2] {
			t.Errorf("the page says that %q is written %q; it is %q", p[1], p[2], got)
		}
	}
}
