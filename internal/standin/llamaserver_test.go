package standin_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem/internal/standin"
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

func TestLlamaServerReadsBothTokenizers(t *testing.T) {
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
		})
	}
}

// With the smallest cache there is, so that it is known to suit every shape.
func TestLlamaServerRunsEveryShape(t *testing.T) {
	for _, shape := range tinymodel.Shapes() {
		for _, tok := range []tinymodel.Tokenizer{tinymodel.BPE, tinymodel.SentencePiece} {
			t.Run(fmt.Sprint(shape, " ", tok), func(t *testing.T) {
				url := standintest.StartLlamaServer(t, tinymodel.TinyShape(shape, tok), "--cache-type-k", "q8_0", "--cache-type-v", "q8_0")
				complete := func(prompt string, temperature float64) string {
					var a struct {
						Content string
						Tokens  []int
					}
					post(t, url+"/completion", map[string]any{"prompt": prompt, "n_predict": 200, "temperature": temperature, "seed": 3, "return_tokens": true}, &a)
					checkText(t, a.Content)
					if len(a.Tokens) != 200 {
						t.Errorf("%d tokens, want 200", len(a.Tokens))
					}
					return a.Content
				}
				complete(sample, 1)
				seen := map[string]bool{}
				for i := range 8 {
					seen[complete(fmt.Sprintf("Task %d. %s", i, sample), 0)] = true
				}
				if len(seen) != 8 {
					t.Errorf("8 prompts that differ in their first words give %d texts", len(seen))
				}
				var chat struct {
					Choices []struct {
						Message struct{ Content string }
					}
				}
				post(t, url+"/v1/chat/completions", map[string]any{
					"messages": []map[string]string{{"role": "user", "content": sample}}, "max_tokens": 30, "temperature": 0,
				}, &chat)
				if len(chat.Choices) != 1 {
					t.Fatalf("%d answers to a chat, want 1", len(chat.Choices))
				}
				checkText(t, chat.Choices[0].Message.Content)
			})
		}
	}
}

func TestOllamaRunsEveryShape(t *testing.T) {
	models, toks := map[string]tinymodel.Spec{}, []tinymodel.Tokenizer{tinymodel.SentencePiece, tinymodel.BPE}
	for i, shape := range tinymodel.Shapes() {
		models[string(shape)] = tinymodel.TinyShape(shape, toks[i%2])
	}
	s := standintest.StartOllama(t, standin.OllamaOptions{Models: models})
	for model := range models {
		t.Run(model, func(t *testing.T) {
			a := generate(t, s.URL(), model, sample, 200)
			if !a.Done || a.EvalCount != 200 {
				t.Errorf("%d tokens, done %t; want 200", a.EvalCount, a.Done)
			}
			checkText(t, a.Response)
			var chat struct {
				Message struct{ Content, Thinking string }
			}
			post(t, s.URL()+"/api/chat", map[string]any{
				"model": model, "messages": []map[string]string{{"role": "user", "content": sample}}, "stream": false,
				"options": map[string]any{"temperature": 0, "num_predict": 30, "num_thread": 1, "num_ctx": 4096},
			}, &chat)
			if chat.Message.Thinking != "" {
				t.Errorf("a chat answers with the thoughts %q", chat.Message.Thinking)
			}
			checkText(t, chat.Message.Content)
		})
	}
}

// checkText wants printable ASCII that does not go round in a circle.
func checkText(t *testing.T, text string) {
	t.Helper()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("%q is not printable ASCII", text)
	}
	if tail := text[len(text)-min(len(text), 30):]; strings.Count(text, tail) > 2 {
		t.Errorf("%q repeats itself", text)
	}
}
