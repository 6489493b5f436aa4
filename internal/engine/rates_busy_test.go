package engine_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

func TestMeanBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := engine.NewSlots(3)
		take := func() func() {
			release, err := s.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		start := time.Now()
		<-time.After(time.Second)
		first := take()
		<-time.After(2 * time.Second)
		take()
		<-time.After(time.Second)
		first()
		<-time.After(4 * time.Second) // 0 for 1 s, 1 for 2 s, 2 for 1 s, 1 for 4 s
		for _, c := range []struct {
			from, to, want float64 // seconds
		}{{0, 1, 0}, {0, 8, 1}, {1, 3, 1}, {2, 4, 1.5}, {3, 4, 2}, {3.5, 4.5, 1.5}, {5, 8, 1}, {-2, 2, 0.25}, {4, 4, 0}, {4, 3, 0}} {
			at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
			if got := s.MeanBusy(at(c.from), at(c.to)); !near(got, c.want) {
				t.Errorf("from %v to %v s: %v busy, want %v", c.from, c.to, got, c.want)
			}
		}
		for range 5000 {
			<-time.After(time.Millisecond)
			take()()
		}
		<-time.After(time.Second)
		if got, now := s.MeanBusy(time.Now().Add(-time.Second), time.Now()), 1.0; got != now {
			t.Errorf("after many changes %v busy, want %v", got, now)
		}
	})
}

// With several at once a machine generates more in all and less for each, which says nothing of one alone.
func TestRatesByBusySlots(t *testing.T) {
	speeds := func(r *engine.Rates) engine.Speeds {
		return engine.SpeedsOf("gpt-oss:120b", protocol.RoleDecode, r.Snapshot())
	}
	var cold engine.Rates
	for before, busy := 2.0, 1; busy <= 64; busy *= 2 {
		got := speeds(&cold).DecodeBusy(4096, busy)
		one := got.Value / speeds(&cold).Decode(4096).Value
		if got.Measured || one >= before || one*float64(busy) < 1 {
			t.Errorf("%d at once: %+v, %v of one alone; before it was %v", busy, got, one, before)
		}
		before = one
	}
	var r engine.Rates
	r.ObserveDecode(2000, 100, 1, time.Second)
	r.ObserveDecode(2000, 100, 1.2, time.Second)
	for range 3 {
		r.ObserveDecode(2000, 30, 3.7, time.Second)
	}
	s := speeds(&r)
	if got := s.Decode(1448); !got.Measured || !near(got.Value, 100) {
		t.Errorf("alone %+v, want 100 tokens a second", got)
	}
	for busy, want := range map[int]float64{0: 100, 1: 100, 2: 47, 4: 30, 8: 19} {
		if got := s.DecodeBusy(1448, busy); !got.Measured || got.Value < want*0.9 || got.Value > want*1.1 {
			t.Errorf("%d at once: %+v, want about %v", busy, got, want)
		}
	}
	r.ObserveDecode(2000, 90, 2, time.Second)
	if two, three, four := speeds(&r).DecodeBusy(1448, 2), speeds(&r).DecodeBusy(1448, 3), speeds(&r).DecodeBusy(1448, 4); !near(two.Value, 90) || three.Value >= two.Value || three.Value <= four.Value {
		t.Errorf("two at once %+v, three %+v, four %+v", two, three, four)
	}
	// Where nothing is known of one alone, what several did is what they will do.
	var full engine.Rates
	full.ObserveDecode(2000, 30, 4, time.Second)
	if got := speeds(&full).DecodeBusy(1448, 4).Value; !near(got, 30) {
		t.Errorf("four at once: %v, want 30", got)
	}
	if got := speeds(&full).Decode(1448); got.Value < 40 || got.Value > 120 {
		t.Errorf("one alone, judged by four: %+v", got)
	}
	fast := engine.SpeedsOf("m", protocol.RoleDecode, protocol.Rates{DecodeByLength: map[string]float64{"2k": 100}, DecodeByBusy: map[string]float64{"4": 1, "odd": 0.1, "8": -1}})
	if got := fast.DecodeBusy(1448, 2).Value; !near(got, 100) {
		t.Errorf("two at once: %v, want no more than 100 of one alone", got)
	}
}

// A prompt that is computed beside other work tells of a slow engine only if its share of it was not all.
func TestPrefillBesideOtherWork(t *testing.T) {
	for _, c := range []struct{ perSecond, busy, low, high float64 }{
		{600, 2, 999, 1001},   // half of the engine would do 500
		{400, 2, 959, 961},    // it is at most at 800
		{300, 4, 999, 1001},   // a quarter would do 250
		{1500, 4, 1099, 1101}, // faster all the same
		{400, 1.1, 879, 881},  // as good as alone
	} {
		var r engine.Rates
		prompts(&r, 1000, 2000)
		r.ObservePrefill(0, 2000, 2000, c.busy, time.Duration(2000/c.perSecond*float64(time.Second)))
		if got := r.Snapshot().PrefillByLength["2k"]; got < c.low || got > c.high {
			t.Errorf("%v tokens a second with %v busy: %v, want %v to %v", c.perSecond, c.busy, got, c.low, c.high)
		}
		r.ObservePrefill(0, 8000, 8000, 3, time.Hour)
		if _, there := r.Snapshot().PrefillByLength["8k"]; there {
			t.Error("a length of prompt is known by what was computed beside other work")
		}
	}
	var r engine.Rates
	r.ObservePrefill(0, 2000, 2000, 3, 10*time.Second)
	if got := r.Snapshot().PrefillByLength["2k"]; got != 200 {
		t.Errorf("where nothing else is known: %v", got)
	}
}

func TestAnswersByKind(t *testing.T) {
	job := func(kind string) string {
		return engine.KindOf(&jobs.Job{Labels: map[string]string{jobs.LabelKind: kind, "student": "Ada"}})
	}
	var r engine.Rates
	generated := func(kind string) float64 {
		return engine.SpeedsOf("m", protocol.RoleDecode, r.Snapshot()).Generated(kind, -1).Value
	}
	if got := generated("code"); got != 400 {
		t.Errorf("before any job %v tokens", got)
	}
	r.ObserveAnswer(job("code"), -1, 100)
	r.ObserveAnswer(job("feedback"), -1, 1000)
	r.ObserveAnswer(job("feedback"), -1, 1100)
	r.ObserveAnswer(job(""), -1, 280)
	before := r.Snapshot().GeneratedByKind
	if !near(generated("code"), 100) || !near(generated("feedback"), 1020) || generated("other") != generated("") || generated("") < 200 || generated("") > 500 {
		t.Errorf("code %v, feedback %v, other %v, none %v tokens", generated("code"), generated("feedback"), generated("other"), generated(""))
	}
	for i := range 20 {
		r.ObserveAnswer(job(fmt.Sprint("kind-", i)), -1, 10)
		r.ObserveAnswer(job("code"), -1, 100)
	}
	list := r.Snapshot().GeneratedByKind
	if len(list) != 16 || list[0].Kind != "code" || list[1].Kind != "kind-19" || !near(generated("code"), 100) || generated("feedback") > 500 {
		t.Errorf("after many kinds %+v, want the last 16", list)
	}
	if len(before) != 2 || before[0].Kind != "feedback" || !near(before[0].Tokens, 1020) {
		t.Errorf("an earlier snapshot changed: %+v", before)
	}
	for _, text := range []string{"Ada Lovelace", strings.Repeat("x", 33), "Ünder", "a/b", "=0011223344556677"} {
		if got := job(text); len(got) > 32 || !strings.HasPrefix(got, "=") || strings.Contains(text, got[1:]) {
			t.Errorf("kind %q of %q", got, text)
		}
	}
	if job("Ada Lovelace") == job("Ada Byron") || job("code_v2-B") != "code_v2-B" || engine.KindOf(&jobs.Job{}) != "" {
		t.Error("kinds are not told apart, or a plain one is changed")
	}
	odd := []protocol.KindTokens{{Kind: "", Tokens: 5}, {Kind: strings.Repeat("k", 40), Tokens: 5}, {Kind: "code", Tokens: -1}, {Kind: "fine", Tokens: 7}}
	odd = append(odd, make([]protocol.KindTokens, 100)...)
	s := engine.SpeedsOf("m", protocol.RoleDecode, protocol.Rates{GeneratedByKind: odd, GeneratedTokens: 9})
	if s.Generated("fine", -1).Value != 7 || s.Generated("code", -1).Value != 9 || s.Generated("", -1).Value != 9 {
		t.Errorf("what others write of kinds was taken: %v %v %v", s.Generated("fine", -1), s.Generated("code", -1), s.Generated("", -1))
	}
}

// Rates of another build or type of cache are of no use; what jobs are like, and links, stay as they are.
func TestRatesOfAnotherBuild(t *testing.T) {
	was := engine.Subject{ModelDigest: "d", EngineVersion: "b1", Cache: "f16 f16"}
	for name, c := range map[string]struct {
		is   engine.Subject
		kept bool
	}{
		"the same":              {was, true},
		"not known whether":     {engine.Subject{ModelDigest: "d"}, true},
		"another version":       {engine.Subject{ModelDigest: "d", EngineVersion: "b2", Cache: "f16 f16"}, false},
		"another type of cache": {engine.Subject{ModelDigest: "d", EngineVersion: "b1", Cache: "q8_0 q8_0"}, false},
	} {
		path := t.TempDir() + "/rates.json"
		log, said := logged()
		about := was
		var r engine.Rates
		prompts(&r, 1000, 2000)
		r.ObserveDecode(2000, 100, 1, time.Second)
		r.ObserveAnswer("code", -1, 100)
		r.ObserveLink("spark", 1e9, time.Second)
		keepOf(t, &r, path, func() engine.Subject { return about }, log)()

		var next engine.Rates
		if err := next.Begin(path, c.is); err != nil {
			t.Fatal(err)
		}
		if got := next.Snapshot(); next.Known(1) != c.kept || got.LinkBytesPerSecond["spark"] != 1e9 || len(got.GeneratedByKind) != 1 {
			t.Errorf("%s: speeds known %t, want %t; kept %+v", name, next.Known(1), c.kept, got)
		}
		old := strings.NewReplacer(`"engine_version": "b1",`, "", `"cache": "f16 f16",`, "") // as earlier versions of this program wrote it
		if data, err := os.ReadFile(path); err != nil || os.WriteFile(path+".old", []byte(old.Replace(string(data))), 0o600) != nil {
			t.Fatal("the file cannot be rewritten", err)
		}
		var later engine.Rates
		if err := later.Begin(path+".old", c.is); err != nil || !later.Known(1) {
			t.Errorf("%s, with a file that does not say: error %v, speeds known %t", name, err, later.Known(1))
		}
		// The same when the engine is exchanged while the worker runs.
		if err := r.Begin(path, c.is); err != nil || r.Known(1) != c.kept || !maps.Equal(r.Snapshot().LinkBytesPerSecond, map[string]float64{"spark": 1e9}) {
			t.Errorf("%s, meanwhile: error %v, speeds known %t, want %t", name, err, r.Known(1), c.kept)
		}
		if said.Len() > 0 {
			t.Errorf("%s: logged %s", name, said)
		}
	}
}

// Who asks for more, and gets it, will again; who names limits that say nothing of answers is not believed.
func TestAnswersByLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limits, answers []int // by turns
		want            map[int]float64
	}{
		"the same share":        {[]int{300, 600, 1500}, []int{200, 400, 1000}, map[int]float64{300: 200, 1800: 1200}},
		"limits all the same":   {[]int{300}, []int{200}, map[int]float64{-1: 200, 300: 200, 1800: 1200, 100: 200. / 3}},
		"the same length":       {[]int{200, 2000}, []int{100, 100}, map[int]float64{-1: 100, 200: 100, 2000: 100, 50: 50}},
		"no limits":             {[]int{-1}, []int{200}, map[int]float64{-1: 200, 1000: 200, 100: 100}},
		"nothing may be said":   {[]int{0}, []int{0}, map[int]float64{0: 0, 100: 100, 1000: 400}},
		"limits now, none then": {[]int{-1, 300}, []int{200, 200}, map[int]float64{-1: 200, 600: 400}},
	} {
		var r engine.Rates
		for i := range 30 {
			for _, kind := range []string{"", "k"} {
				r.ObserveAnswer(kind, c.limits[i%len(c.limits)], c.answers[i%len(c.answers)])
			}
		}
		s := engine.SpeedsOf("m", protocol.RoleDecode, r.Snapshot())
		for limit, want := range c.want {
			for _, kind := range []string{"", "k"} {
				if got := s.Generated(kind, limit).Value; math.Abs(got-want) > 0.01*want {
					t.Errorf("%s: an answer of at most %d tokens, kind %q, has %v, want %v", name, limit, kind, got, want)
				}
			}
		}
	}
}

// Once limits told nothing of answers, and now they do: that is noticed.
func TestLimitsThatBeginToTell(t *testing.T) {
	var r engine.Rates
	limits := []int{200, 800, 400, 1600}
	for i := range 40 { // as long whatever the limit
		r.ObserveAnswer("code", limits[i%len(limits)], 100)
	}
	of := func(limit int) float64 {
		return engine.SpeedsOf("m", protocol.RoleDecode, r.Snapshot()).Generated("code", limit).Value
	}
	if got := of(1600); math.Abs(got-100) > 1 {
		t.Fatalf("an answer of at most 1,600 tokens has %v, want 100", got)
	}
	for i := range 80 { // half of it
		limit := limits[i%len(limits)]
		r.ObserveAnswer("code", limit, limit/2)
	}
	if got := of(1600); math.Abs(got-800) > 40 {
		t.Errorf("an answer of at most 1,600 tokens has %v, want 800", got)
	}
}
