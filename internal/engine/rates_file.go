package engine

import (
	"bytes"
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

// OpenRates returns the rates that an earlier run kept in a file, if they are of the model with this digest, and keeps
// new ones there. A file that is missing or of another model leaves them empty. One that cannot be read does, too; the
// error says why, and the rates can be used all the same.
func OpenRates(path, modelDigest string) (*Rates, error) {
	r := &Rates{path: path, digest: modelDigest}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("read measured rates: %w", err)
	case info.Size() > largestRatesFile:
		return r, fmt.Errorf("read measured rates: %s has %d bytes, so it holds something else", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read measured rates: %w", err)
	}
	kept, err := parseRates(data, modelDigest)
	if err != nil {
		return r, fmt.Errorf("read measured rates of %s: %w", path, err)
	}
	r.now = kept
	return r, nil
}

// parseRates reads a file's content. Rates of another model are none.
func parseRates(data []byte, modelDigest string) (jobs.Rates, error) {
	var f ratesFile
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&f); err != nil {
		return jobs.Rates{}, err
	}
	if f.V != 1 || f.ModelDigest != modelDigest || modelDigest == "" {
		return jobs.Rates{}, nil
	}
	return believable(f.Rates), nil
}

// Keep writes the rates to their file every so often, if they have changed, and when ctx ends. It returns then.
func (r *Rates) Keep(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		if err := r.save(); err != nil {
			log.Warn("measured rates are not kept", "error", err)
		}
	}
}

// save writes the file at once or not at all.
func (r *Rates) save() error {
	r.mu.Lock()
	now, changed := r.now, r.changed
	r.changed = false
	r.mu.Unlock()
	if !changed || r.path == "" || r.digest == "" {
		return nil
	}
	err := writeRates(r.path, ratesFile{V: 1, ModelDigest: r.digest, Rates: now})
	if err != nil {
		r.mu.Lock()
		r.changed = true
		r.mu.Unlock()
	}
	return err
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
	for _, v := range []*float64{
		&r.PrefillTokensPerSecond, &r.DecodeTokensPerSecond, &r.PromptBytesPerToken, &r.GeneratedTokens, &r.JobSeconds,
		&r.StateBytesPerToken, &r.StateFixedBytes, &r.SaveBytesPerSecond, &r.RestoreBytesPerSecond, &r.CheckSeconds,
	} {
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
