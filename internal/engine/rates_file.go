package engine

import (
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

	"tandem/internal/jobs"
)

// ratesFile is what a worker keeps of its rates from one start to the next.
type ratesFile struct {
	V           int        `json:"v"`
	ModelDigest string     `json:"model_digest"` // of the model that they were measured with
	Rates       jobs.Rates `json:"rates"`
}

// largestRatesFile is more than any such file has.
const largestRatesFile = 1 << 20

// Keep keeps the rates in a file from one run to the next: it reads what an earlier run left there, writes what was measured
// every so often and when ctx ends, and returns then. The file is of one model, whose digest digest returns once it is
// known; rates of another one are forgotten.
func (r *Rates) Keep(ctx context.Context, path string, digest func() string, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now := digest()
		if err := r.begin(path, now); err != nil {
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

// begin takes up what is known of a model when its digest is known for the first time.
func (r *Rates) begin(path, digest string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if digest == "" || digest == r.digest {
		return nil
	}
	if r.digest != "" {
		r.now = jobs.Rates{}
	}
	r.digest = digest
	kept, err := readRates(path, digest)
	r.now = complete(r.now, kept)
	return err
}

// save writes the file if anything has changed.
func (r *Rates) save(path, digest string) error {
	r.mu.Lock()
	now, changed := r.now, r.changed && digest != "" && digest == r.digest
	if changed {
		r.changed = false
	}
	r.mu.Unlock()
	if !changed {
		return nil
	}
	err := writeRates(path, ratesFile{V: 1, ModelDigest: digest, Rates: now})
	if err != nil {
		r.mu.Lock()
		r.changed = true
		r.mu.Unlock()
	}
	return err
}

// readRates returns the rates of a file, if they are of the model.
func readRates(path, digest string) (jobs.Rates, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return jobs.Rates{}, nil
	case err != nil:
		return jobs.Rates{}, fmt.Errorf("read measured rates: %w", err)
	case info.Size() > largestRatesFile:
		return jobs.Rates{}, fmt.Errorf("read measured rates: %s has %d bytes, so it holds something else", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return jobs.Rates{}, fmt.Errorf("read measured rates: %w", err)
	}
	var f ratesFile
	if err := json.Unmarshal(data, &f); err != nil {
		return jobs.Rates{}, fmt.Errorf("read measured rates of %s: %w", path, err)
	}
	if f.V != 1 || f.ModelDigest != digest {
		return jobs.Rates{}, nil
	}
	return believable(f.Rates), nil
}

// complete fills what is missing in rates with what is in others.
func complete(r, others jobs.Rates) jobs.Rates {
	into, from := figures(&r), figures(&others)
	for i, v := range into {
		if *v == 0 {
			*v = *from[i]
		}
	}
	r.PrefillByLength = union(r.PrefillByLength, others.PrefillByLength)
	r.DecodeByLength = union(r.DecodeByLength, others.DecodeByLength)
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
func figures(r *jobs.Rates) []*float64 {
	return []*float64{
		&r.PrefillTokensPerSecond, &r.DecodeTokensPerSecond, &r.PromptBytesPerToken, &r.GeneratedTokens, &r.JobSeconds,
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
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = temp.Write(append(data, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// mostMachines is of how many machines links are kept.
const mostMachines = 64

// believable leaves out what cannot be a rate: records of others and files are not to be relied on.
func believable(r jobs.Rates) jobs.Rates {
	for _, v := range figures(&r) {
		if !usable(*v) {
			*v = 0
		}
	}
	known := func(length string, v float64) bool { return slices.Contains(jobs.RateLengths[:], length) && usable(v) }
	r.PrefillByLength, r.DecodeByLength = only(r.PrefillByLength, known), only(r.DecodeByLength, known)
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
