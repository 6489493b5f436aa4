// Package score turns findings into points. It is deterministic, exact (rational numbers, rounded once, at the end) and explains every point.
package score

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"tandem/internal/grader/check"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/rubric"
)

// Verdict is a model's judgement of a criterion.
type Verdict string

// The verdicts. Unclear changes nothing.
const (
	Met     Verdict = "met"
	Partly  Verdict = "partly"
	NotMet  Verdict = "not_met"
	Unclear Verdict = "unclear"
)

// Judgements are what the models say, by criterion id. A model whose answer is missing is not in it, and neither is one whose answer must not count.
type Judgements map[rubric.Judge]map[string]Verdict

// Thing is an item of layer 1, or an output.
type Thing struct {
	Kind    string `json:"kind"` // variable, function, column, question, test, [Output], [Section], [CriterionKind]
	Section string `json:"section,omitempty"`
	Name    string `json:"name"`
}

// String calls a thing what a person would.
func (t Thing) String() string {
	text := t.Kind + " " + t.Name
	if t.Section != "" && t.Kind != Section {
		text += " of section " + t.Section
	}
	return text
}

// Kinds of things that are no items.
const (
	Output        = "output"
	Section       = "section"   // one that asks for nothing by name
	CriterionKind = "criterion" // what a model judges
)

// ThingOf is an item as a thing.
func ThingOf(item check.Item) Thing { return Thing{item.Kind, item.Section, item.Name} }

// Given is what a person has decided. It goes before what the checks and the models say.
type Given struct {
	Waived   map[Thing]bool      // counts for nobody
	Credits  map[Thing]*big.Rat  // share that an item or an output counts, 0 to 1
	Elements map[string]*big.Rat // points of elements
	Whole    *big.Rat            // points of the submission, after all caps
}

// Score is a submission's points. Each figure is rounded by itself, so that rounded ones may add up to some hundredths more or less.
type Score struct {
	Points   float64   `json:"points"`   // of layers 1 and 2 and the judgements that are there; if none is missing, Low = High = Points
	Low      float64   `json:"low"`      // the least that any answer of the missing models can leave
	High     float64   `json:"high"`     // the most
	Max      float64   `json:"max"`      // total_points
	Percent  float64   `json:"percent"`  // of Points
	Certain  bool      `json:"certain"`  // Low = High: no model's answer is missing that could change anything
	Base     float64   `json:"base"`     // points by layers 1 and 2 alone, before any cap
	Adjusted float64   `json:"adjusted"` // Base with the models' judgements, before any cap
	Elements []Element `json:"elements"` // in the order of the rubric
	Caps     []Cap     `json:"caps"`     // those that were applied
	Reasons  []string  `json:"reasons"`  // the way from Base to Points, one sentence a step
}

// Element is the points of one rubric element, in its share of total_points: Weight × total_points is the most.
type Element struct {
	ID         string      `json:"id"`
	Points     float64     `json:"points"` // with the judgements
	Base       float64     `json:"base"`   // by layers 1 and 2
	Low        float64     `json:"low"`
	High       float64     `json:"high"`
	Max        float64     `json:"max"`
	Systematic float64     `json:"systematic"` // share of layer 1, 0 to 1, 4 decimals; -1 if it says nothing
	Outputs    float64     `json:"outputs"`    // share of layer 2, 0 to 1, 4 decimals; -1 if there is nothing to compare
	Reasons    []string    `json:"reasons"`    // every point that is given or not, and why
	Criteria   []Criterion `json:"criteria"`
}

// Criterion is what a model changed.
type Criterion struct {
	ID      string  `json:"id"`
	Text    string  `json:"text"`
	Judge   string  `json:"judge"`   // code, feedback, nobody
	Verdict Verdict `json:"verdict"` // "" if the model's answer is missing
	Points  float64 `json:"points"`  // what the criterion is worth, in points of the total
	Bound   float64 `json:"bound"`   // the most that the model may add or take, in points of the total
	Change  float64 `json:"change"`  // what it did
}

// Cap is a limit that the points hit.
type Cap struct {
	Name   string  `json:"name"`  // output_match, completion
	Limit  float64 `json:"limit"` // in points of the total
	Reason string  `json:"reason"`
}

// Compute scores a submission. Either findings may be nil: then nothing was found, or nothing compared. All arithmetic is exact; each figure is rounded once, half up, to 2 decimals.
//
// T is total_points. Element e is worth M = weight × T.
//
//	items        found counts 1; not run and failed ½; placeholder and missing 0. A test counts as often as it has points, and 0 if it fails
//	section      its share is what its items count ÷ how many are asked for. One that asks for nothing has 1 if it is complete, else 0
//	systematic   S = Σ points × share ÷ Σ points, of the element's sections; of all sections if it is about none that there is. Sections of 0 points together weigh the same.
//	             A rubric without sections: what the required variables, functions and columns count ÷ how many there are. Without those, too: 1 if the notebook is not empty
//	outputs      O = outputs that match ÷ outputs compared, of the element's sections and of no section; pictures do not count
//	base         B = M × S where there is nothing to compare, else M × ((1−q) × S + q × O); q = output_share
//	criterion    c is worth P = M × points ÷ max_points
//	judgement    met, partly and not met aim at P, ½P and 0: the change is aim − P × B/M, but at least −bound × P and at most +bound × P.
//	             Unclear changes nothing, and neither does any judgement of a criterion that nobody judges
//	element      B + Σ changes, at least 0 and at most M
//	range        where a judgement is missing, the least and the most that any of the four verdicts would change; the points count it as 0
//	sum          Σ elements
//	cap 1        output_match: if less than cap.output_match_below of all outputs compared match, at most cap.score_at_most % of T
//	cap 2        completion: at most T × Σ points of complete sections ÷ Σ points of all sections, where these are above 0.
//	             With cap.completion "partial" each section counts with its share; with "none" there is no such cap
//	given        what is waived counts for nobody: it is neither asked for nor compared, and a section of which all is waived weighs nothing. A credit
//	             goes before what was found, an element's points before all that was computed of it, the whole points before the caps
//
// An output counts as often as its weight in the rubric says. given may be nil.
func Compute(r *rubric.Rubric, layer1 *check.Findings, layer2 *outputs.Findings, judged Judgements, given *Given) *Score {
	if layer1 == nil {
		layer1 = &check.Findings{Empty: true}
	}
	if layer2 == nil {
		layer2 = &outputs.Findings{}
	}
	if given == nil {
		given = &Given{}
	}
	c := &computer{rubric: r, layer1: layer1, layer2: layer2, judged: judged, given: given}
	total := r.Info.TotalPoints
	s := &Score{Max: asPoints(total), Elements: []Element{}, Caps: []Cap{}, Reasons: []string{}}
	base, sum := new(big.Rat), at(new(big.Rat))
	for i := range r.Elements {
		element, b, points := c.element(&r.Elements[i])
		s.Elements = append(s.Elements, element)
		base.Add(base, b)
		sum.add(points)
	}
	s.Base, s.Adjusted = asPoints(base), asPoints(sum.points)
	s.say("by the checks and the outputs: %s of %s", show(base), show(total))
	if change := minus(sum.points, base); change.Sign() != 0 {
		s.say("by the models' judgements: %s, to %s", signed(change), show(sum.points))
	}
	if c.missing > 0 {
		s.say("criteria without a judgement that counts: %d, so between %s and %s before any cap", c.missing, show(sum.low), show(sum.high))
	}
	if matched, compared := c.compared(nil); compared.Sign() > 0 && over(matched, compared).Cmp(r.Rules.CapBelow) < 0 {
		s.cap(&sum, "output_match", times(total, over(r.Rules.CapAt, hundred())), fmt.Sprintf("%s of %s compared outputs match, less than %s %%", show(matched), show(compared), show(times(r.Rules.CapBelow, hundred()))))
	}
	if done, all := c.completion(); all.Sign() > 0 {
		what := "sections of %s of %s points are complete"
		if r.Rules.CapCompletion == rubric.PartialToo {
			what = "%s of the sections' %s points are done"
		}
		s.cap(&sum, "completion", times(total, over(done, all)), fmt.Sprintf(what, show(done), show(all)))
	}
	if whole := given.Whole; whole != nil {
		s.say("by the instructor: %s, in place of %s", show(whole), sum)
		sum = at(whole)
	}
	s.Points, s.Low, s.High = asPoints(sum.points), asPoints(sum.low), asPoints(sum.high)
	s.Percent = asPoints(times(over(sum.points, total), hundred()))
	s.Certain = s.Low == s.High
	return s
}

func (s *Score) say(format string, args ...any) {
	s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...))
}

// cap lowers what is above the limit. A cap that lowers nothing is not listed.
func (s *Score) cap(sum *span, name string, limit *big.Rat, why string) {
	if sum.high.Cmp(limit) <= 0 {
		return
	}
	sum.points, sum.low, sum.high = least(sum.points, limit), least(sum.low, limit), least(sum.high, limit)
	reason := fmt.Sprintf("%s: at most %s", why, show(limit))
	s.Caps = append(s.Caps, Cap{name, asPoints(limit), reason})
	s.say("%s, so %s", reason, show(sum.points))
}

// span is points with the range in which they can come to lie.
type span struct{ points, low, high *big.Rat }

// String writes the points, or their range.
func (s span) String() string {
	if s.low.Cmp(s.high) == 0 {
		return show(s.points)
	}
	return show(s.low) + " to " + show(s.high)
}

// at is points that are certain.
func at(r *big.Rat) span {
	return span{new(big.Rat).Set(r), new(big.Rat).Set(r), new(big.Rat).Set(r)}
}

func (s *span) add(o span) {
	s.points.Add(s.points, o.points)
	s.low.Add(s.low, o.low)
	s.high.Add(s.high, o.high)
}

// computer holds what the points of every element rest on.
type computer struct {
	rubric  *rubric.Rubric
	layer1  *check.Findings
	layer2  *outputs.Findings
	judged  Judgements
	given   *Given
	missing int // criteria without a judgement that counts, where one could change the points
}

// element scores one element: its record, and exactly its base and its points.
func (c *computer) element(e *rubric.Element) (Element, *big.Rat, span) {
	worth := worth(c.rubric, e)
	out := Element{ID: e.ID, Max: asPoints(worth), Outputs: -1, Reasons: []string{}, Criteria: []Criterion{}}
	sections := c.sections(e)
	matched, compared := c.compared(sections)
	missing := c.missing
	byOutputs := new(big.Rat) // share
	if compared.Sign() > 0 {
		byOutputs = c.rubric.Rules.OutputShare
		if c.nothing(sections) {
			byOutputs = one()
		}
	}
	byChecks := minus(one(), byOutputs)

	share, base := new(big.Rat), new(big.Rat)
	sum := at(base)
	switch systematic := c.systematic(sections, times(worth, byChecks), &out); {
	case systematic != nil:
		share = times(byChecks, systematic)
		out.Systematic = asShare(systematic)
	case compared.Sign() == 0: // a person decides
		share, out.Systematic = half(), -1
		sum.high = new(big.Rat).Set(worth)
	default:
		out.Systematic = -1
	}
	if compared.Sign() > 0 {
		o := over(matched, compared)
		share.Add(share, times(byOutputs, o))
		out.Outputs = asShare(o)
		out.say("outputs: %s of %s match: %s of %s", show(matched), show(compared), show(times(worth, times(byOutputs, o))), show(times(worth, byOutputs)))
	}
	if sum.high.Sign() == 0 {
		base = times(worth, share)
		sum = at(base)
	}
	out.Base = asPoints(base)

	for i := range e.Criteria {
		sum.add(c.criterion(e, &e.Criteria[i], worth, share, &out))
	}
	zero := new(big.Rat)
	sum = span{clamp(sum.points, zero, worth), clamp(sum.low, zero, worth), clamp(sum.high, zero, worth)}
	if points := c.given.Elements[e.ID]; points != nil {
		out.say("by the instructor: %s, in place of %s", show(points), sum)
		sum, c.missing = at(points), missing
	}
	out.Points, out.Low, out.High = asPoints(sum.points), asPoints(sum.low), asPoints(sum.high)
	return out, base, sum
}

// worth is what an element's full marks are, in points of the total.
func worth(r *rubric.Rubric, e *rubric.Element) *big.Rat { return times(e.Weight, r.Info.TotalPoints) }

// Worth is that as a figure.
func Worth(r *rubric.Rubric, e *rubric.Element) float64 { return asPoints(worth(r, e)) }

func (e *Element) say(format string, args ...any) {
	e.Reasons = append(e.Reasons, fmt.Sprintf(format, args...))
}

// sections are those that an element is about; all, if there are none of these.
func (c *computer) sections(e *rubric.Element) []*rubric.Section {
	var own, all []*rubric.Section
	for i := range c.rubric.Sections {
		s := &c.rubric.Sections[i]
		if all = append(all, s); slices.Contains(e.Sections, s.ID) {
			own = append(own, s)
		}
	}
	if len(own) == 0 {
		return all
	}
	return own
}

// compared counts the outputs of some sections, of all if there are none, by their weights.
func (c *computer) compared(sections []*rubric.Section) (matched, compared *big.Rat) {
	matched, compared = new(big.Rat), new(big.Rat)
	for i := range c.layer2.Comparisons {
		o := &c.layer2.Comparisons[i]
		thing := Thing{Output, o.Section, o.Key}
		elsewhere := sections != nil && o.Section != "" && !slices.ContainsFunc(sections, func(s *rubric.Section) bool { return s.ID == o.Section })
		if !o.Counts() || elsewhere || c.given.Waived[thing] {
			continue
		}
		weight, credit := one(), c.given.Credits[thing]
		if rule, ok := c.rubric.Outputs[o.Key]; ok {
			weight = rule.Weight
		}
		if credit == nil && o.Verdict == outputs.Match {
			credit = one()
		}
		compared.Add(compared, weight)
		if credit != nil {
			matched.Add(matched, times(weight, credit))
		}
	}
	return matched, compared
}

// systematic is the share of layer 1. Its reasons divide worth among the sections.
func (c *computer) systematic(sections []*rubric.Section, worth *big.Rat, out *Element) *big.Rat {
	if len(sections) == 0 {
		return c.unsectioned(worth, out)
	}
	if sections = slices.DeleteFunc(slices.Clone(sections), c.waived); len(sections) == 0 {
		if worth.Sign() > 0 {
			out.say("nothing to check: nothing that it asks for counts, so a person decides from 0 to %s", show(worth))
		}
		return nil
	}
	weights, all := make([]*big.Rat, len(sections)), new(big.Rat)
	for i, s := range sections {
		weights[i] = s.Points
		all.Add(all, s.Points)
	}
	if all.Sign() == 0 {
		for i := range weights {
			weights[i] = one()
		}
		all.SetInt64(int64(len(weights)))
	}
	share := new(big.Rat)
	for i, s := range sections {
		of := times(worth, over(weights[i], all))
		part, what := c.section(s)
		share.Add(share, over(times(weights[i], part), all))
		out.say("%s: %s: %s of %s", short(s.ID), what, show(times(of, part)), show(of))
	}
	return share
}

// unsectioned is the share of layer 1 by a rubric without sections; nil if it says nothing.
func (c *computer) unsectioned(worth *big.Rat, out *Element) *big.Rat {
	if c.nothing(nil) {
		if worth.Sign() > 0 {
			out.say("nothing to check: the rubric names neither sections nor anything required, so a person decides from 0 to %s", show(worth))
		}
		return nil
	}
	share, what := c.items("")
	name := "what is required"
	if share == nil {
		share, name, what = new(big.Rat), "nothing to check", "the rubric names neither sections nor anything required, and the notebook is empty"
	}
	out.say("%s: %s: %s of %s", name, what, show(times(worth, share)), show(worth))
	return share
}

// nothing reports whether nothing that counts is asked for in some sections or, if the rubric has none, of a notebook that is not empty.
func (c *computer) nothing(sections []*rubric.Section) bool {
	if len(sections) > 0 {
		return !slices.ContainsFunc(sections, func(s *rubric.Section) bool { return !c.waived(s) })
	}
	share, _ := c.items("")
	return share == nil && !c.layer1.Empty
}

// waived reports whether all that a section asks for counts for nobody.
func (c *computer) waived(s *rubric.Section) bool {
	if c.given.Waived[Thing{Kind: Section, Section: s.ID, Name: s.Name}] {
		return true
	}
	asked := 0
	for _, item := range c.layer1.Items {
		if item.Section != s.ID {
			continue
		}
		if asked++; !c.given.Waived[ThingOf(item)] {
			return false
		}
	}
	return asked > 0
}

// section is the share of one section, with its reason.
func (c *computer) section(s *rubric.Section) (*big.Rat, string) {
	share, what := c.items(s.ID)
	switch {
	case share != nil:
		return share, what
	case c.complete(s):
		return one(), "asks for nothing by name and is complete"
	}
	return new(big.Rat), "asks for nothing by name and is not complete"
}

// items is the share of what a section asks for, nil if that is nothing.
func (c *computer) items(section string) (*big.Rat, string) {
	found, asked := new(big.Rat), new(big.Rat)
	var lacks []string
	for _, item := range c.layer1.Items {
		thing := ThingOf(item)
		if item.Section != section || c.given.Waived[thing] {
			continue
		}
		weight := one()
		if item.Kind == check.Test {
			weight.SetFloat64(item.Points)
		}
		asked.Add(asked, weight)
		share, lack := c.item(item)
		found.Add(found, times(weight, share))
		if lack != "" {
			lacks = append(lacks, fmt.Sprintf("%s %s", item.Kind, lack))
		}
	}
	if asked.Sign() == 0 {
		return nil, ""
	}
	what := fmt.Sprintf("%s of %s things found", show(found), show(asked))
	if asked.Cmp(one()) == 0 {
		what = fmt.Sprintf("%s of 1 thing found", show(found))
	}
	if len(lacks) > 0 {
		what += " (" + strings.Join(lacks, ", ") + ")"
	}
	return over(found, asked), what
}

// item is the share that one item counts, with what it lacks, "" if nothing.
func (c *computer) item(item check.Item) (*big.Rat, string) {
	name := short(item.Name)
	if item.Kind != "question" {
		name = strings.ReplaceAll(name, "|", " or ") // either will do
	}
	if credit := c.given.Credits[ThingOf(item)]; credit != nil {
		return credit, fmt.Sprintf("%s by the instructor: %s", name, show(credit))
	}
	switch item.Status {
	case check.Found:
		return one(), ""
	case check.NotRun:
		return half(), name + " never run: half"
	case check.Failed:
		if item.Kind == check.Test {
			return new(big.Rat), name + " fails"
		}
		return half(), name + " ends in an error: half"
	case check.Placeholder:
		return new(big.Rat), name + " left as in the template"
	}
	return new(big.Rat), name + " missing"
}

// complete reports whether all that a section asks for counts in full or, if it asks for nothing, whether layer 1 found it complete.
func (c *computer) complete(s *rubric.Section) bool {
	if share, _ := c.items(s.ID); share != nil {
		return share.Cmp(one()) == 0
	}
	return slices.ContainsFunc(c.layer1.Sections, func(f check.Section) bool { return f.ID == s.ID && f.Completeness == check.Complete })
}

// completion is the points of the sections as far as they count as done, and those of all; 0 of 0 if there is no such cap.
func (c *computer) completion() (done, all *big.Rat) {
	done, all = new(big.Rat), new(big.Rat)
	if c.rubric.Rules.CapCompletion == rubric.Uncapped {
		return done, all
	}
	for i := range c.rubric.Sections {
		s := &c.rubric.Sections[i]
		if c.waived(s) {
			continue
		}
		all.Add(all, s.Points)
		if c.complete(s) {
			done.Add(done, s.Points)
		} else if c.rubric.Rules.CapCompletion == rubric.PartialToo {
			share, _ := c.section(s)
			done.Add(done, times(s.Points, share))
		}
	}
	return done, all
}

// criterion is what a judgement changes about an element that is worth so many points and has so large a share of them by layers 1 and 2.
func (c *computer) criterion(e *rubric.Element, k *rubric.Criterion, worth, share *big.Rat, out *Element) span {
	points := new(big.Rat)
	if e.MaxPoints.Sign() > 0 {
		points.Quo(times(worth, k.Points), e.MaxPoints)
	}
	bound := times(points, k.Bound)
	change := func(v Verdict) *big.Rat {
		aim := new(big.Rat)
		switch v {
		case Met:
			aim.Set(points)
		case Partly:
			aim.Mul(points, half())
		case NotMet:
		default:
			return aim
		}
		return clamp(aim.Sub(aim, times(points, share)), new(big.Rat).Neg(bound), bound)
	}
	record := Criterion{ID: k.ID, Text: k.Text, Judge: string(k.Judge), Points: asPoints(points), Bound: asPoints(bound)}
	if k.Judge == rubric.JudgeNobody || c.given.Waived[Thing{Kind: CriterionKind, Name: k.ID}] {
		record.Judge, record.Bound = string(rubric.JudgeNobody), 0
		out.Criteria = append(out.Criteria, record)
		return at(new(big.Rat))
	}
	verdict := c.judged[k.Judge][k.ID]
	if slices.Contains(verdicts(), verdict) {
		by := change(verdict)
		record.Verdict, record.Change = verdict, asPoints(by)
		out.Criteria = append(out.Criteria, record)
		out.say("criterion %s (%s model: %s): %s, bound ±%s", short(k.ID), k.Judge, strings.ReplaceAll(string(verdict), "_", " "), signed(by), show(bound))
		return at(by)
	}
	out.Criteria = append(out.Criteria, record)
	open := at(new(big.Rat))
	for _, v := range verdicts() {
		by := change(v)
		open.low, open.high = least(open.low, by), most(open.high, by)
	}
	if open.low.Cmp(open.high) == 0 {
		out.say("criterion %s (%s model: no judgement that counts): none could change anything", short(k.ID), k.Judge)
		return open
	}
	c.missing++
	out.say("criterion %s (%s model: no judgement that counts): any would change between %s and %s", short(k.ID), k.Judge, signed(open.low), signed(open.high))
	return open
}

func verdicts() []Verdict { return []Verdict{Met, Partly, NotMet, Unclear} }

func one() *big.Rat                { return big.NewRat(1, 1) }
func half() *big.Rat               { return big.NewRat(1, 2) }
func hundred() *big.Rat            { return big.NewRat(100, 1) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func over(a, b *big.Rat) *big.Rat  { return new(big.Rat).Quo(a, b) }

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func most(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func clamp(r, low, high *big.Rat) *big.Rat { return least(most(r, low), high) }

// round rounds half up (of negative numbers, half away from zero) to so many decimals. This is the only place where a number stops being exact.
func round(r *big.Rat, decimals int) float64 {
	f, _ := strconv.ParseFloat(r.FloatString(decimals), 64) // digits that FloatString wrote are a number
	return f + 0                                            // -0 becomes 0
}

// asPoints rounds to hundredths, as points are told.
func asPoints(r *big.Rat) float64 { return round(r, 2) }

// asShare rounds to four decimals.
func asShare(r *big.Rat) float64 { return round(r, 4) }

// show writes points for a person.
func show(r *big.Rat) string { return strconv.FormatFloat(asPoints(r), 'f', -1, 64) }

// signed writes a change of points.
func signed(r *big.Rat) string {
	switch s := show(r); {
	case strings.HasPrefix(s, "-"):
		return "−" + s[1:]
	case s == "0":
		return s
	default:
		return "+" + s
	}
}

// short cuts a name of the rubric to 60 characters.
func short(name string) string {
	if r := []rune(name); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return name
}
