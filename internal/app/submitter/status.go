package submitter

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"

	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/engine"
	"tandem/internal/forecast"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/units"
	"tandem/jobs"
)

// statusCmd shows the installation at a glance.
type statusCmd struct{}

// Help says when it complains.
func (statusCmd) Help() string {
	return "Exit code 3 when something is missing or down, which is said; 4 when NATS cannot be reached."
}

// Run prints the overview, and fails if something is wrong.
func (statusCmd) Run(ctx context.Context, s *session) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	o, err := s.client.Inspect(ctx)
	if err != nil {
		return err
	}
	faults := faultsOf(o)
	if s.JSON {
		err = s.print(status{len(faults) > 0, faults, o})
	} else {
		err = writeOverview(s.out, o, faults)
	}
	if err == nil && len(faults) > 0 {
		err = &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// fault is something that keeps the installation from doing all its work, and what to do about it.
type fault struct {
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// nearlyFull says what to do about a stream that is.
func nearlyFull(stream string) string {
	switch stream {
	case queue.StreamResults:
		return "purge batches that are done: submitter purge --batch NAME; at its limit no job can end"
	case queue.StreamDLQ:
		return "look at them, then drop or replay them: submitter dlq list; at its limit the oldest are dropped"
	case queue.StreamRelay:
		return "wait, or start more decode workers; at its limit prefill waits"
	}
	return "wait, or start more workers; at its limit it takes no more jobs"
}

// faultsOf lists what is wrong. Dead letters are jobs' ends, not faults of the installation.
func faultsOf(o *admin.Overview) []fault {
	faults := []fault{}
	add := func(what, remedy string) { faults = append(faults, fault{what, remedy}) }
	for _, st := range o.Streams {
		switch {
		case st.Missing:
			add("stream "+st.Name+" is missing", "create it: submitter admin init")
		case st.Drift != "":
			add(st.Drift, "")
		case st.MaxMessages > 0 && st.Messages*10 >= uint64(st.MaxMessages)*9, st.MaxBytes > 0 && st.Bytes*10 >= uint64(st.MaxBytes)*9:
			add(fmt.Sprintf("stream %s is nearly full: %d messages, %s", st.Name, st.Messages, units.Bytes(st.Bytes)), nearlyFull(st.Name))
		}
	}
	if len(o.Models) == 0 {
		add("no model is known", "start a prefill-worker and a decode-worker with --model")
	}
	for _, m := range o.Models {
		if !serves(o, protocol.RolePrefill, m.Model) {
			add("model "+m.Model+" has no live prefill worker, so its jobs run as fallback, slower", "start a prefill-worker --model "+m.Model)
		}
		if !serves(o, protocol.RoleDecode, m.Model) {
			add("model "+m.Model+" has no live decode worker, so its jobs wait", "start a decode-worker --model "+m.Model)
		}
		if digests := digestsOf(o, m.Model); len(digests) > 1 {
			add("model "+m.Model+" is not the same everywhere: "+strings.Join(digests, ", "), "pull the same version on all its machines")
		}
	}
	for _, w := range o.Workers {
		if w.State == admin.StateDown {
			add(fmt.Sprintf("the engine of %s worker %s on %s is down: %s", w.Role, w.Worker, w.Machine, oneLine(w.Problem)), "start the engine on "+w.Machine)
		}
		for _, from := range w.StoppedPairs {
			add(fmt.Sprintf("%s takes no KV states of %s from %s any more, since first predictions differed; their prompts are computed twice", w.Machine, w.Model, from),
				fmt.Sprintf("compare model, versions and settings of the two engines, then on %s: decode-worker handover clear %s --config FILE (or --model and --state-dir, as the worker has them)", w.Machine, from))
		}
	}
	for p, d := range pairs(o) {
		if peer := forecast.DecodePeer(d, forecast.WriterOf(p)); peer.Failure == jobs.FailDiffer {
			add(fmt.Sprintf("no KV states of %s go from %s to %s, since their engines differ: %s", p.Model, p.Machine, d.Machine, oneLine(peer.NoStates)), "")
		}
	}
	return faults
}

// pairs yields each live prefill worker with each live decode worker of its model.
func pairs(o *admin.Overview) iter.Seq2[admin.Presence, admin.Presence] {
	return func(yield func(p, d admin.Presence) bool) {
		for _, p := range o.Workers {
			for _, d := range o.Workers {
				if p.Role == protocol.RolePrefill && d.Role == protocol.RoleDecode && p.Model == d.Model && p.Live() && d.Live() && !yield(p, d) {
					return
				}
			}
		}
	}
}

// serves reports whether a live worker of the role serves the model.
func serves(o *admin.Overview, role jobs.Stage, model string) bool {
	return slices.ContainsFunc(o.Workers, func(p admin.Presence) bool { return p.Live() && p.Role == role && p.Model == model })
}

// digestsOf lists the different files that workers have under a model's name.
func digestsOf(o *admin.Overview, model string) []string {
	var digests []string
	for _, w := range o.Workers {
		if w.Model == model && w.ModelDigest != "" {
			digests = append(digests, fmt.Sprintf("%.19s", w.ModelDigest))
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// writeOverview prints the tables for a person.
func writeOverview(out io.Writer, o *admin.Overview, faults []fault) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "NATS %s at %s, sync %s\n", cell(o.Server.Version), cell(o.Server.URL), cell(o.Server.Sync))
	if len(o.Workers) > 0 {
		fmt.Fprintln(w, "\nMACHINE\tROLE\tMODEL\tENGINE\tSTATE\tBUSY\tPREFILL TOK/S\tDECODE TOK/S\tHTTP\tWORKER")
	}
	for _, p := range o.Workers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n", cell(p.Machine), cell(p.Role), cell(p.Model), cell(p.Engine+" "+p.EngineVersion), cell(p.State),
			p.Busy, p.Slots, measured(p.Rates.PrefillTokensPerSecond), measured(p.Rates.DecodeTokensPerSecond), cell(p.HTTP), cell(p.Worker))
	}
	head := "\nKV STATES OF\tFROM\tTO\tPREDICTIONS APART\tTAKEN\n"
	for p, d := range pairs(o) {
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\n", head, cell(p.Model), cell(p.Machine), cell(d.Machine), apart(p, d), cell(taken(p, d)))
		head = ""
	}
	if len(o.Models) > 0 {
		fmt.Fprintln(w, "\nMODEL\tCLASS\tPREFILL WAITING\tIN FLIGHT\tDECODE WAITING\tIN FLIGHT")
	}
	for _, m := range o.Models {
		for _, c := range m.Classes {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", cell(m.Model), cell(c.Class), c.Prefill.Waiting, c.Prefill.InFlight, c.Decode.Waiting, c.Decode.InFlight)
		}
	}
	letters := uint64(0)
	fmt.Fprintln(w, "\nSTREAM\tMESSAGES\tSIZE")
	for _, st := range o.Streams {
		if !st.Missing {
			fmt.Fprintf(w, "%s\t%d\t%s\n", st.Name, st.Messages, units.Bytes(st.Bytes))
		}
		if st.Name == queue.StreamDLQ {
			letters = st.Messages
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if letters > 0 {
		fmt.Fprintf(out, "\n%d dead letters: %s dlq list\n", letters, name)
	}
	for i, f := range faults {
		if i == 0 {
			fmt.Fprintln(out, "\ndegraded:")
		}
		fmt.Fprintf(out, "  %s\n", cell(f.What))
		if f.Remedy != "" {
			fmt.Fprintf(out, "    → %s\n", cell(f.Remedy))
		}
	}
	return nil
}

// apart is how far apart the predictions of two engines are after the prompts of the check, as far as both were checked.
func apart(p, d admin.Presence) string {
	if p.Check != nil && d.Check != nil {
		if median, far, ok := engine.Between(p.Check, d.Check); ok {
			return fmt.Sprintf("%.4f, %d of %d far", median, far, len(p.Check.Predictions))
		}
	}
	return "–"
}

// taken says whether a decode worker takes the KV states of a prefill worker.
func taken(p, d admin.Presence) string {
	peer := forecast.DecodePeer(d, forecast.WriterOf(p))
	switch {
	case peer.Failure != "":
		return "no: " + string(peer.Failure)
	case peer.NoStates != "" || p.Check == nil || d.Check == nil:
		return "not known yet"
	case p.Fingerprint.Format == d.Fingerprint.Format && p.Fingerprint.Layout == protocol.Unread:
		return "yes, unread: format " + p.Fingerprint.Format
	case d.Fingerprint.OtherBuild(*p.Fingerprint):
		return fmt.Sprintf("yes: llama.cpp %s and %s", p.Fingerprint.Build, d.Fingerprint.Build)
	}
	return "yes"
}

// measured is a rate of a worker, as far as it has measured one.
func measured(rate float64) string {
	if rate > 0 {
		return figure(rate)
	}
	return "–"
}
