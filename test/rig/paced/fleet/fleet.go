// Package fleet describes machines by tables of how long they take, for benchmarks of plans without the machines: a file of
// test/fleets is one [Fleet].
package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Fleet is the machines that serve one model.
type Fleet struct {
	Name               string    `json:"-"`     // of the file
	About              string    `json:"about"` // what it stands for, and the source of its figures
	Model              string    `json:"model"`
	BytesPerToken      float64   `json:"bytes_per_token"`       // of a KV state
	FixedBytes         float64   `json:"fixed_bytes,omitempty"` // of a KV state, whatever its length
	LinkBytesPerSecond float64   `json:"link_bytes_per_second"` // from each prefill machine to each decode machine
	Machines           []Machine `json:"machines"`
}

// Machine is one engine with one worker.
type Machine struct {
	Name  string `json:"name"`
	Role  string `json:"role"` // prefill or decode
	Slots int    `json:"slots"`

	// Prefill is how many seconds a whole prompt takes of an engine that computes nothing else. Between two lengths, and beyond the last, the
	// time follows a straight line; before the first it is a share of it. What is cached of a prompt takes no time: the rest takes the difference.
	Prefill []Point `json:"prefill_seconds"`
	// Decode is how many tokens a second are generated after so many tokens, for one request alone.
	Decode []Point `json:"decode_tokens_per_second"`
	// Busy is by which factor each request generates more slowly while so many do. Without an entry: as the next smaller one.
	Busy map[int]float64 `json:"busy,omitempty"`

	SaveBytesPerSecond    float64 `json:"save_bytes_per_second"`    // KV states written
	RestoreBytesPerSecond float64 `json:"restore_bytes_per_second"` // KV states read

	// Slower makes the machine so many times slower, once it was measured, than the tables say: a machine that has changed. 0 is 1.
	Slower float64 `json:"slower,omitempty"`
}

// Point is a figure for a prompt of so many tokens.
type Point struct {
	Tokens int     `json:"tokens"`
	Value  float64 `json:"value"`
}

// PrefillSeconds is how long the machine needs for a prompt of so many tokens, of which the first cached ones are known.
func (m *Machine) PrefillSeconds(tokens, cached int) float64 {
	return max(0, at(m.Prefill, float64(tokens), true)-at(m.Prefill, float64(cached), true))
}

// TokenSeconds is how long a token takes after so many, while so many requests generate.
func (m *Machine) TokenSeconds(tokens, busy int) float64 {
	slower := 1.0
	for most, factor := range m.Busy {
		if most <= busy && factor > slower {
			slower = factor
		}
	}
	return slower / at(m.Decode, float64(tokens), false)
}

// Machine finds a machine by its name.
func (f *Fleet) Machine(name string) (*Machine, error) {
	for i := range f.Machines {
		if f.Machines[i].Name == name {
			return &f.Machines[i], nil
		}
	}
	return nil, fmt.Errorf("fleet %s has no machine %q", f.Name, name)
}

// StateBytes is the size of the KV state of so many tokens.
func (f *Fleet) StateBytes(tokens int) float64 { return f.BytesPerToken*float64(tokens) + f.FixedBytes }

// at follows the straight lines through the points. Before the first one it goes on from there (or, for times, from 0).
func at(points []Point, tokens float64, fromZero bool) float64 {
	first, last := points[0], points[len(points)-1]
	if tokens <= float64(first.Tokens) || len(points) == 1 {
		if fromZero {
			return first.Value * tokens / float64(first.Tokens)
		}
		return first.Value
	}
	i := 1
	for i < len(points)-1 && tokens > float64(points[i].Tokens) {
		i++
	}
	a, b := points[i-1], points[i]
	if !fromZero && tokens > float64(last.Tokens) {
		return last.Value
	}
	return a.Value + (b.Value-a.Value)*(tokens-float64(a.Tokens))/float64(b.Tokens-a.Tokens)
}

// Read reads a file of test/fleets.
func Read(path string) (*Fleet, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read fleet: %w", err)
	}
	f := &Fleet{Name: strings.TrimSuffix(filepath.Base(path), ".json")}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("read fleet %s: %w", path, err)
	}
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("read fleet %s: %w", path, err)
	}
	return f, nil
}

func (f *Fleet) validate() error {
	roles, names := map[string]int{}, map[string]bool{}
	for _, m := range f.Machines {
		if err := m.validate(); err != nil {
			return fmt.Errorf("machine %q: %w", m.Name, err)
		}
		if names[m.Name] {
			return fmt.Errorf("two machines are named %q", m.Name)
		}
		if m.Slots != f.Machines[0].Slots {
			return fmt.Errorf("machine %q has %d slots, the first one %d; states move only between engines with as many slots", m.Name, m.Slots, f.Machines[0].Slots)
		}
		names[m.Name] = true
		roles[m.Role]++
	}
	if f.Model == "" || f.BytesPerToken <= 0 || f.FixedBytes < 0 || f.LinkBytesPerSecond <= 0 || roles["prefill"] == 0 || roles["decode"] == 0 || len(roles) > 2 {
		return fmt.Errorf("want model, bytes_per_token, link_bytes_per_second, and machines of the roles prefill and decode; has roles %v", roles)
	}
	return nil
}

func (m *Machine) validate() error {
	if m.Name == "" || m.Slots < 1 || len(m.Prefill) == 0 || len(m.Decode) == 0 || m.SaveBytesPerSecond <= 0 || m.RestoreBytesPerSecond <= 0 {
		return errors.New("want a name, slots, prefill_seconds, decode_tokens_per_second, save_bytes_per_second and restore_bytes_per_second")
	}
	for _, list := range [][]Point{m.Prefill, m.Decode} {
		for i, p := range list {
			if p.Tokens < 0 || p.Value <= 0 || i > 0 && p.Tokens <= list[i-1].Tokens {
				return fmt.Errorf("point %d is %+v; want growing tokens and values above 0", i, p)
			}
		}
	}
	for i, p := range m.Prefill {
		if p.Tokens == 0 || i > 0 && p.Value <= m.Prefill[i-1].Value {
			return fmt.Errorf("point %d of prefill_seconds is %+v; want growing times of some tokens", i, p)
		}
	}
	if m.Slower < 0 {
		return fmt.Errorf("slower is %v; want a factor above 0", m.Slower)
	}
	for n, factor := range m.Busy {
		if n < 2 || factor < 1 {
			return fmt.Errorf("busy has factor %v for %d; want at least 1, for two and more", factor, n)
		}
	}
	return nil
}
