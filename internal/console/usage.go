package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"tandem/internal/units"
)

const (
	usageDays  = 30
	usageEvery = 5 * time.Second
	usageRows  = 100 // of a table
)

// Usage is what was done for a token on a day.
type Usage struct {
	Day, Token, User                            string // the day as 2026-11-23, by UTC
	Requests, Failed, Prompt, Cached, Generated int64
}

func (u *Usage) add(v Usage) {
	u.Requests, u.Failed = u.Requests+v.Requests, u.Failed+v.Failed
	u.Prompt, u.Cached, u.Generated = u.Prompt+v.Prompt, u.Cached+v.Cached, u.Generated+v.Generated
}

// usage has the page that says who used how much.
func (c *Console) usage(mux *http.ServeMux) {
	var known asked[[]Usage]
	c.view(mux, "/usage", view{title: "Usage", part: "usage.html", same: true, draw: func(r *http.Request) (any, error) {
		if c.usedBy == nil {
			return usagePart{}, nil
		}
		today := time.Now().UTC()
		list, err := known.get(r.Context(), usageEvery, func(ctx context.Context) ([]Usage, error) {
			return c.usedBy(ctx, today.AddDate(0, 0, 1-usageDays).Format(time.DateOnly))
		})
		if err != nil {
			return nil, err
		}
		return usageOf(list, today), nil
	}})
}

// usagePart is the answer to: who used how much?
type usagePart struct {
	Counted bool // or nobody needs a token
	Words   string
	Days    int
	Sum     usageRow
	Tables  []usageTable
	Bars    []usageBar
	Most    string // tokens of the longest bar
	Says    string
	ByDay   []usageRow
}

type usageTable struct {
	ID, Name, Column string
	Rows             []usageRow
	More             int // that are not shown
}

type usageRow struct {
	Name string
	Usage
	Share string // of what all generated and had computed
}

// usageBar is a day in the picture: from the foot up, what was cached, what was computed and what was generated.
type usageBar struct{ X, CachedY, Cached, ComputedY, Computed, GeneratedY, Generated int }

// What the picture of usage measures, in its own units.
const (
	usageWidth, usageHeight = 20, 120
	usageGap                = 6
)

// usageOf sums up what was used until today.
func usageOf(list []Usage, today time.Time) usagePart {
	p := usagePart{Counted: true, Days: usageDays}
	sums := func(name func(Usage) string) map[string]*Usage {
		m := map[string]*Usage{}
		for _, u := range list {
			if m[name(u)] == nil {
				m[name(u)] = &Usage{}
			}
			m[name(u)].add(u)
		}
		return m
	}
	for _, u := range list {
		p.Sum.add(u)
	}
	all := p.Sum.Prompt + p.Sum.Generated
	table := func(id, name, column string, of func(Usage) string) {
		m := sums(of)
		t := usageTable{ID: id, Name: name, Column: column}
		for _, key := range slices.SortedFunc(maps.Keys(m), func(a, b string) int {
			return cmp.Or(cmp.Compare(m[b].Prompt+m[b].Generated, m[a].Prompt+m[a].Generated), cmp.Compare(m[b].Requests, m[a].Requests), cmp.Compare(a, b))
		}) {
			row := usageRow{Name: key, Usage: *m[key], Share: none}
			if all > 0 {
				row.Share = fmt.Sprintf("%.0f %%", 100*float64(row.Prompt+row.Generated)/float64(all))
			}
			t.Rows = append(t.Rows, row)
		}
		if t.More = max(0, len(t.Rows)-usageRows); t.More > 0 {
			t.Rows = t.Rows[:usageRows]
		}
		p.Tables = append(p.Tables, t)
	}
	table("tokens", "By token", "Token", func(u Usage) string { return u.Token })
	table("users", "By user", "User", func(u Usage) string { return u.User })
	days := sums(func(u Usage) string { return u.Day })
	most := int64(1)
	for _, u := range days {
		most = max(most, u.Prompt+u.Generated)
	}
	p.Most = units.Count(most)
	for i := range usageDays {
		day := today.AddDate(0, 0, i+1-usageDays).Format(time.DateOnly)
		u := days[day]
		if u == nil {
			continue
		}
		high := func(n int64) int { return int(n * usageHeight / most) }
		cached := min(u.Cached, u.Prompt)
		b := usageBar{X: i * usageWidth, Cached: high(cached), Computed: high(u.Prompt - cached), Generated: high(u.Generated)}
		b.CachedY = usageHeight - b.Cached
		b.ComputedY = b.CachedY - b.Computed
		b.GeneratedY = b.ComputedY - b.Generated
		p.Bars = append(p.Bars, b)
		p.ByDay = append(p.ByDay, usageRow{Name: day, Usage: *u})
	}
	slices.Reverse(p.ByDay)
	p.Words = fmt.Sprintf("%s in %d days, by %s: %s tokens of prompts, %s generated.",
		count(int(p.Sum.Requests), "request", "requests"), usageDays, count(len(p.Tables[0].Rows)+p.Tables[0].More, "access token", "access tokens"), units.Count(p.Sum.Prompt), units.Count(p.Sum.Generated))
	p.Says = fmt.Sprintf("Tokens a day over the last %d days: at most %s; the table below has each day", usageDays, p.Most)
	return p
}
