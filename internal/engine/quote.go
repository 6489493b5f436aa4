package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	quoteBytes  = 300 // of an engine's message that are kept
	quoteWindow = 12  // letters and digits in a row that count as a quotation of the request
)

// Quote makes an engine's own error message fit for logs and results: one printable line of at
// most 300 bytes. A message that repeats the request's text, twelve letters or digits in a row, is
// withheld, since prompts are private.
func Quote(message string, req Request) string {
	message = strings.ToValidUTF8(message, "")
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(message) > quoteBytes {
		end := quoteBytes
		for !utf8.RuneStart(message[end]) {
			end--
		}
		message = message[:end] + "…"
	}
	if repeats(letters(message), req) {
		return "(message withheld: it quotes the prompt)"
	}
	return message
}

// repeats reports whether any window of said occurs in the text of the request.
func repeats(said []rune, req Request) bool {
	texts := []string{req.System, req.Prompt, req.Suffix}
	for _, tool := range req.Tools {
		texts = append(texts, string(tool))
	}
	if req.Embed != nil {
		texts = append(texts, req.Embed.Input...)
	}
	for _, m := range req.Messages {
		texts = append(texts, m.Parts()...)
	}
	for _, text := range texts {
		own := string(letters(text))
		for i := range len(said) - quoteWindow + 1 {
			if strings.Contains(own, string(said[i:i+quoteWindow])) {
				return true
			}
		}
	}
	return false
}

// letters leaves out everything that quoting and escaping may change.
func letters(s string) []rune {
	kept := make([]rune, 0, len(s))
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			kept = append(kept, r)
		}
	}
	return kept
}
