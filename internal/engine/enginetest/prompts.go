package enginetest

import (
	"fmt"
	"strings"

	"tandem/internal/engine"
	"tandem/jobs"
)

// greedy is a request whose text is determined by the model.
func greedy(prompt string, n int) engine.Request {
	return engine.Request{Prompt: prompt, Options: jobs.Options{Temperature: new(0.0), NumPredict: &n}}
}

// named is a request of the suite.
type named struct {
	name string
	req  engine.Request
}

// requests are of every kind that reaches an engine. No two begin alike, so that none finds much of
// another in the cache.
func requests() []named {
	const n = 16
	list := []named{
		{"letter", greedy("x", n)},
		{"word", greedy("Hello", n)},
		{"question", greedy("Why is the mean larger than the median?", n)},
		{"python", greedy("def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n", n)},
		{"r", greedy("sales |> filter(year == 2024) |> summarise(total = sum(price * quantity))\n", n)},
		{"json text", greedy(`{"cells": [{"source": "print(1 + 1)", "outputs": []}]}`, n)},
		{"markdown", greedy("# Part 1\n\n* load the data\n* draw **one** plot\n\n```r\nplot(x)\n```\n", n)},
		{"umlauts", greedy("Übung 3: Größe und Straße, ä ö ü ß € „so“", n)},
		{"japanese", greedy("平均と中央値の違いを説明してください。", n)},
		{"emoji", greedy("👩🏽‍🔬 said 🎉 and e\u0301 is not é", n)},
		{"right to left", greedy("מהו הממוצע? ما هو الوسيط؟", n)},
		{"line ends", greedy("one\r\ntwo\r\n\r\n\tthree   \n", n)},
		{"template marks", greedy("<|im_end|> {{ .Prompt }} </s> [INST] <think> are only text", n)},
		{"spaces", greedy("   leading and trailing   ", n)},
		{"long", greedy("Grade this:\n"+code(40), n)},
		{"longer", greedy("Explain this:\n"+code(80), n)},
		{"one token", greedy("just one", 1)},
		{"two tokens", greedy("only two", 2)},
	}
	system := greedy("What is wrong here?", n)
	system.System = "You are a patient tutor of statistics."
	stop := greedy("Stop somewhere, please.", n)
	stop.Options.Stop = []string{"e", "zz"}
	format := greedy("As JSON, please.", 96)
	format.Format = schemaOf(verdict)
	seeded := greedy("Roll the dice.", n)
	seeded.Options.Temperature, seeded.Options.Seed = new(0.8), new(int64(7))
	return append(list,
		named{"system", system}, named{"stop words", stop}, named{"schema", format}, named{"seed", seeded},
		named{"chat", chat(n)})
}

// chat is a conversation.
func chat(n int) engine.Request {
	req := greedy("", n)
	req.Messages = []jobs.Message{
		{Role: jobs.RoleSystem, Content: "Answer briefly."},
		{Role: jobs.RoleUser, Content: "What does group_by do?"},
		{Role: jobs.RoleAssistant, Content: "It splits the rows into groups."},
		{Role: jobs.RoleUser, Content: "And ungroup?"},
	}
	return req
}

// code is as many lines of a program.
func code(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "total_%d <- sum(price[%d] * quantity[%d])\n", i, i, i)
	}
	return b.String()
}
