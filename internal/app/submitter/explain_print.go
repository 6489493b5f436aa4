package submitter

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"tandem/client/admin"
	"tandem/internal/engine"
	"tandem/internal/sanitize"
	"tandem/internal/units"
)

// explained is the decision in JSON.
type explained struct {
	Model            string                  `json:"model"`
	Tokens           int                     `json:"tokens"` // of the prompt
	UncachedPrefill  int                     `json:"uncached_prefill"`
	UncachedDecode   int                     `json:"uncached_decode"`
	Generated        int                     `json:"generated"` // tokens of the answer
	StateBytes       int64                   `json:"state_bytes"`
	Decision         string                  `json:"decision"` // the line that a result would have
	Chosen           engine.Way              `json:"chosen"`
	SavesSeconds     float64                 `json:"saves_seconds"`         // by handing over rather than computing the prompt on the decode machine
	MarginSeconds    float64                 `json:"margin_seconds"`        // that it has to save
	NoHandover       string                  `json:"no_handover,omitempty"` // why it cannot
	Ways             []engine.Cost           `json:"ways"`
	PrefillMachine   string                  `json:"prefill_machine,omitempty"` // left out if no worker lives
	DecodeMachine    string                  `json:"decode_machine,omitempty"`
	Rates            map[string]engine.Speed `json:"rates"`
	Measured         bool                    `json:"measured"`           // any of the rates was
	BreaksEvenTokens int                     `json:"breaks_even_tokens"` // 0 if handing over is never faster
	PaysFromTokens   int                     `json:"pays_from_tokens"`   // 0 if it never pays
}

// explainedTable is the table in JSON.
type explainedTable struct {
	Model    string            `json:"model"`
	Measured bool              `json:"measured"`
	Rows     []engine.TableRow `json:"rows"`
}

// rateLine is one figure that the decision rests on.
type rateLine struct {
	key, name       string
	prefill, decode *engine.Speed // on either machine; nil where it does not count
	text            func(float64) string
}

// rateLines are all figures, in the order of a job's way.
func rateLines(q engine.Question) []rateLine {
	perSecond := func(v float64) string { return units.Bytes(int64(v)) + "/s" }
	line := func(key, name string, text func(float64) string, prefill, decode *engine.Speed) rateLine {
		return rateLine{key, name, prefill, decode, text}
	}
	return []rateLine{
		line("prefill_tokens_per_second", "prompt tokens/s", figure, new(q.Prefill.Prefill(q.Tokens, q.Tokens-q.UncachedPrefill)), new(q.Decode.Prefill(q.Tokens, q.Tokens-q.UncachedDecode))),
		line("decode_tokens_per_second", "generated tokens/s", figure, new(q.Prefill.Decode(q.Tokens)), new(q.Decode.Decode(q.Tokens))),
		line("save_bytes_per_second", "state written", perSecond, new(q.Prefill.Save()), nil),
		line("link_bytes_per_second", "state moved", perSecond, nil, &q.Link),
		line("restore_bytes_per_second", "state read", perSecond, nil, new(q.Decode.Restore())),
		line("check_seconds", "state checked", milli, nil, new(q.Decode.Check(q.Tokens))),
	}
}

// anyMeasured reports whether some of the figures were measured.
func anyMeasured(lines []rateLine) bool {
	for _, l := range lines {
		if l.prefill != nil && l.prefill.Measured || l.decode != nil && l.decode.Measured {
			return true
		}
	}
	return false
}

// notMeasured marks what was computed from published figures alone.
const notMeasured = "computed from published rates, not measured"

// print prints the decision.
func (p *scene) print(s *session) error {
	d := engine.Decide(p.ask(p.Tokens, p.CachedPrefill, p.CachedDecode, p.CacheType))
	lines := rateLines(d.Question)
	even, pays := p.crossover()
	if s.JSON {
		return s.print(p.explained(d, lines, even, pays))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, prompt of %d tokens (%d to compute on the prefill machine, %d on the decode machine), answer of %d\n",
		p.Model, d.Tokens, d.UncachedPrefill, d.UncachedDecode, d.Generated)
	fmt.Fprintf(&b, "prefill machine: %s; decode machine: %s\n\n%s\n\n", machineName(p.prefill, "DGX Spark"), machineName(p.decode, "Mac Studio"), d)
	writeWays(&b, d)
	writeRates(&b, lines)
	switch {
	case !d.Handover.Possible:
	case even == 0:
		fmt.Fprintln(&b, "With nothing cached, handing over is never faster with these machines.")
	case pays == 0:
		fmt.Fprintf(&b, "With nothing cached, handing over is faster from %d tokens on, and never saves the margin of 150 ms and 10 %%.\n", even)
	default:
		fmt.Fprintf(&b, "With nothing cached, handing over is faster from %d tokens on, and saves the margin of 150 ms and 10 %% from %d on.\n", even, pays)
	}
	if !anyMeasured(lines) {
		fmt.Fprintln(&b, "All of this is "+notMeasured+".")
	}
	_, err := io.WriteString(s.out, sanitize.Text(b.String()))
	return err
}

// machineName names the machine of a worker, or that of which figures were published.
func machineName(w *admin.Presence, published string) string {
	if w == nil {
		return "none lives; the published figures are of a " + published
	}
	return fmt.Sprintf("%s (worker %s)", cell(w.Machine), cell(w.Worker))
}

// writeWays prints what each way takes, and marks the chosen one. Writing to a [strings.Builder] cannot fail.
func writeWays(b *strings.Builder, d engine.Decision) {
	tabs := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tabs, "\twait\tprompt\twrite\tmove\tread\tcheck\tfirst token\tanswer\ttotal\t")
	for _, c := range d.Ways() {
		mark := " "
		if c.Way == d.Way {
			mark = "→"
		}
		name := fmt.Sprintf("%s %-28s", mark, c.Way)
		if !c.Possible {
			fmt.Fprintf(tabs, "%s\tnot possible\t\t\t\t\t\t\t\t\t\n", name)
			continue
		}
		fmt.Fprintf(tabs, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, milli(c.Queue), milli(c.Prefill), milli(c.Save), milli(c.Transfer),
			milli(c.Restore), milli(c.Check), milli(c.FirstToken), milli(c.Generate), milli(c.Total))
	}
	_ = tabs.Flush()
	b.WriteByte('\n')
}

// writeRates prints the figures, and which of them were measured.
func writeRates(b *strings.Builder, lines []rateLine) {
	tabs := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tabs, "rate\tprefill machine\tdecode machine")
	for _, l := range lines {
		cell := func(v *engine.Speed) string {
			switch {
			case v == nil:
				return ""
			case v.Measured:
				return l.text(v.Value) + " measured"
			}
			return l.text(v.Value) + " not measured"
		}
		fmt.Fprintf(tabs, "%s\t%s\t%s\n", l.name, cell(l.prefill), cell(l.decode))
	}
	_ = tabs.Flush()
	b.WriteByte('\n')
}

func (p *scene) explained(d engine.Decision, lines []rateLine, even, pays int) explained {
	e := explained{
		Model: p.Model, Tokens: d.Tokens, UncachedPrefill: d.UncachedPrefill, UncachedDecode: d.UncachedDecode, Generated: d.Generated,
		StateBytes: d.StateBytes, Decision: d.String(), Chosen: d.Way, SavesSeconds: d.Saves, MarginSeconds: d.Margin, NoHandover: d.NoHandover,
		Ways: d.Ways(), Rates: map[string]engine.Speed{}, Measured: anyMeasured(lines), BreaksEvenTokens: even, PaysFromTokens: pays,
	}
	if p.prefill != nil {
		e.PrefillMachine = p.prefill.Machine
	}
	if p.decode != nil {
		e.DecodeMachine = p.decode.Machine
	}
	for _, l := range lines {
		if l.prefill != nil {
			e.Rates["prefill_machine_"+l.key] = *l.prefill
		}
		if l.decode != nil {
			e.Rates["decode_machine_"+l.key] = *l.decode
		}
	}
	return e
}

// printTable prints what handing over saves at many lengths of prompt.
func (p *scene) printTable(s *session) error {
	rows := p.rows()
	measured := anyMeasured(rateLines(p.ask(p.Tokens, 0, 0, p.CacheType)))
	if s.JSON {
		return s.print(explainedTable{p.Model, measured, rows})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, nothing cached and nobody waiting: seconds until the first token\n", p.Model)
	tabs := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tabs, "tokens\tcache\tstate\tcomputed there\thanded over\tspeed-up\tpays\t")
	for _, r := range rows {
		pays := "no"
		if r.Pays {
			pays = "yes"
		}
		fmt.Fprintf(tabs, "%d\t%s\t%s\t%s\t%s\t%.2f×\t%s\t\n", r.Tokens, r.CacheType, units.Bytes(r.StateBytes), secs(r.Whole), secs(r.Handover), r.SpeedUp, pays)
	}
	_ = tabs.Flush()
	if !measured {
		fmt.Fprintln(&b, notMeasured)
	}
	_, err := io.WriteString(s.out, sanitize.Text(b.String()))
	return err
}
