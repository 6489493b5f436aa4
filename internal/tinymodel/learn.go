package tinymodel

import (
	"cmp"
	"container/heap"
	_ "embed"
	"iter"
	"slices"
	"strings"
	"unicode"
)

// corpus is synthetic: instructions, code and feedback as they occur in grading jobs, and lists of common words.
//
//go:embed corpus.txt
var corpus string

// mergeCount is how many pieces are learnt on top of the single bytes: enough for more than three bytes a token on
// prompts of the corpus's kind, few enough that the embedding of the tiny model stays small.
const mergeCount = 6000

// merge joins two pieces of text into one.
type merge struct{ left, right string }

// learnMerges is byte-pair encoding: join the most frequent pair of neighbours within the words of text, count
// times. Ties go to the pieces that were there first, so the result depends on the text alone.
func learnMerges(text string, count int) []merge {
	l := learner{counts: make(map[pair]int), where: make(map[pair][]int)}
	l.read(text)
	var merges []merge
	for range count {
		p, ok := l.mostFrequent()
		if !ok {
			break
		}
		merges = append(merges, merge{l.pieces[p.left], l.pieces[p.right]})
		l.join(p)
	}
	return merges
}

// learner is the state of byte-pair encoding. Pieces are known by their index.
type learner struct {
	pieces []string
	words  []word
	counts map[pair]int   // how often two pieces are neighbours
	where  map[pair][]int // words that have, or once had, the pair
	queue  queue          // candidates, some of them with a count from before
}

type word struct {
	pieces []int
	count  int
}

type pair struct{ left, right int }

// pairs gives the neighbours in w, in order.
func (w word) pairs() iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for i := 1; i < len(w.pieces) && yield(pair{w.pieces[i-1], w.pieces[i]}); i++ {
		}
	}
}

// read takes in the different words of text as single bytes.
func (l *learner) read(text string) {
	words, bytes := make(map[string]int), make(map[string]int)
	add := func(w string) {
		i, ok := words[w]
		if !ok {
			i = len(l.words)
			words[w] = i
			var pieces []int
			for b := range strings.SplitSeq(w, "") {
				if _, ok := bytes[b]; !ok {
					bytes[b] = len(l.pieces)
					l.pieces = append(l.pieces, b)
				}
				pieces = append(pieces, bytes[b])
			}
			l.words = append(l.words, word{pieces: pieces})
		}
		l.words[i].count++
	}
	for _, w := range splitWords(text) {
		add(w)
		// What follows a space in prose follows a bracket in code.
		if bare := strings.TrimPrefix(w, " "); bare != w && len(bare) > 1 && unicode.IsLetter(rune(bare[0])) {
			add(bare)
		}
	}
	for i, w := range l.words {
		for p := range w.pairs() {
			l.counts[p] += w.count
			l.where[p] = append(l.where[p], i)
		}
	}
	for p, n := range l.counts {
		heap.Push(&l.queue, candidate{p, n})
	}
}

// mostFrequent gives the next pair to join, if any is left.
func (l *learner) mostFrequent() (pair, bool) {
	for len(l.queue) > 0 {
		c := heap.Pop(&l.queue).(candidate)
		now := l.counts[c.pair]
		if now == c.count {
			return c.pair, true
		}
		if now > 0 {
			heap.Push(&l.queue, candidate{c.pair, now})
		}
	}
	return pair{}, false
}

// join makes one piece of p wherever it occurs. Only pairs with the new piece become more frequent by that.
func (l *learner) join(p pair) {
	joined := len(l.pieces)
	l.pieces = append(l.pieces, l.pieces[p.left]+l.pieces[p.right])
	risen := make(map[pair]bool)
	slices.Sort(l.where[p])
	for _, i := range slices.Compact(l.where[p]) {
		w := &l.words[i]
		for q := range w.pairs() {
			l.counts[q] -= w.count
		}
		w.pieces = joinIn(w.pieces, p, joined)
		for q := range w.pairs() {
			l.counts[q] += w.count
			if q.left == joined || q.right == joined {
				risen[q] = true
				l.where[q] = append(l.where[q], i)
			}
		}
	}
	delete(l.where, p)
	for p := range risen {
		heap.Push(&l.queue, candidate{p, l.counts[p]})
	}
}

// joinIn replaces p by joined, from left to right.
func joinIn(pieces []int, p pair, joined int) []int {
	var after []int
	for i := 0; i < len(pieces); i++ {
		if i+1 < len(pieces) && pieces[i] == p.left && pieces[i+1] == p.right {
			after = append(after, joined)
			i++
		} else {
			after = append(after, pieces[i])
		}
	}
	return after
}

// queue is a heap of candidates, the most frequent first.
type queue []candidate

type candidate struct {
	pair  pair
	count int
}

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].count, q[i].count), cmp.Compare(q[i].pair.left, q[j].pair.left), cmp.Compare(q[i].pair.right, q[j].pair.right)) < 0
}

// splitWords cuts ASCII text as GPT-2's tokenizer does, near enough: runs of letters, of digits, of other signs,
// each with one space before it, and runs of white space. A piece never crosses such a border.
func splitWords(text string) []string {
	kind := func(c byte) int {
		switch r := rune(c); {
		case unicode.IsSpace(r):
			return 0
		case unicode.IsLetter(r):
			return 1
		case unicode.IsDigit(r):
			return 2
		}
		return 3
	}
	var words []string
	for start := 0; start < len(text); {
		end := start
		if text[end] == ' ' && end+1 < len(text) && kind(text[end+1]) != 0 {
			end++
		}
		first := kind(text[end])
		for end++; end < len(text) && kind(text[end]) == first; end++ {
		}
		// The last of several spaces belongs to the word after them.
		if first == 0 && end-start > 1 && end < len(text) && text[end-1] == ' ' {
			end--
		}
		words = append(words, text[start:end])
		start = end
	}
	return words
}
