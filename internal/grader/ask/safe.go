package ask

import (
	"regexp"
	"strings"
	"unicode"

	"tandem/internal/sanitize"
)

// safe makes a text harmless in a prompt: what nobody sees is removed, control characters become visible, and what a model or its chat template could take for the end of a turn or of our fence gets a
// broken bar where it was closed: <¦im_start¦>. Code stays what it is to a reader. It is idempotent, and its result is valid UTF-8.
func safe(s string) string { return defuse(sanitize.Text(lineEnds.Replace(visible(s)))) }

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// hidden reports characters that show nothing and can carry or reorder text: zero-width and bidirectional ones, tags, fillers, and the supplementary variation selectors.
func hidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r >= 0xE0100 && r <= 0xE01EF
}

// visible leaves hidden characters out.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, s)
}

var (
	// barToken is <|im_start|> and its like, which most models have, and DeepSeek's, with other bars. There is no white space in them, so R's |> stays.
	barToken = regexp.MustCompile(`<[|｜]([^\s|｜<>]{1,64})[|｜]>`)
	// angleToken is a token in angle brackets: of Llama, Gemma, Qwen, GLM and code models. Tags that only HTML has are none.
	angleToken = regexp.MustCompile(`<(/?(?:s|(?i:bos|eos|eod|pad|unk|sep|cls|mask|sop|eop|(?:start|end)_of_(?:turn|image|utterance)|unused\d+|think|thinking|reasoning|tool_calls?|tool_response|tools|` +
		`function_calls?|fim_(?:prefix|suffix|middle|pad)|system|user|assistant|human)))>`)
	// doubleToken is Llama 2's <<SYS>>.
	doubleToken = regexp.MustCompile(`(?i)<<(/?sys)>>`)
	// squareToken is one of Mistral and GLM. They are case-sensitive: x[inst] is R.
	squareToken = regexp.MustCompile(`\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK|gMASK))\]`)
	// fenceMark is the beginning of what ends or begins a submission.
	fenceMark = regexp.MustCompile(`(?i)<(\s*/\s*|/?)(submission)`)
)

// defuse marks the tokens of chats, and our own.
func defuse(s string) string {
	if strings.Contains(s, "<") {
		s = barToken.ReplaceAllString(s, "<¦$1¦>")
		s = angleToken.ReplaceAllString(s, "<¦$1¦>")
		s = doubleToken.ReplaceAllString(s, "<<¦$1¦>>")
		s = fenceMark.ReplaceAllString(s, "<¦$1$2")
	}
	if strings.Contains(s, "[") {
		s = squareToken.ReplaceAllString(s, "[¦$1¦]")
	}
	return s
}
