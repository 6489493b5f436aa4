package main

import (
	"container/heap"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// problem is to distribute the jobs of each kind over ways so that the busiest resource, a machine or a link, is done soonest.
type problem struct {
	ways   []way
	open   []bool        // which ways may be gone
	counts []float64     // of jobs, for each kind
	costs  [][][]float64 // seconds by kind, way and resource
	fixed  []float64     // seconds by resource, whatever goes which way
}

// A limit bounds how many jobs of a kind go a way.
type limit struct {
	kind, way   int
	least, most float64
}

// node is a part of the search: the jobs distributed within limits, as parts of jobs where that is better.
type node struct {
	limits []limit
	t      float64
	x      [][]float64 // by kind and way
}

const exact = 1e-6 // jobs and seconds

// least is the least time until the last resource is done, or any number of at least enough if it is not below that. The search for whole jobs takes so many
// nodes at most: what it has not reached by then counts as it is, which is still a bound.
func (p *problem) least(enough float64, nodesAtMost int) (float64, error) {
	root, err := p.relaxed(nil)
	if err != nil {
		return 0, err
	}
	open := nodes{root}
	for range nodesAtMost {
		best := open[0]
		if best.t >= enough {
			break
		}
		split := p.fraction(best)
		if split == nil {
			break
		}
		heap.Pop(&open)
		for _, side := range []limit{
			{split.kind, split.way, 0, math.Floor(split.least)},
			{split.kind, split.way, math.Ceil(split.least), math.Inf(1)},
		} {
			child, err := p.relaxed(append(best.limits[:len(best.limits):len(best.limits)], side))
			if err != nil { // numerically hard: what holds for all holds for a part
				child = &node{t: best.t}
			}
			child.t = max(child.t, best.t)
			heap.Push(&open, child)
		}
	}
	return open[0].t, nil
}

// fraction is a number of jobs that is no whole one, the one farthest from it; nil if there is none.
func (p *problem) fraction(n *node) *limit {
	var found *limit
	most := exact
	for k, row := range n.x {
		for w, x := range row {
			if off := math.Abs(x - math.Round(x)); off > most {
				most, found = off, &limit{kind: k, way: w, least: x}
			}
		}
	}
	return found
}

// relaxed solves the problem without regard to whole jobs. One that has no solution takes for ever.
func (p *problem) relaxed(limits []limit) (*node, error) {
	type variable struct{ kind, way int }
	var vars []variable
	for k, list := range p.costs {
		for w := range list {
			if p.open[w] {
				vars = append(vars, variable{k, w})
			}
		}
	}
	n := &node{limits: limits, t: math.Inf(1)}
	if len(vars) == 0 {
		return n, nil
	}
	// Columns: the jobs of each kind on each way, the time, and what each resource and each limit leaves over.
	width := len(vars) + 1 + len(p.fixed) + len(limits)
	a := mat.NewDense(len(p.counts)+len(p.fixed)+len(limits), width, nil)
	b := make([]float64, len(p.counts)+len(p.fixed)+len(limits))
	c := make([]float64, width)
	c[len(vars)] = 1
	for i, v := range vars {
		a.Set(v.kind, i, 1)
		for r, seconds := range p.costs[v.kind][v.way] {
			a.Set(len(p.counts)+r, i, -seconds)
		}
	}
	copy(b, p.counts)
	for r, seconds := range p.fixed {
		row := len(p.counts) + r
		a.Set(row, len(vars), 1)
		a.Set(row, len(vars)+1+r, -1)
		b[row] = seconds
	}
	for i, l := range limits {
		row := len(p.counts) + len(p.fixed) + i
		for j, v := range vars {
			if v.kind == l.kind && v.way == l.way {
				a.Set(row, j, 1)
			}
		}
		a.Set(row, len(vars)+1+len(p.fixed)+i, 1)
		if b[row] = l.most; l.least > 0 {
			a.Set(row, len(vars)+1+len(p.fixed)+i, -1)
			b[row] = l.least
		}
	}
	t, x, err := lp.Simplex(c, a, b, 1e-9, nil)
	if err == lp.ErrInfeasible {
		return n, nil
	}
	if err != nil {
		return nil, err
	}
	n.t = t
	n.x = make([][]float64, len(p.counts))
	for k := range n.x {
		n.x[k] = make([]float64, len(p.ways))
	}
	for i, v := range vars {
		n.x[v.kind][v.way] = x[i]
	}
	return n, nil
}

// nodes are a heap, the least time on top.
type nodes []*node

func (n nodes) Len() int           { return len(n) }
func (n nodes) Less(i, j int) bool { return n[i].t < n[j].t }
func (n nodes) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }

// Push implements heap.Interface.
func (n *nodes) Push(x any) { *n = append(*n, x.(*node)) }

// Pop implements heap.Interface.
func (n *nodes) Pop() any {
	last := (*n)[len(*n)-1]
	*n = (*n)[:len(*n)-1]
	return last
}
