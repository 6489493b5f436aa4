package engine

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/internal/protocol"
	"tandem/internal/schedule"
	"tandem/jobs"
)

func TestTextAndSize(t *testing.T) {
	j := &jobs.Job{Prompt: strings.Repeat("x", 8000), SharedPrefix: 6000}
	z := TextOf(j).Size(4, 500)
	if want := (Size{Tokens: 2000, Prefix: 1500, Generated: 500, Key: z.Key}); z != want || z.Key == "" {
		t.Errorf("%+v, want %+v", z, want)
	}
	j.SharedPrefix, j.Options.NumPredict = 0, new(100)
	if text := TextOf(j); text.Limit != 100 || text.Size(3.999, 50) != (Size{Tokens: 2001, Generated: 50}) {
		t.Errorf("%+v, %+v", text, text.Size(3.999, 50))
	}
}

func TestAnswerAndBytesPerToken(t *testing.T) {
	list := []Peer{{Role: protocol.RolePrefill}, {Role: protocol.RoleDecode, Rates: protocol.Rates{GeneratedTokens: 50, PromptBytesPerToken: 2}}, {Rates: protocol.Rates{GeneratedTokens: 70, PromptBytesPerToken: 9}}}
	if a, b := Answer("m", "", -1, list), BytesPerToken(list); a != (Speed{50, true}) || b != (Speed{2, true}) {
		t.Errorf("answers of %+v tokens, %+v bytes a token", a, b)
	}
	if a, b := Answer("m", "", 100, nil), BytesPerToken(list[:1]); a != (Speed{100, false}) || b != (Speed{coldBytesPerToken, false}) {
		t.Errorf("with nothing measured: answers of %+v tokens, %+v bytes a token", a, b)
	}
}

func TestKinds(t *testing.T) {
	kinds, lots := Kinds([]Size{{1500, 500, 100, "a"}, {1511, 500, 101, "a"}, {1500, 500, 100, "b"}, {1505, 500, 102, "a"}, {2600, 500, 100, "a"}})
	if want := []Size{{1505, 500, 101, "a"}, {1500, 500, 100, "b"}, {2600, 500, 100, "a"}}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %+v, want %+v", kinds, want)
	}
	if want := []schedule.Lot{{Kind: 0, Count: 2}, {Kind: 1, Count: 1}, {Kind: 0, Count: 1}, {Kind: 2, Count: 1}}; !slices.Equal(lots, want) {
		t.Errorf("lots %+v, want %+v", lots, want)
	}
	for n := range 100_000 {
		if off := math.Abs(float64(rounded(n)-n)) / float64(max(1, n)); off > 1.0/16 {
			t.Fatalf("%d is rounded to %d", n, rounded(n))
		}
	}
	var many []Size
	for n := 1000; n < 10_800; n++ {
		many = append(many, Size{Tokens: 4500 + n, Prefix: 4500, Generated: 400, Key: "k"})
	}
	if kinds, _ := Kinds(many); len(kinds) > 32 {
		t.Errorf("%d kinds of 9,800 jobs of a class", len(kinds))
	}
}

// pairOutlook is a prefill worker that hands one job over and has another at its answer, and a decode worker that has fetched a state ahead.
func pairOutlook() *Outlook {
	measured := protocol.Rates{
		PrefillByLength: map[string]float64{"1k": 1000, "8k": 1000}, DecodeByLength: map[string]float64{"1k": 50, "4k": 50}, DecodeByBusy: map[string]float64{"2": 1, "4": 1}, SaveBytesPerSecond: 1e9, RestoreBytesPerSecond: 1e9, CheckSeconds: 0.1,
		StateBytesPerToken: 1e5, GeneratedTokens: 100, PromptBytesPerToken: 4, LinkBytesPerSecond: map[string]float64{"spark": 1e8},
	}
	return &Outlook{
		Model: "m", Sizes: []Size{{2000, 1000, 100, "k"}, {2000, 0, 50, ""}}, Intake: []schedule.Lot{{Kind: 0, Count: 3}}, Relay: 1, Typical: 1,
		Workers: []Peer{
			{Worker: "p", Role: protocol.RolePrefill, Machine: "spark", Slots: 3, Rates: measured, Prefixes: map[string]int{"k": 1000, "other": 9},
				Running: []protocol.Running{{EndsSeconds: 2, HandsOver: true}, {EndsSeconds: 5, FirstSeconds: 1, Prefix: "of another class"}, {HandsOver: true, Ahead: true}}},
			{Worker: "d", Role: protocol.RoleDecode, Machine: "mac", Slots: 1, Rates: measured, Running: []protocol.Running{{EndsSeconds: 3, Prefix: "k"}, {EndsSeconds: 0.5, Ahead: true}}},
		},
	}
}

func TestScene(t *testing.T) {
	times := []schedule.Times{
		{Prompt: 1, Prefix: 1, Save: 0.2, Restore: 0.3, Move: 2, Generate: []float64{2, 2, 2}},
		{Prompt: 2, Save: 0.2, Restore: 0.3, Move: 2, Generate: []float64{1, 1, 1}},
	}
	want := &schedule.Scene{
		Machines: []schedule.Machine{
			{Slots: []schedule.Slot{{Free: 2, Hand: true, Kind: 1}, {Free: 5, First: 1, Kind: 1}, {Prefix: 1}}, Times: times},
			{Decode: true, Takes: true, Slots: []schedule.Slot{{Free: 3, Kind: 1, Prefix: 1}}, Times: []schedule.Times{times[0], times[1]}},
		},
		Kinds:  []schedule.Kind{{Prefix: 1, Bytes: 2e8}, {Bytes: 2e8}},
		Intake: []schedule.Lot{{Kind: 0, Count: 3}},
		Relay:  []schedule.Ready{{At: -1, Kind: 1}, {At: 0.5, Kind: 1, Machine: 1}, {At: -1, Kind: 1}},
	}
	want.Machines[1].Times[0].Generate, want.Machines[1].Times[1].Generate = []float64{2}, []float64{1}
	if diff := cmp.Diff(want, pairOutlook().Scene(), cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
		t.Errorf("scene (-want +got):\n%s", diff)
	}
}

// A prefix is in as many free slots as have it and are not at a job of its own class; in all, if the worker does not say in how many.
func TestFreeSlotsWithThePrefix(t *testing.T) {
	for name, tt := range map[string]struct {
		copies map[string]int
		at     string // the prefix of a running job
		want   int
	}{
		"unsaid":                    {nil, "of another class", 2},
		"one":                       {map[string]int{"k": 1}, "of another class", 1},
		"one, which is in use":      {map[string]int{"k": 1}, "k", 0},
		"three, of which one is":    {map[string]int{"k": 3}, "k", 2},
		"those of another class":    {map[string]int{"other": 3}, "k", 0},
		"more than there are slots": {map[string]int{"k": 30}, "k", 2},
	} {
		o := pairOutlook()
		o.Workers[0].Copies, o.Workers[0].Running = tt.copies, []protocol.Running{{EndsSeconds: 5, Prefix: tt.at}}
		got := 0
		for _, s := range o.Scene().Machines[0].Slots[1:] {
			got += s.Prefix
		}
		if got != tt.want {
			t.Errorf("%s: the prefix is in %d free slots, want %d", name, got, tt.want)
		}
	}
}

func TestGuessed(t *testing.T) {
	o := pairOutlook()
	if got := o.Guessed(); got != nil {
		t.Errorf("guessed %q, and all was measured", got)
	}
	o.Workers[1].Rates = protocol.Rates{}
	if got, want := o.Guessed(), []string{"prompts on mac", "answers on mac", "the link from spark to mac", "reading them on mac"}; !slices.Equal(got, want) {
		t.Errorf("guessed %q, want %q", got, want)
	}
	o.Workers[0].Rates, o.Workers[1].NoStates = protocol.Rates{}, "it takes none"
	if got, want := o.Guessed(), []string{"how many tokens a text has", "how long answers are", "prompts on spark", "answers on spark", "prompts on mac", "answers on mac"}; !slices.Equal(got, want) {
		t.Errorf("guessed %q, want %q", got, want)
	}
}

func TestOneMore(t *testing.T) {
	o := pairOutlook()
	more := o.With(o.Workers[1])
	if len(o.Workers) != 2 || len(more.Workers) != 3 || len(more.Workers[2].Running) > 0 {
		t.Errorf("workers %+v", more.Workers)
	}
	if before, after := o.Scene().Forecast(schedule.Auto), more.Scene().Forecast(schedule.Auto); after.End >= before.End {
		t.Errorf("done after %v s, and with one more machine after %v s", before.End, after.End)
	}
	if best, options, ok := o.Next("nobody"); ok || options != nil {
		t.Errorf("a worker that is not there should do %+v", best)
	}
	if best, _, ok := o.Next("p"); !ok || best.Action == schedule.Wait {
		t.Errorf("the prefill worker should do %+v", best)
	}
}

// Of a state only what is new is moved to a worker that has the rows of what its jobs share.
func TestMoveOfWhatIsNew(t *testing.T) {
	for rows, want := range map[int]float64{0: 2, 1000: 1, 20_000: 0} {
		o := pairOutlook()
		o.Workers[1].Rows = map[string]int{"k": rows, "other": 10_000}
		if got := o.Scene().Machines[1].Times[0].Move; math.Abs(got-want) > 1e-6 {
			t.Errorf("%d tokens there: moved in %v s, want %v", rows, got, want)
		}
	}
}
