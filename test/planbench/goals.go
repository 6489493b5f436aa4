package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// goal is something that has to be kept on a row.
type goal struct {
	Name       string
	Got, Limit float64
	Met        bool
	Least      float64 `json:",omitempty"`
}

func (g goal) String() string {
	if g.Least > 0 {
		return fmt.Sprintf("%s %.3f, %.2f to %.2f", g.Name, g.Got, g.Least, g.Limit)
	}
	return fmt.Sprintf("%s %.3f, at most %.2f", g.Name, g.Got, g.Limit)
}

// How long auto may take, as a share.
const (
	ofBoundMany     = 1.03 // of the lower bound, with 60 jobs or more
	ofBoundFew      = 1.08 // … with fewer
	manyJobs        = 60
	ofBestOther     = 1.02  // of the best other policy
	closeToBound    = 1.03  // of the lower bound, where the share of two whole machines below cannot be asked for
	fasterThanBound = 1.005 // bound ÷ time, what a timer may be off by
	sparkAndMac     = "spark-mac"
	ofWhole2500     = 0.97 // of whole machines, for 60 jobs on a Spark and a Mac: class-2500
	ofWhole10800    = 0.86 // … class-10800
	nameClass2500   = "class-2500"
	nameClassLong   = "class-10800"
	foretoldOff     = 0.1 // by which share what was foretold may be off
)

// bestOther is the policy other than auto that took least time, and its seconds; 0 if there is none.
func (r *row) bestOther() (policy string, seconds float64) {
	for _, o := range r.Outcomes {
		if s := r.seconds(o.Policy); o.Policy != auto && (seconds == 0 || s < seconds) {
			policy, seconds = o.Policy, s
		}
	}
	return policy, seconds
}

// goals are those that can be told from the policies that were measured. Every policy must have a right result for each job, and none may be faster than
// the bound: then the bound, or the measure, is wrong.
func (r *row) goals() (list []goal) {
	for _, o := range r.Outcomes {
		list = append(list, goal{Name: "wrong results of " + o.Policy, Got: float64(len(o.Wrong)), Met: len(o.Wrong) == 0})
		if faster := r.Bound / r.seconds(o.Policy); faster > fasterThanBound {
			list = append(list, goal{Name: "bound ÷ " + o.Policy, Got: faster, Limit: fasterThanBound})
		}
		if f := r.foretold(o); f > 0 && !r.Slows {
			list = append(list, goal{"foretold ÷ " + o.Policy, f, 1 + foretoldOff, math.Abs(f-1) <= foretoldOff, 1 - foretoldOff})
		}
	}
	took := r.seconds(auto)
	if took == 0 {
		return list
	}
	add := func(name string, got, limit float64, or bool) {
		list = append(list, goal{Name: name, Got: got, Limit: limit, Met: got <= limit || or})
	}
	limit := ofBoundMany
	if r.Jobs < manyJobs {
		limit = ofBoundFew
	}
	add("÷ bound", took/r.Bound, limit, false)
	if _, best := r.bestOther(); best > 0 {
		add("÷ best other", took/best, ofBestOther, false)
	}
	if whole := r.seconds(wholeMachines); whole > 0 && r.Jobs >= manyJobs && strings.HasPrefix(r.Fleet, sparkAndMac) {
		near := took/r.Bound <= closeToBound
		switch r.Load {
		case nameClass2500:
			add("÷ whole machines", took/whole, ofWhole2500, near)
		case nameClassLong:
			add("÷ whole machines", took/whole, ofWhole10800, near)
		}
	}
	return list
}

// verdict is what the goals come to in a table.
func verdict(list []goal) string {
	missed := slices.DeleteFunc(slices.Clone(list), func(g goal) bool { return g.Met })
	if len(missed) == 0 {
		return "met"
	}
	var names []string
	for _, g := range missed {
		names = append(names, g.String())
	}
	return "NOT MET: " + strings.Join(names, "; ")
}
