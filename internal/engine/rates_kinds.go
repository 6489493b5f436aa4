package engine

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"tandem/internal/protocol"
	"tandem/jobs"
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

// limited is what the limits of a kind of jobs, num_predict, tell of their answers. Who asks for more expects more: then an answer is the same share of its
// limit. Who sets it without a thought has answers that are as long whatever the limit.
type limited struct {
	share float64 // of the limit: moving average
	worse float64 // by how much more, as a logarithm, lengths were off by the share than by the average length; a moving average
}

// clearlyWorse is by how much the share of the limit must be worse for it not to count: with limits that are all the same, both tell the same.
const clearlyWorse = 0.05

// answer brings the average length of a kind's answers up to date, and their share of the limit, which is 0 where the average tells lengths better.
func (r *Rates) answer(kind string, tokens, ofLimit float64, limit, generated int) (newTokens, newOfLimit float64) {
	length := float64(generated)
	newTokens = blend(tokens, length)
	if limit <= 0 || generated <= 0 {
		return newTokens, ofLimit
	}
	if r.limits == nil {
		r.limits = map[string]*limited{}
	}
	l := r.limits[kind]
	if l == nil {
		l = &limited{share: ofLimit}
		if len(r.limits) <= mostKinds {
			r.limits[kind] = l
		}
	}
	if tokens > 0 && l.share > 0 {
		l.worse += (math.Abs(math.Log(l.share*float64(limit)/length)) - math.Abs(math.Log(tokens/length)) - l.worse) * share
	}
	if l.share = blend(l.share, length/float64(limit)); l.worse > clearlyWorse {
		return newTokens, 0
	}
	return newTokens, l.share
}

// mergeKinds has the kinds of both, those of a first, and as many as are kept.
func mergeKinds(a, b []protocol.KindTokens) []protocol.KindTokens {
	all := slices.Clone(a)
	for _, k := range b {
		if len(all) < mostKinds && !slices.ContainsFunc(all, func(o protocol.KindTokens) bool { return o.Kind == k.Kind }) {
			all = append(all, k)
		}
	}
	return all
}

// believableKinds are those that can be.
func believableKinds(list []protocol.KindTokens) []protocol.KindTokens {
	var kept []protocol.KindTokens
	for _, k := range list {
		if len(kept) < mostKinds && k.Kind != "" && len(k.Kind) <= longestKind && usable(k.Tokens) {
			if !usable(k.Share) {
				k.Share = 0
			}
			kept = append(kept, k)
		}
	}
	return kept
}
