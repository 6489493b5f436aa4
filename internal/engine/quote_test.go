package engine

import (
	"strings"
	"testing"
	"unicode/utf8"

	"tandem/jobs"
)

func TestQuote(t *testing.T) {
	req := Request{
		System: "You are a patient grader of notebooks.",
		Prompt: "mutate(total = price * quantity)\nsummarise(mean(total))",
	}
	chat := Request{Messages: []jobs.Message{{Role: jobs.RoleUser, Content: "Wie groß ist die Summe?"}}}
	const withheld = "(message withheld: it quotes the prompt)"
	for name, tt := range map[string]struct {
		message string
		req     Request
		want    string
	}{
		"plain":            {"model runner has stopped", req, "model runner has stopped"},
		"no line breaks":   {"out of\n\tmemory\x1b[31m", req, "out of memory [31m"},
		"prompt":           {"bad token in mutate(total = price", req, withheld},
		"escaped prompt":   {`bad input: "quantity)\\nsummarise(mean"`, req, withheld},
		"system":           {"template: a patient grader failed", req, withheld},
		"chat":             {"cannot render: groß ist die Summe", chat, withheld},
		"short common run": {"the total is wrong", req, "the total is wrong"},
		"empty":            {"", req, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Quote(tt.message, tt.req); got != tt.want {
				t.Errorf("Quote(%q) = %q, want %q", tt.message, got, tt.want)
			}
		})
	}
}

func TestQuoteIsShortAndValid(t *testing.T) {
	got := Quote(strings.Repeat("ü", 1000), Request{})
	if len(got) > quoteBytes+len("…") || !utf8.ValidString(got) {
		t.Errorf("Quote of 2,000 bytes gave %d bytes, valid UTF-8 %t", len(got), utf8.ValidString(got))
	}
}
