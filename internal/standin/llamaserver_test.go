package standin_test

import (
	"strings"
	"testing"

	"tandem/internal/standin/standintest"
	"tandem/internal/tinymodel"
)

// sample is text of the kind that grading jobs have, and not from the corpus that the vocabulary was learnt from.
const sample = `Please review the following submission and point out where the student could have done better. The code reads two files, merges them by the key, and draws a bar chart of average temperature per city.

weather = pd.read_csv("weather.csv", parse_dates=["day"])
merged = weather.merge(cities, on="city_id", how="inner")
merged["fahrenheit"] = merged["celsius"] * 9 / 5 + 32
wine %>% group_by(type) %>% summarise(avg = mean(alcohol), sd = sd(alcohol))

The chart lacks axis labels, although the title is informative. In the written answer the student argues that warmer cities attract more visitors, but provides no evidence. Deduct two points for the missing legend and praise the tidy structure.
`

func TestLlamaServerLoadsBothTokenizers(t *testing.T) {
	for tok, prefix := range map[tinymodel.Tokenizer]string{tinymodel.BPE: "", tinymodel.SentencePiece: " "} {
		t.Run(string(tok), func(t *testing.T) {
			url := standintest.StartLlamaServer(t, tinymodel.Tiny(tok))
			tokenize := func(text string) []int {
				var a struct{ Tokens []int }
				post(t, url+"/tokenize", map[string]any{"content": text}, &a)
				return a.Tokens
			}
			if ratio := float64(len(sample)) / float64(len(tokenize(sample))); ratio < 3 || ratio > 4.5 {
				t.Errorf("%.2f bytes a token, want 3 to 4.5", ratio)
			}
			for _, text := range []string{sample, "Grüße, 日本語 😀\n\n\tx <- 'naïve'  # ½", strings.Repeat("  ", 40) + "end"} {
				var a struct{ Content string }
				post(t, url+"/detokenize", map[string]any{"tokens": tokenize(text)}, &a)
				if a.Content != prefix+text {
					t.Errorf("%q came back as %q", text, a.Content)
				}
			}
			var a struct {
				Content string
				Tokens  []int
			}
			post(t, url+"/completion", map[string]any{"prompt": sample, "n_predict": 200, "temperature": 1, "seed": 3, "return_tokens": true}, &a)
			if len(a.Tokens) != 200 || strings.ContainsFunc(a.Content, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("sampled %d tokens: %q, want 200 of printable ASCII", len(a.Tokens), a.Content)
			}
		})
	}
}
