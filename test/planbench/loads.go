package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// kind is what a job is like, in tokens.
type kind struct {
	Shared int `json:"shared"` // that every prompt of the load begins with
	Own    int `json:"own"`    // the rest of the prompt
	Answer int `json:"answer"`
}

// prompt is the length of the whole prompt.
func (k kind) prompt() int { return k.Shared + k.Own }

// load is a class: so many jobs, which arrive together.
type load struct {
	Name, About string
	kinds       func(jobs int) []kind // in the order of their submission
}

// same are jobs that are all of one kind.
func same(k kind) func(int) []kind {
	return func(jobs int) []kind {
		list := make([]kind, jobs)
		for i := range list {
			list[i] = k
		}
		return list
	}
}

// spread are those of the grader's two classes by turns, with answers from 400 to 1,200 tokens, in steps so that the lower bound can group them.
func spread(jobs int) []kind {
	random := rand.New(rand.NewPCG(14, 0))
	list := make([]kind, jobs)
	for i := range list {
		list[i] = kind{4500, 2500, 400 + 100*random.IntN(9)}
		if i%2 == 1 {
			list[i].Own = 10_800
		}
	}
	return list
}

// giant is one long job in the middle of small ones.
func giant(jobs int) []kind {
	list := same(kind{0, 1000, 200})(jobs)
	list[jobs/2] = kind{0, 24_000, 1200}
	return list
}

func allLoads() []load {
	return []load{
		{"class-2500", "shared 4,500 + own 2,500 → 400", same(kind{4500, 2500, 400})},
		{"class-10800", "shared 4,500 + own 10,800 → 600", same(kind{4500, 10_800, 600})},
		{"class-spread", "shared 4,500 + own 2,500 or 10,800 → 400 to 1,200", spread},
		{"alone-1000", "1,000 → 400", same(kind{0, 1000, 400})},
		{"alone-8000", "8,000 → 400", same(kind{0, 8000, 400})},
		{"short-answers", "shared 4,500 + own 2,500 → 20", same(kind{4500, 2500, 20})},
		{"prefill-bound", "16,000 → 100", same(kind{0, 16_000, 100})},
		{"decode-bound", "1,000 → 1,200", same(kind{0, 1000, 1200})},
		{"giant", "1,000 → 200, and one of 24,000 → 1,200", giant},
	}
}

// job is a line of a file for submitter batch, in the fields of its JSON.
type job struct {
	CustomID     string         `json:"custom_id"`
	Model        string         `json:"model"`
	Prompt       string         `json:"prompt"`
	SharedPrefix int            `json:"shared_prefix,omitempty"` // bytes
	Options      map[string]int `json:"options"`
	answer       int            // tokens
}

// makeJobs writes the prompts. Those of two rounds have nothing in common but their kinds, so that none is found in a cache of the other. As a grader
// would, a job bounds its answer, but not exactly: at half as much again.
func makeJobs(model, round string, kinds []kind) []job {
	list := make([]job, len(kinds))
	shared := words(round, 0, kinds[0].Shared)
	for i, k := range kinds {
		list[i] = job{
			CustomID: fmt.Sprintf("%s-%03d", round, i), Model: model, SharedPrefix: len(shared), answer: k.Answer,
			Prompt:  shared + words(round, i+1, k.Own-answerTokens) + fmt.Sprintf("%12s", fmt.Sprintf("answer:%d", k.Answer)),
			Options: map[string]int{"num_predict": (3*k.Answer + 1) / 2},
		}
	}
	return list
}

const (
	tokenBytes   = 4 // of text are a token, for a paced engine
	answerTokens = 3 // at the end of a prompt, which say how long the answer is
)

// words is text of so many tokens, each a word with a space, but for the first, which tells this round and number from all others.
func words(round string, number, tokens int) string {
	first := uint64(number)
	for _, letter := range round {
		first = first*31 + uint64(letter)
	}
	letter := func(n uint64) byte { return 'a' + byte(n%26) }
	random := rand.New(rand.NewPCG(first, 0))
	var b strings.Builder
	for i := range tokens {
		n, end := random.Uint64(), byte(' ')
		if i == 0 {
			n, end = first, letter(first/26/26/26)
		}
		b.Write([]byte{letter(n), letter(n / 26), letter(n / 26 / 26), end})
	}
	return b.String()
}

// writeJobs writes a file for submitter batch.
func writeJobs(path string, list []job) error {
	var b strings.Builder
	in := json.NewEncoder(&b)
	for _, j := range list {
		if err := in.Encode(j); err != nil {
			return fmt.Errorf("write jobs: %w", err)
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write jobs: %w", err)
	}
	return nil
}
