package ask

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	leastName   = 4    // letters of a name that is looked for; a Chinese or Korean character counts twice
	leastNumber = 6    // letters and digits of one that has hardly any letters: a shorter number may be a result
	leastLogin  = 5    // letters of a folder's name that is looked for in any case
	leastParted = 7    // letters of a name of one word that is looked for in two, in any case
	mostParted  = 60   // letters of a name of one word that may be two
	mostParts   = 5    // of a name, of which some may be left out or shortened
	maxForms    = 4000 // of all names of a student
)

// manner says how a form of a name must be written to be one.
type manner uint8

const (
	glued   manner = 1 << iota // without anything between its words
	joined                     // with . _ or - between its words
	spaced                     // with spaces and commas, too
	capital                    // as two words at least that begin with capital letters, if their script has them
	alone                      // as one word that begins so, and is no part of a longer one: Lovelace, lovelace_df is none
)

// names are the forms of a student's names. They are compared as [letters] reads them, without what stands between the words.
type names struct {
	common map[string]bool
	rules  map[string]manner
	forms  []string // sorted
	first  [256]bool
}

// newNames makes the forms of names: the whole in each order that begins and ends between its words (Jane van Doe; van Doe, Jane), with words left out or cut to their initials (JDoe, doe_j), if one
// word is left that is the student's own; longer words by themselves, as they are written; and a name of one word in two, since learning systems write doejane for Jane Doe. Words that all have
// (common) say nothing about a student: a name of these alone must be whole and in capitals, a single one is none. Of logins, short ones must be in capitals, too.
func newNames(list, logins []string, common map[string]bool) *names {
	n := &names{common: common, rules: map[string]manner{}}
	for _, name := range list {
		n.add(name, leastName)
	}
	for _, login := range logins {
		n.add(login, leastLogin)
	}
	for form := range n.rules {
		n.forms = append(n.forms, form)
		n.first[form[0]] = true
	}
	slices.Sort(n.forms)
	return n
}

// part is a word of a name.
type part struct {
	spellings []string
	initial   string // "" if its script has no capitals
	weight    int
	own       bool // is no word that all have
	alone     bool // is looked for by itself
}

var apostrophes = strings.NewReplacer("'", "", "’", "", "ʼ", "")

func (n *names) add(name string, least int) {
	words := strings.FieldsFunc(apostrophes.Replace(visible(name)), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) })
	if len(words) == 1 {
		words = camels(words[0])
	}
	var parts []part
	weight, size := 0, 0
	for _, w := range words {
		p := n.part(w)
		parts = append(parts, p)
		weight += p.weight
		size += utf8.RuneCountInString(w)
	}
	switch {
	case weight < leastName && size < leastNumber:
	case len(parts) == 1:
		n.addWord(parts[0], least)
	default:
		n.addWords(parts)
	}
}

// camels takes JaneDoe apart.
func camels(word string) []string {
	var list []string
	from, last, apart := 0, between, false
	for l := (letters{text: word}); l.next(); last = l.kind {
		if l.starts && l.from > from && l.kind == upper {
			list = append(list, word[from:l.from])
			from, apart = l.from, apart || last == lower
		}
	}
	if !apart {
		return []string{word}
	}
	return append(list, word[from:])
}

func (n *names) part(word string) part {
	p := part{spellings: spellings(word)}
	digits, cased := false, false
	for l := (letters{text: word}); l.next(); {
		switch l.kind {
		case digit:
			digits = true
			continue
		case syllable:
			p.weight++
		case lower, upper:
			if p.weight == 0 {
				p.initial = firstRune(l.folded)
				p.alone = l.kind == upper
			}
			cased = true
		}
		p.weight++
	}
	p.own = !digits && p.weight >= 2 && !n.common[p.spellings[0]]
	p.alone = (p.alone || !cased) && p.own && p.weight >= leastName && utf8.RuneCountInString(word) >= leastName
	return p
}

func firstRune(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return s[:size]
}

var (
	transliterated = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ø", "oe", "å", "aa")
	contracted     = strings.NewReplacer("ae", "a", "oe", "o", "ue", "u", "aa", "a")
)

// spellings are how a word is compared: Müller is written Muller and Mueller, and Mueller may be Müller.
func spellings(word string) []string {
	list := []string{foldAll(word), foldAll(transliterated.Replace(strings.ToLower(norm.NFC.String(word))))}
	list = append(list, contracted.Replace(list[0]))
	slices.Sort(list[1:])
	if list = slices.Compact(list); len(list) == 3 && list[0] == list[2] {
		list = list[:2]
	}
	return list
}

func foldAll(s string) string {
	var b strings.Builder
	for l := (letters{text: s}); l.next(); {
		b.WriteString(l.folded)
	}
	return b.String()
}

// put adds a form. One that is a word that all have (Na Me) must be two words in capitals.
func (n *names) put(form string, r manner) {
	if n.common[form] {
		r = capital
	}
	if len(n.rules) < maxForms && form != "" {
		n.rules[form] |= r
	}
}

// addWord adds a name of one word.
func (n *names) addWord(p part, least int) {
	if n.common[p.spellings[0]] {
		return
	}
	for _, s := range p.spellings {
		if p.weight < least && p.initial != "" && !strings.ContainsFunc(s, unicode.IsDigit) {
			n.put(s, alone)
		} else {
			n.put(s, glued)
		}
		n.addHalves([]rune(s), p)
	}
}

// addHalves adds a name of one word as two, in both orders, wherever it may be divided. Two words that all have are none.
func (n *names) addHalves(s []rune, p part) {
	if slices.ContainsFunc(s, unicode.IsDigit) || p.weight < leastName || len(s) > mostParted {
		return
	}
	known := func(half []rune) bool { return p.initial != "" && len(half) == 1 || n.common[string(half)] }
	for i := 1; i < len(s); i++ {
		if known(s[:i]) && known(s[i:]) {
			return
		}
	}
	how := capital
	if p.weight >= leastParted {
		how |= glued | joined | spaced
	}
	n.put(string(s), how)
	for i := 1; i < len(s); i++ {
		n.put(string(s[i:])+string(s[:i]), how)
		if p.initial != "" && p.weight >= leastParted {
			n.putInitials(string(s[i]) + string(s[:i]))
			n.putInitials(string(s[i:]) + string(s[0]))
		}
	}
}

// putInitials adds a form in which words are initials. With spaces it needs capitals: d, price may be two variables.
func (n *names) putInitials(form string) {
	if utf8.RuneCountInString(form) >= leastName && !n.common[form] {
		n.put(form, glued|joined|capital)
	}
}

// addWords adds a name of several words.
func (n *names) addWords(parts []part) {
	own := slices.ContainsFunc(parts, func(p part) bool { return p.own })
	for _, p := range parts {
		for _, s := range p.spellings {
			if p.alone {
				n.put(s, alone)
			}
			if p.alone && p.initial != "" && !n.common[s+"s"] { // Annas, Janes-Mac
				n.put(s+"s", alone)
			}
		}
	}
	how := glued | joined | spaced
	if !own && !slices.ContainsFunc(parts, func(p part) bool { return p.weight == 0 }) {
		how = capital
	}
	for i := range parts {
		var whole strings.Builder
		for _, p := range slices.Concat(parts[i:], parts[:i]) {
			whole.WriteString(p.spellings[0])
		}
		n.put(whole.String(), how)
		if !own && utf8.RuneCountInString(whole.String()) > leastParted {
			n.put(whole.String(), glued)
		}
	}
	if !own {
		return
	}
	if len(parts) > mostParts {
		parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !p.own })
		parts = parts[:min(len(parts), mostParts)]
	}
	for i := range parts {
		n.addSome(slices.Concat(parts[i:], parts[:i]), written{})
	}
}

// written is the beginning of a form.
type written struct {
	text       string
	words, own int
	weight     int
	initials   bool
}

// addSome adds what remains of the parts if some of them are left out or shortened to initials.
func (n *names) addSome(parts []part, w written) {
	if len(parts) == 0 {
		switch {
		case w.words < 2 || w.own == 0 || w.weight < leastName:
		case w.initials:
			n.putInitials(w.text)
		default:
			n.put(w.text, glued|joined|spaced)
		}
		return
	}
	p := parts[0]
	n.addSome(parts[1:], w)
	for _, s := range p.spellings {
		next := written{w.text + s, w.words + 1, w.own, w.weight + p.weight, w.initials || p.weight < 2 && p.initial != ""}
		if p.own {
			next.own++
		}
		n.addSome(parts[1:], next)
	}
	if p.initial != "" && p.weight > 1 {
		n.addSome(parts[1:], written{w.text + p.initial, w.words + 1, w.own, w.weight + 1, true})
	}
}

// find returns where names stand in a text. Each word at which a name may begin is looked at, also within what was found: of Doe Jane Doe, the last word belongs to it, too.
func (n *names) find(text string) [][2]int {
	if len(n.forms) == 0 {
		return nil
	}
	var list [][2]int
	last, end, beyond := -1, 0, 0 // of what was found last; where one ends that begins within it
	for l := (letters{text: text}); l.next(); {
		if !l.starts || !n.first[l.folded[0]] {
			continue
		}
		to := n.match(l)
		switch {
		case to == 0:
			continue
		case l.from < end:
			beyond = max(beyond, to)
			continue
		case beyond > end && l.from >= beyond:
			list[last][1] = beyond
		}
		list = append(list, [2]int{l.from, to})
		last, end = last+1, to
	}
	if beyond > end {
		list[last][1] = beyond
	}
	return list
}

// maxBetween is how many characters may stand between two words of a name.
const maxBetween = 3

// ellipsis is the end of a text that was cut: a name may be, too.
const ellipsis = "…"

// match returns where the longest name ends that begins with the letter, 0 if there is none.
func (n *names) match(l letters) (end int) {
	lo, hi, length := 0, len(n.forms), 0
	words, capitals, gap := 0, true, glued
	free := l.before == between || l.before == digit
	for {
		if l.starts {
			words++
			capitals = capitals && l.kind != lower && l.kind != digit
		}
		for _, b := range []byte(l.folded) {
			for lo < hi && (len(n.forms[lo]) == length || n.forms[lo][length] < b) {
				lo++
			}
			for lo < hi && n.forms[hi-1][length] > b {
				hi--
			}
			length++
		}
		if lo == hi {
			return end
		}
		behind := l
		more := behind.next()
		if form := n.forms[lo]; len(form) == length && (!more || behind.kind == between || behind.starts) {
			r := n.rules[form]
			free := free && (!more || behind.kind == between || behind.kind == digit)
			if r&gap != 0 || r&capital != 0 && words > 1 && capitals || r&alone != 0 && words == 1 && capitals && free {
				if end = behind.from; !more {
					end = len(l.text)
				}
			}
		}
		if cut := strings.TrimLeft(l.text[behind.from:], " ") == ellipsis; cut && length >= leastName {
			return behind.from
		} else if cut || !more {
			return end
		}
		var g manner
		if g, more = behind.skip(); !more {
			return end
		}
		l, gap = behind, max(gap, g)
	}
}

// skip goes on to the next word of a name, if one follows after what may stand between two, and says how they are written.
func (l *letters) skip() (gap manner, ok bool) {
	gap = glued
	for i := 0; l.kind == between; i++ {
		switch c := l.text[l.from:l.to]; {
		case i == maxBetween:
			return gap, false
		case c == "'" || c == "’" || c == "ʼ": // within a word
			if i > 0 || !l.next() || l.kind == between {
				return gap, false
			}
			l.starts = false
			return gap, true
		case c == "%" && strings.HasPrefix(l.text[l.to:], "20"):
			l.to += 2
			gap = spaced
		case strings.Contains("._-‐–", c):
			gap = max(gap, joined)
		case strings.TrimSpace(c) == "" || strings.Contains(",+·・", c):
			gap = spaced
		default:
			return gap, false
		}
		if !l.next() {
			return gap, false
		}
	}
	return gap, true
}
