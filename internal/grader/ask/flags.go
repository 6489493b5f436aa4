package ask

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"tandem/internal/grader/notebook"
	"tandem/internal/sanitize"
)

// Flag is something in a notebook that reads like an instruction to the grader, or like an attempt to leave the fence.
type Flag struct {
	Cell  int    `json:"cell"`  // number; 0: the notebook's metadata
	Kind  string `json:"kind"`  // instruction, points, role, fence, chat_token, hidden
	Quote string `json:"quote"` // at most 120 characters around it
}

// The kinds of flags.
const (
	flagInstruction = "instruction" // to ignore or forget what the grader was told
	flagPoints      = "points"      // to give points, or to take none off
	flagRole        = "role"        // to be somebody else, or words to a model
	flagFence       = "fence"       // looks like the end of the submission
	flagChat        = "chat_token"  // a control token of chats
	flagHidden      = "hidden"      // nobody sees it: in metadata, an attachment or an HTML comment, unseen by its style, or of characters that show nothing
)

// Limits of flags.
const (
	maxFlags     = 20
	maxFlagQuote = 120 // characters
)

// Flags looks for them in sources and outputs, including what a reader does not see: HTML comments, zero-width and bidirectional characters, metadata and attachments. Of each kind a cell has one flag at most, the first; a notebook
// has 20. What is quoted was masked, and has its control and hidden characters made visible.
func Flags(nb *notebook.Notebook, mask func(string) string) []Flag {
	var flags []Flag
	for i := range nb.Cells {
		c := &nb.Cells[i]
		found := map[string]bool{}
		look := func(text string, source bool) {
			for _, f := range suspects(text, source && c.Kind != notebook.Code) {
				if !found[f.kind] && len(flags) < maxFlags {
					found[f.kind] = true
					flags = append(flags, Flag{Cell: c.Number, Kind: f.kind, Quote: f.quote(mask)})
				}
			}
		}
		look(c.Source, true)
		for _, o := range c.Outputs {
			look(o.Text, false)
			look(o.HTML, false)
			look(o.ErrorValue, false)
		}
	}
	for _, u := range nb.Unseen {
		for _, f := range suspects(u.Text, false) {
			if f.kind != flagHidden && len(flags) < maxFlags {
				flags = append(flags, Flag{Cell: u.Cell, Kind: flagHidden, Quote: f.quote(mask)})
				break
			}
		}
	}
	return flags
}

// suspect is a place in a text.
type suspect struct {
	kind     string
	text     string
	from, to int
}

// suspects are the places of a text that are flagged. prose says that it is Markdown, of which parts may be unseen.
func suspects(text string, prose bool) []suspect {
	var list []suspect
	if at := hiddenRun(text); at != nil {
		list = append(list, suspect{flagHidden, text, at[0], at[1]})
	}
	text = visible(text)
	lower := strings.ToLower(text)
	if prose && strings.Contains(lower, "<") {
		var unseen []suspect
		text, unseen = unseenParts(text)
		list = append(list, unseen...)
		lower = strings.ToLower(text)
	}
	list = append(list, ruled(text, lower)...)
	for _, other := range coats(text) {
		list = append(list, ruled(other, strings.ToLower(other))...)
	}
	return list
}

// ruled are the places of a text that a rule is about.
func ruled(text, lower string) (list []suspect) {
	for _, r := range rules {
		if at := r.find(text, lower); at != nil {
			list = append(list, suspect{r.kind, text, at[0], at[1]})
		}
	}
	return list
}

// comment is one of HTML.
var comment = regexp.MustCompile(`(?s)<!--.*?(?:-->|$)`)

// unseenStyle begins an element that a browser does not show.
var unseenStyle = regexp.MustCompile(`(?i)<[a-z][^>]*\bstyle\s*=\s*["'][^"'>]*(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:[;"'\s]|\.0))[^>]*>[^<]{3,}`)

// toGrader is what no remark to readers says: it names the grader and tells it something.
var (
	graderNamed = regexp.MustCompile(`(?i)\b(?:ai|llms?|gpt|chatgpt|claude|gemini|language models?|graders?|autograder|reviewers?|evaluators?|examiners?|assistant)\b`)
	graderTold  = regexp.MustCompile(`(?i)\b(?:must|should|shall|please|give|award|assign|mark|ignore|disregard|forget|treat|consider|rate|full|maximum|perfect|pass)\b`)
)

// unseenParts takes the parts of Markdown that nobody sees out of it; those that speak to the grader are suspects.
func unseenParts(text string) (rest string, list []suspect) {
	if at := unseenStyle.FindStringIndex(text); at != nil {
		list = append(list, suspect{flagHidden, text, at[0], at[1]})
	}
	rest = comment.ReplaceAllStringFunc(text, func(c string) string {
		speaks := graderNamed.MatchString(c) && graderTold.MatchString(c)
		lower := strings.ToLower(c)
		for _, r := range rules {
			speaks = speaks || r.find(c, lower) != nil
		}
		if speaks {
			list = append(list, suspect{flagHidden, c, 0, len(c)})
		}
		return " "
	})
	return rest, list
}

// hiddenRun finds characters that show nothing and are no part of writing: ones that override the direction of text, ones that embed or isolate it where no script runs from right to left, tags that are no
// flag of a country, and several in a row or within words. One alone is what copying from a page leaves behind, or joins an emoji.
func hiddenRun(text string) []int {
	const least = 4 // in a row, or within words of one text
	rightToLeft := strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana)
	})
	start, run, within := 0, 0, 0
	var last, unseen rune // the last one that shows, and that does not
	flag := false         // after a black flag, tags name a country
	for i, r := range text {
		switch {
		case r == '\u202d' || r == '\u202e':
			return []int{i, i + 3}
		case (r >= '\u202a' && r <= '\u202c' || r >= '\u2066' && r <= '\u2069') && !rightToLeft:
			return []int{i, i + 3}
		case flag && r >= 0xE0000 && r <= 0xE007F:
		case hidden(r):
			if unseen = r; run == 0 {
				start = i
			}
			if run++; run >= least {
				return []int{start, i + len(string(r))}
			}
		default:
			if run > 0 && unseen != softHyphen && asciiLetter(last) && asciiLetter(r) {
				if within++; within >= least {
					return []int{start, i}
				}
			}
			last, run, flag = r, 0, r == '\U0001f3f4'
		}
	}
	return nil
}

// softHyphen says where a word may be divided: text that is copied from pages is full of it.
const softHyphen = '\u00ad'

func asciiLetter(r rune) bool { return r < 0x80 && unicode.IsLetter(r) }

// quote is the text around a place, on one line, with everything in it made visible.
func (s *suspect) quote(mask func(string) string) string {
	from, to := s.from, s.to
	room := maxFlagQuote
	middle := []rune(mask(s.text[from:boundary(s.text, min(to, from+4*maxFlagQuote))]))
	before, behind := []rune(mask(s.text[after(s.text, max(0, from-4*maxFlagQuote)):from])), []rune(mask(s.text[to:boundary(s.text, min(len(s.text), to+4*maxFlagQuote))]))
	side := max(0, room-len(middle)) / 2
	around := string(before[max(0, len(before)-side):]) + string(middle) + string(behind[:min(len(behind), side)])
	shown := []rune(strings.Join(strings.Fields(sanitize.Text(showHidden(mask(around)))), " "))
	return string(shown[:min(len(shown), room)])
}

// showHidden writes hidden characters by their number.
func showHidden(s string) string {
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "⟨%U⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
