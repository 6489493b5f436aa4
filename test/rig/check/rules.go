package check

import (
	"cmp"
	"fmt"
	"slices"

	"tandem/test/rig/history"
)

// finding is a rule that a job broke.
type finding struct {
	rule    Rule
	what    string // empty: it was kept
	at      []int  // positions of the events that show it; none if something is missing
	missing bool   // what is wrong is that something is not there
}

// broken holds each rule against the job. What a history without an end cannot show is not asked of it.
func (d *dossier) broken(settled bool) []finding {
	all := []finding{d.duplicate(), d.repeated(), d.invented(), d.wrongText(), d.restarted(), d.toldWrong(), d.miscounted(), d.strayed()}
	if settled {
		all = append(all, d.lost(), d.left(), d.unverified(), d.untold())
	}
	return slices.DeleteFunc(all, func(f finding) bool { return f.what == "" })
}

// lost: a job that was accepted has a result or is in a stream. A dead letter is an end only for a job that does not say whose it is.
func (d *dossier) lost() finding {
	f := finding{rule: Lost, missing: true}
	_, ended := d.end()
	if !d.bound() || ended || len(d.waiting) > 0 || len(d.purged) > 0 {
		return f
	}
	switch {
	case len(d.results) > 0:
		f.what, f.at = "what RESULTS holds of the job is no result", places(d.results)
	case len(d.letters) > 0 && d.owned:
		f.what, f.at = "the job is a dead letter and has no result, so nobody was told", places(d.letters)
	case len(d.letters) > 0: // nobody could be told
	case len(d.told) > 0:
		f.what, f.at = "the caller was told an end that no stream holds", places(d.told)
	case slices.ContainsFunc(d.stored, func(s seen) bool { return s.Stream == results }):
		f.what, f.at = "a result was stored, and no stream holds it", places(d.stored)
	default:
		f.what = "the job was accepted, and no stream holds anything of it"
	}
	return f
}

// left: the run waits until nothing is in the streams on its way.
func (d *dossier) left() finding {
	f := finding{rule: Left, at: places(d.waiting), missing: true}
	if _, ended := d.end(); d.bound() && !ended && len(d.waiting) > 0 {
		f.what = fmt.Sprintf("the job has no result and is still in %s", d.waiting[0].Stream)
	}
	return f
}

// duplicate: a job has one end.
func (d *dossier) duplicate() finding {
	f := finding{rule: Duplicate}
	first, second, twice := d.storedTwice()
	end, _ := d.end()
	switch {
	case len(d.results) > 1:
		f.what, f.at = fmt.Sprintf("RESULTS holds %d records of the job", len(d.results)), places(d.results)
	case twice:
		f.what, f.at = fmt.Sprintf("the server took two terminal records, RESULTS#%d and RESULTS#%d", first.Seq, second.Seq), []int{first.at, second.at}
	case len(d.letters) > 1:
		f.what, f.at = fmt.Sprintf("DLQ holds %d letters of the job", len(d.letters)), places(d.letters)
	case len(d.letters) > 0 && end.record != nil && end.record.Status == succeeded:
		f.what, f.at = "the job succeeded and is a dead letter", []int{end.at, d.letters[0].at}
	}
	return f
}

// storedTwice finds two records in different places of RESULTS with no purge between them. The one that is found at the end was
// stored, too, though the acknowledgement may have been lost.
func (d *dossier) storedTwice() (first, second seen, twice bool) {
	all := slices.DeleteFunc(slices.Clone(d.stored), func(s seen) bool { return s.Stream != results || s.Again })
	for _, s := range d.results {
		if s.Seq != 0 {
			all = append(all, s)
		}
	}
	for i := 1; i < len(all); i++ {
		before, _ := slices.BinarySearch(d.purged, all[i-1].at)
		until, _ := slices.BinarySearch(d.purged, all[i].at)
		if all[i].Seq != all[i-1].Seq && before == until {
			return all[i-1], all[i], true
		}
	}
	return seen{}, seen{}, false
}

// repeated: the server takes each stage's record of a job once. A server that was restarted has forgotten the ids of what was acknowledged, and may
// have acknowledged more between the note of its fault and its death.
func (d *dossier) repeated() finding {
	first := map[[2]string]seen{} // by stream and subject, which is of the stage
	for _, s := range d.entered {
		stage := [2]string{s.Stream, s.Subject}
		before, known := first[stage]
		first[stage] = s
		if known && before.Seq != s.Seq && !between(d.restarts, before.at, s.at) && !between(d.purged, before.at, s.at) {
			return finding{Repeated, fmt.Sprintf("the server stored it as #%d of %s, and again as #%d", before.Seq, s.Stream, s.Seq), places([]seen{before, s}), false}
		}
	}
	return finding{rule: Repeated}
}

// between reports whether one of the positions, which ascend, lies between two others.
func between(positions []int, from, to int) bool {
	i, _ := slices.BinarySearch(positions, from)
	return i < len(positions) && positions[i] < to
}

// invented: what is stored, found or told is of a job that somebody submitted, as he submitted it.
func (d *dossier) invented() finding {
	f := finding{rule: Invented}
	records := slices.Concat(d.stored, d.told, d.found())
	if len(records) == 0 {
		return f
	}
	if len(d.submitted) == 0 {
		f.what, f.at = "nobody submitted the job", places(records[:1])
		if d.id == "" {
			f.what = "a record names no job"
		}
		return f
	}
	for _, s := range records {
		if s.Kind == history.Stored { // what it stored is not shown
			continue
		}
		var field string
		for _, asked := range d.submitted { // any of them may be the one that was accepted
			if field = s.record.differs(s.Event, asked.record); field == "" {
				break
			}
		}
		if field != "" {
			f.what, f.at = fmt.Sprintf("the record that was %s has another %s than the job that was submitted", s.Kind, field), []int{s.at}
			return f
		}
	}
	return f
}

// wrongText: a greedy job has the text that the engine gives when it is asked directly.
func (d *dossier) wrongText() finding {
	f := finding{rule: WrongText}
	if len(d.expected) == 0 {
		return f
	}
	for _, s := range d.texts() {
		if !slices.Contains(d.expected, s.record.Text) {
			f.what, f.at = fmt.Sprintf("the text %s is not what the engine says when asked directly", hash(s.record.Text)), []int{s.at}
			break
		}
	}
	return f
}

// unverified: there is something to hold the text against.
func (d *dossier) unverified() finding {
	f := finding{rule: Unverified}
	if texts := d.texts(); len(texts) > 0 && len(d.expected) == 0 {
		f.what, f.at = "nobody asked the engine directly for the text", places(texts[:1])
	}
	return f
}

// restarted: what was cancelled, or has expired, stays so.
func (d *dossier) restarted() finding {
	f := finding{rule: Restarted}
	if len(d.after) > 0 {
		f.what, f.at = "the job went on after a cancel or expiry was acknowledged", []int{d.cancelled, d.after[0]}
		if n := len(d.after); n > 1 {
			f.what = fmt.Sprintf("%s, %d times", f.what, n)
		}
	}
	return f
}

// toldWrong: what callers were told is what the stream says, and the same each time.
func (d *dossier) toldWrong() finding {
	f := finding{rule: Untold}
	if len(d.submitted) == 0 {
		return f
	}
	end, ended := d.end()
	for _, s := range d.told {
		if s.record.outcome != d.told[0].record.outcome {
			f.what, f.at = "callers were told two different ends", []int{d.told[0].at, s.at}
			return f
		}
	}
	if ended && len(d.told) > 0 && d.told[0].record.outcome != end.record.outcome {
		f.what, f.at = "the caller was told something else than RESULTS says", []int{d.told[0].at, end.at}
	}
	return f
}

// miscounted: no attempt is counted but the first of each stage as long as nothing fails. Deliveries that the server counted and no worker saw, since they came
// while a pull was withdrawn, are attempts all the same.
func (d *dossier) miscounted() finding {
	f := finding{rule: Miscounted}
	end, calm := d.undisturbed()
	if !calm {
		return f
	}
	unseen := 0
	for _, stream := range []string{intake, relay} {
		counted, arrived := 0, 0
		for _, s := range d.delivered {
			if s.Stream == stream {
				counted = max(counted, s.Count)
				arrived++
			}
		}
		unseen += max(0, counted-arrived)
	}
	if a := end.record.Attempts; max(a.Prefill, a.Decode) > 1+unseen {
		f.what = fmt.Sprintf("%d attempts at prefill and %d at decode were counted, and nothing had failed", a.Prefill, a.Decode)
		f.at = places(append(slices.Clone(d.delivered), end))
	}
	return f
}

// strayed: a job goes the way that it asks for as long as nothing fails. One that asks for auto leaves the way to the workers.
func (d *dossier) strayed() finding {
	f := finding{rule: Strayed}
	end, calm := d.undisturbed()
	if !calm || len(d.submitted) != 1 || end.record.Status != succeeded {
		return f
	}
	if plan := cmp.Or(d.submitted[0].record.Plan, disaggregated); plan != auto && end.record.Method != "" && end.record.Method != plan {
		f.what = fmt.Sprintf("the job asked for %s and went by %s, and nothing had failed", plan, end.record.Method)
		f.at = places([]seen{d.submitted[0], end})
	}
	return f
}

// untold: whoever waits for a job is told its end.
func (d *dossier) untold() finding {
	f := finding{rule: Untold, missing: true}
	end, ended := d.end()
	if d.bound() && ended && d.attended && len(d.told) == 0 && len(d.purged) == 0 {
		f.what, f.at = fmt.Sprintf("the job ended as %s, and its caller was not told", end.record.Status), []int{end.at}
	}
	return f
}

func places(all []seen) []int {
	at := make([]int, len(all))
	for i, s := range all {
		at[i] = s.at
	}
	return at
}
