package engines

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"tandem/internal/tinymodel"
	"tandem/jobs"
)

// TestClassWithFailures: of a class, some states come and some do not, while others are computed and decoded beside them.
func TestClassWithFailures(t *testing.T) {
	t.Parallel()
	const students, failing = 8, 3
	spec := tinymodel.Tiny(tinymodel.BPE)
	p := newPair(t, ollamaMachine(t, spec, 2), ollamaMachine(t, spec, 2))
	p.with(nil, nil)
	p.nothingLeft()
	_, there := p.there.inner()
	_, here := p.here.inner()

	faults := []struct {
		fault fault
		want  jobs.Failure
	}{{flipped, jobs.FailDigest}, {broken, jobs.FailTruncated}, {unknown, jobs.FailNotFound}, {silent, jobs.FailUnreachable}}
	random := rand.New(rand.NewPCG(8, 3))
	plan, want := make([]fault, students), make([]jobs.Failure, students) // of the states, in the order in which they are fetched
	for _, i := range random.Perm(students)[:failing] {
		f := faults[random.IntN(len(faults))]
		plan[i], want[i] = f.fault, f.want
	}
	var mu sync.Mutex
	var order []string
	p.link.spoil(func(l *link, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		i := slices.Index(order, r.URL.Path)
		if i < 0 {
			i = len(order)
			order = append(order, r.URL.Path)
		}
		mu.Unlock()
		if i < students && plan[i] != nil {
			plan[i](l, w, r)
			return
		}
		l.ask(r).send(w)
	})

	class, results := make([]*jobs.Job, students), make([]*jobs.Result, students)
	var running sync.WaitGroup
	for i := range students {
		class[i] = job(fmt.Sprintf("%s has handed in:\n%s", strings.Repeat(string(rune('A'+i)), 3), lines("own", 12+i)), 0)
		running.Go(func() { results[i] = p.run(class[i]) })
	}
	running.Wait()
	p.link.spoil(nil)

	var have []jobs.Failure
	for i, r := range results {
		if r == nil || r.Handover == nil {
			t.Fatalf("student %d: no report: %+v", i, r)
		}
		if have = append(have, r.Handover.Failure); r.Handover.Failure == "" {
			p.handedOver(r, class[i])
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the hand-overs ended with %q, want %q", have, want)
	}
	_, there2 := p.there.inner()
	if _, here2 := p.here.inner(); there2 != there || here2 != here {
		t.Error("an engine was started again")
	}
	before := p.checkedStart()
	p.there.restart(t) // to be asked for what it has read already
	p.eventually("the engine that was started again is checked, before anybody else asks it", func() error {
		if now := p.checkedStart(); now == "" || now == before {
			return fmt.Errorf("checked is %q, before it was %q; the workers are %+v", now, before, p.workers())
		}
		return nil
	})
	for i, r := range results {
		if f := r.Handover.Failure; f != "" {
			p.failed(r, f, class[i])
		}
	}
	p.normal("afterwards")
	p.nothingLeft()
}
