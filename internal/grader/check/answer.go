package check

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// functionWords are those that hardly a sentence of a language does without.
var functionWords = map[string][]string{
	"English":    strings.Fields("the of and to in is that it was for on are as with be this by have from or not but they more than which we because there their has an at can so if would i my you do when all"),
	"German":     strings.Fields("der die das und ist in den zu nicht von mit es sich auf für eine ein im dem dass sind als auch an bei aus weil werden wird oder wir man nach mehr zum zur hat ich aber durch wenn"),
	"French":     strings.Fields("le la les de des et est un une en que dans pour qui pas sur il elle on au aux par plus avec sont ce cette car ne se du mais ou nous je ont été être"),
	"Spanish":    strings.Fields("el la los las de y que en es un una por con no para se su al lo como más pero del son porque este esta hay ha muy si entre cuando sin yo"),
	"Italian":    strings.Fields("il la le di e che è un una in per non con si del della sono dei come più ma perché nel alla da lo gli al questo questa ha anche i"),
	"Portuguese": strings.Fields("o a os as de e que em é um uma para não com por se do da dos das mais como mas foi no na ao porque são este esta há eu"),
	"Dutch":      strings.Fields("de het een en van is in dat op te niet met voor zijn die er aan ook als bij om maar door naar dan meer omdat wordt deze dit ik wij"),
	"Swedish":    strings.Fields("och att det i en är som på av för med den till inte har de ett om men var sig så vi från eller mer än eftersom jag när"),
	"Polish":     strings.Fields("i w na z do nie to że się jest o jak co po od za dla oraz ale są ponieważ przez więcej niż które który było ja"),
	"Turkish":    strings.Fields("ve bir bu da de için ile çok daha olan olarak gibi en ne ama çünkü değil var kadar ben o ise sonra her"),
}

// fillers are words that stand where an answer should.
var fillers = strings.Fields("foo bar baz qux blah bla lorem ipsum dolor sit amet test testing xyz abc asdf qwerty idk dunno n/a na none nothing answer")

// leastShown is how many words tell which language a text is in.
const leastShown = 30

// language is the one whose function words make up a tenth of some words, "" if there is none.
func language(words []string) string {
	if len(words) < leastShown {
		return ""
	}
	best, most := "", len(words)/10
	for name, list := range functionWords {
		n := 0
		for _, w := range words {
			if slices.Contains(list, w) {
				n++
			}
		}
		if n > most || n == most && best != "" && name < best {
			best, most = name, n
		}
	}
	return best
}

// noAnswer says why some words, enough of them, are no answer to a question all the same, "" if they may be one.
func (c *checker) noAnswer(words []string, question string) string {
	distinct := map[string]bool{}
	for _, w := range words {
		distinct[w] = true
	}
	asked := splitWords(question)
	repeats := 0
	for w := range distinct {
		if slices.Contains(asked, w) {
			repeats++
		}
	}
	odd := 0
	for _, w := range words {
		if !plausible(w) {
			odd++
		}
	}
	switch {
	case 2*odd > len(words):
		return "not words"
	case !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(fillers, w) }):
		return "words that only fill the place"
	case len(words) >= 3 && 3*len(distinct) <= len(words):
		return "the same words again and again"
	case len(asked) >= 4 && !generic.MatchString(question) && 10*repeats >= 9*len(distinct) && 2*len(distinct) >= len(asked):
		return "only the question again"
	case len(words) >= leastKnown && !c.knows(words):
		return fmt.Sprintf("none of its words is one of %s, which the notebook is in, or of the assignment", c.spoken)
	}
	return ""
}

// leastKnown is how many words an answer has of which one, at least, is known.
const leastKnown = 6

// knows reports whether one of some words is known, or nothing can be said since the language is not.
func (c *checker) knows(words []string) bool {
	if c.spoken == "" {
		return true
	}
	return slices.ContainsFunc(words, func(w string) bool { return c.vocabulary[w] || slices.Contains(functionWords[c.spoken], w) })
}

// listen finds out which language the assignment is in, and its words.
func (c *checker) listen() {
	c.vocabulary = map[string]bool{}
	var words []string
	for text := range c.template.texts {
		words = append(words, strings.Fields(text)...)
	}
	for _, s := range c.rubric.Sections {
		for _, q := range s.Questions {
			words = append(words, splitWords(q)...)
		}
	}
	if c.spoken = language(words); c.spoken == "" {
		return
	}
	for _, w := range words {
		c.vocabulary[w] = true
	}
	for _, cell := range c.cells { // names and values that the answer speaks of
		if cell.code {
			for _, w := range splitWords(cell.Source) {
				c.vocabulary[w] = true
			}
		}
	}
}

// keyboard are rows of keys, as somebody runs a finger along.
var keyboard = []string{"qwertyuiop", "qwertzuiop", "asdfghjkl", "zxcvbnm", "yxcvbnm"}

// inWords are runs that real words have: property, Bewertung, Hertz.
var inWords = []string{"erty", "wert", "ertz"}

// plausible reports whether a word may be one, as far as its letters say: with a vowel, no endless run of consonants or of one letter, and no run along the keyboard.
func plausible(word string) bool {
	letters := []rune(word)
	if len(letters) < 4 || strings.ContainsFunc(word, func(r rune) bool { return r > unicode.MaxLatin1 || unicode.IsDigit(r) }) {
		return true
	}
	vowels, consonants, same := 0, 0, 1
	for i, r := range letters {
		if strings.ContainsRune("aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüý", r) {
			vowels, consonants = vowels+1, 0
		} else if consonants++; consonants > 6 {
			return false
		}
		if i > 0 && r == letters[i-1] {
			if same++; same > 3 {
				return false
			}
		} else {
			same = 1
		}
		for _, row := range keyboard {
			if i+4 <= len(letters) && strings.Contains(row, string(letters[i:i+4])) && !slices.Contains(inWords, string(letters[i:i+4])) {
				return false
			}
		}
	}
	return vowels > 0
}
