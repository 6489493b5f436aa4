package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// realModel is a llama model of 120 million random weights, tinymodel.Visible.
const realModel = "visible:120m"

// realLoad is a class for real engines. Own parts differ by a quarter up and down; sizes are about right, in the stand-ins' tokens.
type realLoad struct {
	Name string
	Jobs int
	kind
	batches bool // prompts are computed as engines do by default; else token by token, so that each job has one right text
}

// realLoads take two engines of 120 million weights, one thread each, 20 to 30 seconds. The last is there for its texts.
func realLoads() []realLoad {
	return []realLoad{
		{"prefill-heavy", 16, kind{400, 600, 16}, true},
		{"even", 16, kind{400, 220, 60}, true},
		{"decode-heavy", 16, kind{400, 90, 110}, true},
		{exactLoad, 6, kind{120, 40, 32}, false},
	}
}

// exactLoad is the load of which all texts must be equal.
const exactLoad = "token by token"

// makeRealJobs writes the jobs of a load: code with a common beginning, greedy.
func makeRealJobs(l realLoad) []job {
	random := rand.New(rand.NewPCG(14, uint64(l.Own)))
	shared := l.Name + ". Review what was handed in:\n" + code(random, l.Shared)
	list := make([]job, l.Jobs)
	for i := range list {
		list[i] = job{
			CustomID: fmt.Sprintf("%03d", i), Model: realModel, SharedPrefix: len(shared), Prompt: shared + code(random, l.Own*3/4+random.IntN(l.Own/2+1)),
			Options: map[string]int{"temperature": 0, "num_predict": l.Answer},
		}
	}
	return list
}

// code is some lines of code, of about so many tokens.
func code(random *rand.Rand, tokens int) string {
	const line = 23 // tokens, roughly
	var b strings.Builder
	for range max(1, tokens/line) {
		fmt.Fprintf(&b, "total_%d <- sum(price[%d] * quantity[%d])\n", random.IntN(1000), random.IntN(1000), random.IntN(1000))
	}
	return b.String()
}
