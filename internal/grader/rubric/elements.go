package rubric

import (
	"fmt"
	"math/big"
	"strings"
)

// elements reads rubric_elements: first what each is worth, then its criteria.
func (b *builder) elements(n *node) {
	maxima := b.maxima(n)
	b.total(n, maxima)
	if len(b.bad.list) > 0 && b.Info.TotalPoints == nil {
		return
	}
	weights := b.weights(n, maxima)
	if weights == nil {
		return
	}
	ids := map[string]bool{}
	var differ []string
	for i, e := range n.list {
		worth := new(big.Rat).Mul(weights[i], b.Info.TotalPoints)
		element := Element{ID: e.key, Description: e.get("description").said(), Weight: weights[i], MaxPoints: maxima[i], Sections: b.linked(e)}
		switch {
		case element.MaxPoints == nil:
			element.MaxPoints = worth
		case element.MaxPoints.Sign() == 0 && worth.Sign() > 0:
			b.bad.add(e.get("max_points"), "0 stands there, and weight %s beside it; want more than 0; leave max_points out or set the weight to 0", e.get("weight").show())
			continue
		case e.get("weight") != nil && !near(element.MaxPoints, worth, b.permille(b.Info.TotalPoints)):
			differ = append(differ, fmt.Sprintf("%s (max_points %s, weight × total_points %s)", shorten(e.key), decimal(element.MaxPoints), decimal(worth)))
		}
		element.Criteria = b.criteria(e, &element, ids)
		b.Elements = append(b.Elements, element)
	}
	if len(differ) > 0 {
		b.note(n, "the weight decides what an element is worth, max_points only what full marks are called; they differ in %s", strings.Join(cut(differ), ", "))
	}
}

// maxima reads max_points, nil where there are none.
func (b *builder) maxima(n *node) []*big.Rat {
	list := make([]*big.Rat, len(n.list))
	for i, e := range n.list {
		list[i], _ = e.get("max_points").number()
	}
	return list
}

// given reports whether all elements have a value, and which have none.
func given(n *node, key string) (all bool, without []string) {
	for _, e := range n.list {
		if e.get(key) == nil {
			without = append(without, shorten(e.key))
		}
	}
	return len(without) == 0, without
}

// total reads total_points; left out, it is the sum of max_points.
func (b *builder) total(n *node, maxima []*big.Rat) {
	info := b.root.get("assignment_info")
	if at := info.get("total_points"); at != nil {
		b.Info.TotalPoints, _ = at.number()
		if b.Info.TotalPoints.Sign() == 0 {
			b.bad.add(at, "%s stands there; want a number above 0; raise it, or leave it out for the sum of all max_points", at.show())
		}
		return
	}
	if info == nil {
		info = b.root
	}
	all, without := given(n, "max_points")
	if !all {
		b.bad.addAt(info, "/assignment_info/total_points", "nothing stands there, and %s without max_points cannot be added up; want a number above 0; add total_points, or max_points to all elements", strings.Join(without, ", "))
		return
	}
	if b.Info.TotalPoints = sum(maxima); b.Info.TotalPoints.Sign() == 0 {
		b.bad.addAt(info, "/assignment_info/total_points", "nothing stands there, and all max_points are 0; want a number above 0; add total_points, or raise max_points")
	}
}

// weights are the shares of the elements, exactly 1 together; nil if they cannot be known.
func (b *builder) weights(n *node, maxima []*big.Rat) []*big.Rat {
	_, without := given(n, "weight")
	switch {
	case len(without) == 0:
		return b.ownWeights(n)
	case len(without) < len(n.list):
		b.bad.add(n, "no weight stands in %s, but in the other elements; want it in all or in none (then max_points decide); add or remove weights", strings.Join(without, ", "))
		return nil
	}
	if all, without := given(n, "max_points"); !all {
		b.bad.add(n, "neither a weight nor max_points stand in %s; want a weight in all elements or max_points in all; add them", strings.Join(without, ", "))
		return nil
	}
	if total := sum(maxima); total.Sign() == 0 || !near(total, b.Info.TotalPoints, b.permille(b.Info.TotalPoints)) {
		b.bad.add(n, "the max_points sum to %s (%s), and total_points is %s; want the same; change one of them, or add weights", decimal(total), each(n, "max_points"), decimal(b.Info.TotalPoints))
		return nil
	}
	return shares(maxima)
}

// ownWeights reads weights that are shares (sum 1) or percentages (sum 100); "40%" is either. What rounding leaves open, as 0.33 + 0.33 + 0.333 does, is spread over all.
func (b *builder) ownWeights(n *node) []*big.Rat {
	hundred := big.NewRat(100, 1)
	var ones, hundreds []*big.Rat
	for _, e := range n.list {
		value, percent := e.get("weight").number()
		hundreds = append(hundreds, value)
		if percent {
			value = new(big.Rat).Quo(value, hundred)
		}
		ones = append(ones, value)
	}
	if near(sum(ones), big.NewRat(1, 1), big.NewRat(1, 1000)) {
		return shares(ones)
	}
	if near(sum(hundreds), hundred, big.NewRat(1, 10)) {
		return shares(hundreds)
	}
	b.bad.add(n, "the weights sum to %s (%s); want 1 (±0.001) or, as percentages, 100 (±0.1); change them so that they do", decimal(sum(ones)), each(n, "weight"))
	return nil
}

// shares divides numbers by their sum.
func shares(list []*big.Rat) []*big.Rat {
	total := sum(list)
	out := make([]*big.Rat, len(list))
	for i, r := range list {
		out[i] = new(big.Rat).Quo(r, total)
	}
	return out
}

// each names the value of a key in all elements.
func each(n *node, key string) string {
	var list []string
	for _, e := range n.list {
		list = append(list, shorten(e.key)+" "+e.get(key).show())
	}
	return strings.Join(list, ", ")
}

// permille is a thousandth, within which two sums are the same.
func (b *builder) permille(r *big.Rat) *big.Rat { return new(big.Rat).Quo(r, big.NewRat(1000, 1)) }

// criteria reads the criteria of an element. ids are those of the elements before.
func (b *builder) criteria(n *node, e *Element, ids map[string]bool) []Criterion {
	at := n.get("criteria")
	lines := at.items()
	if at != nil && (at.kind == '"' || at.kind == '{' && len(at.list) > 0) {
		lines = []*node{at}
	}
	var list []Criterion
	var open []int // those whose points are left out
	rest := new(big.Rat).Set(e.MaxPoints)
	for i, line := range lines {
		c := b.criterion(line, e)
		if c.ID == "" {
			c.ID = fmt.Sprintf("%s.%d", e.ID, i+1)
		}
		if ids[c.ID] {
			b.bad.add(line, "%q is its id and that of a criterion before; want each id once; change it, or leave ids out", shorten(c.ID))
		}
		ids[c.ID] = true
		if c.Points == nil {
			open = append(open, i)
		} else {
			rest.Sub(rest, c.Points)
		}
		list = append(list, c)
	}
	if rest.Sign() < 0 {
		b.bad.add(at, "the points of the criteria sum to %s; want no more than the element's max_points, %s; lower them", decimal(new(big.Rat).Sub(e.MaxPoints, rest)), decimal(e.MaxPoints))
	}
	if len(open) > 0 && rest.Sign() == 0 && len(open) < len(list) {
		b.note(at, "the criteria with points leave none for the others, which count for nothing")
	}
	for _, i := range open {
		list[i].Points = new(big.Rat).Quo(rest, big.NewRat(int64(len(open)), 1))
	}
	return list
}

// criterion reads one: a text, an object, or a scale of levels.
func (b *builder) criterion(n *node, e *Element) Criterion {
	c := Criterion{Judge: b.usual(e), Bound: b.Rules.ModelBound}
	switch {
	case n.kind == '"':
		c.Text = n.said()
	case n.key == "criteria":
		var levels []string
		for _, level := range n.list {
			levels = append(levels, strings.TrimSpace(level.key)+": "+level.said())
		}
		c.Text = strings.Join(levels, "; ")
	default:
		c.ID, c.Text = n.get("id").said(), n.get("text").said()
		c.Points, _ = n.get("points").number()
		c.Bound = b.part(n.get("bound"), c.Bound)
		if judge := n.get("judge").said(); judge != "" {
			c.Judge = Judge(judge)
		}
	}
	return c
}

// usual is the judge of an element's criteria that name none.
func (b *builder) usual(e *Element) Judge {
	for _, id := range e.Sections {
		if s, ok := b.Section(id); ok && !s.Markdown {
			return JudgeCode
		}
	}
	if len(e.Sections) == 0 {
		return JudgeCode
	}
	return JudgeFeedback
}
