package engine

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"tandem/internal/jobs"
)

// mostKinds is of how many kinds of jobs the length of answers is kept: those seen last.
const mostKinds = 16

// longestKind bounds the name of a kind, in bytes.
const longestKind = 32

// KindOf is the kind of a job, by which the length of its answer is estimated: the value of its label [jobs.LabelKind]. Workers publish it, so what is no plain
// short word, and might be a text, is a hash. It is empty if the job has no such label.
func KindOf(j *jobs.Job) string {
	kind := j.Labels[jobs.LabelKind]
	if kind == "" || plainWord(kind) {
		return kind
	}
	return fmt.Sprintf("=%x", sha256.Sum256([]byte(kind)))[:1+longestKind/2]
}

// plainWord reports whether s is short and has but letters, digits, '-' and '_'.
func plainWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(s) <= longestKind
}

// noteKind brings the length of a kind's answers up to date, in a copy, since others may be reading the list.
func noteKind(list []jobs.KindTokens, kind string, tokens float64) []jobs.KindTokens {
	k := jobs.KindTokens{Kind: kind}
	if i := slices.IndexFunc(list, func(o jobs.KindTokens) bool { return o.Kind == kind }); i >= 0 {
		k.Tokens = list[i].Tokens
	}
	k.Tokens = blend(k.Tokens, tokens)
	return mergeKinds([]jobs.KindTokens{k}, list)
}

// mergeKinds has the kinds of both, those of a first, and as many as are kept.
func mergeKinds(a, b []jobs.KindTokens) []jobs.KindTokens {
	all := slices.Clone(a)
	for _, k := range b {
		if len(all) < mostKinds && !slices.ContainsFunc(all, func(o jobs.KindTokens) bool { return o.Kind == k.Kind }) {
			all = append(all, k)
		}
	}
	return all
}

// believableKinds are those that can be.
func believableKinds(list []jobs.KindTokens) []jobs.KindTokens {
	var kept []jobs.KindTokens
	for _, k := range list {
		if len(kept) < mostKinds && k.Kind != "" && len(k.Kind) <= longestKind && usable(k.Tokens) {
			kept = append(kept, k)
		}
	}
	return kept
}
