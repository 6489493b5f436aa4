package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tandem/internal/atomicfile"
	"tandem/internal/protocol"
)

// ratesFile is what a worker keeps of its rates from one start to the next.
type ratesFile struct {
	V int `json:"v"`
	Subject
	Rates protocol.Rates `json:"rates"`
}

// Subject is what rates are of. Of what is empty nothing is known.
type Subject struct {
	ModelDigest   string `json:"model_digest"`
	EngineVersion string `json:"engine_version,omitempty"`
	Cache         string `json:"cache,omitempty"` // types of the KV cache, and how it is computed
}

// SubjectOf is what an engine's rates are of.
func SubjectOf(d Description) Subject {
	s := Subject{ModelDigest: d.ModelDigest, EngineVersion: d.Version}
	if m := d.KVTransfer; m != nil {
		f := m.Fingerprint
		s.Cache = fmt.Sprintf("%s %s, flash attention %t", f.CacheK, f.CacheV, f.FlashAttention)
	}
	return s
}

// contradicts reports whether the two cannot be the same, as far as both are known.
func (s Subject) contradicts(o Subject) bool {
	differ := func(a, b string) bool { return a != b && a != "" && b != "" }
	return differ(s.ModelDigest, o.ModelDigest) || differ(s.EngineVersion, o.EngineVersion) || differ(s.Cache, o.Cache)
}

// or fills in what is not known.
func (s Subject) or(o Subject) Subject {
	return Subject{cmp.Or(s.ModelDigest, o.ModelDigest), cmp.Or(s.EngineVersion, o.EngineVersion), cmp.Or(s.Cache, o.Cache)}
}

// largestRatesFile is more than any such file has.
const largestRatesFile = 1 << 20

// Keep keeps the rates in a file from one run to the next: it reads what an earlier run left there, writes what was measured
// every so often and when ctx ends, and returns then. The file is of one model on one build of an engine, which about returns as far as it
// is known; rates of another model are forgotten, and of another build those that rest on it.
func (r *Rates) Keep(ctx context.Context, path string, about func() Subject, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now := about()
		if err := r.Begin(path, now); err != nil {
			log.Warn("rates measured by an earlier run are lost", "error", err)
		}
		if err := r.save(path, now); err != nil {
			log.Warn("measured rates are not kept", "error", err)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Begin takes up what the file has of a model when it is known for the first time which one that is. Called again, it does nothing as long as the
// model and the engine are the same.
func (r *Rates) Begin(path string, now Subject) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := r.of; {
	case now.ModelDigest == "":
		return nil
	case known.ModelDigest != "" && !known.contradicts(now):
		r.of = now.or(known)
		return nil
	case known.ModelDigest != "":
		r.now, r.trends, r.limits = lasting(r.now, known, now), nil, nil
	}
	kept, of, err := readRates(path, now)
	r.now, r.of = complete(r.now, kept), now.or(of)
	return err
}

// lasting is what stays true of rates when what they are of changes: what does not depend on the engine, if the model is the same.
func lasting(r protocol.Rates, was, is Subject) protocol.Rates {
	switch {
	case !was.contradicts(is):
		return r
	case was.ModelDigest != is.ModelDigest:
		return protocol.Rates{}
	}
	return protocol.Rates{
		PromptBytesPerToken: r.PromptBytesPerToken, GeneratedTokens: r.GeneratedTokens, GeneratedShare: r.GeneratedShare, GeneratedByKind: r.GeneratedByKind, LinkBytesPerSecond: r.LinkBytesPerSecond,
	}
}

// save writes the file if anything has changed.
func (r *Rates) save(path string, about Subject) error {
	r.mu.Lock()
	now, of, changed := r.now, r.of, r.changed && about.ModelDigest != "" && about.ModelDigest == r.of.ModelDigest
	if changed {
		r.changed = false
	}
	r.mu.Unlock()
	if !changed {
		return nil
	}
	err := writeRates(path, ratesFile{V: 1, Subject: of, Rates: now})
	if err != nil {
		r.mu.Lock()
		r.changed = true
		r.mu.Unlock()
	}
	return err
}

// readRates returns what a file has of the model, and what its rates were of.
func readRates(path string, now Subject) (_ protocol.Rates, of Subject, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read measured rates: %w", err)
		}
	}()
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return protocol.Rates{}, of, nil
	case err != nil:
		return protocol.Rates{}, of, err
	case info.Size() > largestRatesFile:
		return protocol.Rates{}, of, fmt.Errorf("%s has %d bytes, so it holds something else", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return protocol.Rates{}, of, err
	}
	var f ratesFile
	if err := json.Unmarshal(data, &f); err != nil {
		return protocol.Rates{}, of, fmt.Errorf("%s: %w", path, err)
	}
	if f.V != 1 || f.ModelDigest != now.ModelDigest {
		return protocol.Rates{}, of, nil
	}
	if !f.Subject.contradicts(now) {
		of = f.Subject
	}
	return believable(lasting(f.Rates, f.Subject, now)), of, nil
}

// complete fills what is missing in rates with what is in others.
func complete(r, others protocol.Rates) protocol.Rates {
	into, from := figures(&r), figures(&others)
	for i, v := range into {
		if *v == 0 {
			*v = *from[i]
		}
	}
	r.PrefillByLength = union(r.PrefillByLength, others.PrefillByLength)
	r.DecodeByLength = union(r.DecodeByLength, others.DecodeByLength)
	r.TokensByLength = union(r.TokensByLength, others.TokensByLength)
	r.PrefillTokensByLength = union(r.PrefillTokensByLength, others.PrefillTokensByLength)
	r.DecodeByBusy = union(r.DecodeByBusy, others.DecodeByBusy)
	r.GeneratedByKind = mergeKinds(r.GeneratedByKind, others.GeneratedByKind)
	r.LinkBytesPerSecond = union(r.LinkBytesPerSecond, others.LinkBytesPerSecond)
	return r
}

// union has the entries of both, those of a where both have one.
func union(a, b map[string]float64) map[string]float64 {
	if len(b) == 0 {
		return a
	}
	all := maps.Clone(b)
	maps.Copy(all, a)
	return all
}

// figures are the single figures of rates.
func figures(r *protocol.Rates) []*float64 {
	return []*float64{
		&r.PrefillTokensPerSecond, &r.DecodeTokensPerSecond, &r.PromptBytesPerToken, &r.GeneratedTokens, &r.GeneratedShare, &r.JobSeconds,
		&r.StateBytesPerToken, &r.StateFixedBytes, &r.SaveBytesPerSecond, &r.RestoreBytesPerSecond, &r.CheckSeconds,
	}
}

func writeRates(path string, f ratesFile) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write measured rates: %w", err)
		}
	}()
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}

// mostMachines is of how many machines links are kept.
const mostMachines = 64

// believable leaves out what cannot be a rate: records of others and files are not to be relied on.
func believable(r protocol.Rates) protocol.Rates {
	for _, v := range figures(&r) {
		if !usable(*v) {
			*v = 0
		}
	}
	among := func(keys []string) func(string, float64) bool {
		return func(key string, v float64) bool { return slices.Contains(keys, key) && usable(v) }
	}
	r.PrefillByLength, r.DecodeByLength = only(r.PrefillByLength, among(protocol.RateLengths[:])), only(r.DecodeByLength, among(protocol.RateLengths[:]))
	r.DecodeByBusy, r.GeneratedByKind = only(r.DecodeByBusy, among(protocol.RateBusy[:])), believableKinds(r.GeneratedByKind)
	ofLength := func(key string, v float64) bool { return usable(v) && lengthOf(int(v)) == key }
	r.TokensByLength, r.PrefillTokensByLength = only(r.TokensByLength, ofLength), only(r.PrefillTokensByLength, ofLength)
	kept := 0
	r.LinkBytesPerSecond = only(r.LinkBytesPerSecond, func(machine string, v float64) bool {
		ok := machine != "" && usable(v) && kept < mostMachines
		if ok {
			kept++
		}
		return ok
	})
	return r
}

// only returns a copy with the entries that are to be kept; nil if there are none.
func only(m map[string]float64, keep func(string, float64) bool) map[string]float64 {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(k string, v float64) bool { return !keep(k, v) })
	if len(m) == 0 {
		return nil
	}
	return m
}
