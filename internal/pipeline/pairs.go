package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tandem/internal/atomicfile"
	"tandem/jobs"
)

// Hand-overs from a machine are stopped when, of its last comparedStates KV states whose first prediction was
// compared with the engine's here, tooManyDiffered differed. One that differs is computed again and harms nobody, so a
// rare one is tolerated; but an engine that keeps writing other numbers than the one here computes is broken, or another
// model, and each of its states costs a transfer for nothing.
const (
	comparedStates  = 20
	tooManyDiffered = 3
)

// Pairs knows from which machines no KV states are taken, because their first predictions differed again and again. That
// is kept in a file, so that it outlasts the worker, until an operator clears it there: see [ClearPairs]. It is safe for
// concurrent use.
type Pairs struct {
	file string
	log  *slog.Logger

	mu      sync.Mutex
	differ  map[string][]bool // of each machine's last states, the oldest first
	stopped map[string]stop
	read    fs.FileInfo // of the file when it was last read or written; nil if there was none
	unsaved bool        // the file could not be written, so it says nothing of what is stopped
}

// stop is why hand-overs from one machine were stopped.
type stop struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// OpenPairs reads what an earlier run left in the file, which need not exist.
func OpenPairs(file string, log *slog.Logger) (*Pairs, error) {
	stopped, info, err := readPairs(file)
	if err != nil {
		return nil, err
	}
	p := &Pairs{file: file, log: log, differ: map[string][]bool{}, stopped: stopped, read: info}
	for _, machine := range slices.Sorted(maps.Keys(stopped)) {
		log.Error("hand-overs of KV states from a machine are stopped since an earlier run", "from", machine, "since", stopped[machine].At,
			"why", stopped[machine].Message, "remedy", RemedyFor(machine))
	}
	return p, nil
}

// ClearPairs lets hand-overs from a machine, or from all if it is empty, begin again: also in a worker that is running.
// It returns the machines that were stopped.
func ClearPairs(file, machine string) (cleared []string, err error) {
	stopped, _, err := readPairs(file)
	if err != nil {
		return nil, err
	}
	for name := range stopped {
		if machine == "" || name == machine {
			cleared = append(cleared, name)
			delete(stopped, name)
		}
	}
	if len(cleared) == 0 {
		return nil, nil
	}
	slices.Sort(cleared)
	return cleared, writePairs(file, stopped)
}

// Stopped lists the machines from which no KV states are taken.
func (p *Pairs) Stopped() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh()
	return slices.Sorted(maps.Keys(p.stopped))
}

// Why is why no KV states are taken from a machine, with the remedy; empty if they are.
func (p *Pairs) Why(machine string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh()
	s, ok := p.stopped[machine]
	if !ok {
		return ""
	}
	return fmt.Sprintf("hand-overs from %s were stopped at %s, since %s; %s", machine, s.At.Format(time.RFC3339), s.Message, RemedyFor(machine))
}

// Compared notes a state of a machine whose first prediction was compared: message says how it differed, and is empty
// if it did not. It reports whether that stops hand-overs from the machine.
func (p *Pairs) Compared(machine, message string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh()
	list := append(p.differ[machine], message != "")
	list = list[max(0, len(list)-comparedStates):]
	p.differ[machine] = list
	differed := 0
	for _, d := range list {
		if d {
			differed++
		}
	}
	if _, already := p.stopped[machine]; already || message == "" || differed < tooManyDiffered {
		return false
	}
	s := stop{At: time.Now().UTC().Truncate(time.Second), Message: fmt.Sprintf("%d of its last %d states differed, at last: %s", differed, len(list), message)}
	p.stopped[machine] = s
	p.log.Error("hand-overs of KV states from a machine are stopped", "from", machine, "why", s.Message, "remedy", RemedyFor(machine))
	p.save()
	return true
}

// RemedyFor says what to do about hand-overs from a machine that were stopped.
func RemedyFor(machine string) string {
	return "compare model, versions and settings of the two engines, test the memory of both machines, and then run on the decode machine: decode-worker handover clear " + machine +
		" --config FILE (or --model and --state-dir, as the worker has them)"
}

// save writes the file. The lock is held, as in refresh.
func (p *Pairs) save() {
	err := writePairs(p.file, p.stopped)
	if err == nil {
		p.read, err = os.Stat(p.file)
	}
	if p.unsaved = err != nil; p.unsaved {
		p.log.Error("stopped hand-overs cannot be kept in a file, so they begin again with the next start of the worker", "error", err)
	}
}

// refresh reads the file again if somebody has changed it.
func (p *Pairs) refresh() {
	info, err := os.Stat(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = nil, nil
	}
	if err != nil || p.unsaved || same(info, p.read) {
		return
	}
	stopped, info, err := readPairs(p.file)
	if err != nil {
		p.log.Warn("stopped hand-overs stay as they were", "error", err)
		return
	}
	for machine := range p.stopped {
		if _, still := stopped[machine]; !still {
			delete(p.differ, machine)
			p.log.Info("hand-overs of KV states from a machine begin again", "from", machine)
		}
	}
	p.stopped, p.read = stopped, info
}

// same reports whether a file is unchanged; nil is one that does not exist.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// pairsFile is the form of the file.
type pairsFile struct {
	Machines map[string]stop `json:"machines"`
}

func readPairs(file string) (map[string]stop, fs.FileInfo, error) {
	info, err := os.Stat(file) // first, so that a change while it is read is seen by the next look
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]stop{}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read stopped hand-overs: %w", err)
	}
	var f pairsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, nil, jobs.Errorf(jobs.CodeInvalid, "%s, which holds the machines from which hand-overs were stopped, cannot be read; remove it to let all begin again: %w", file, err)
	}
	if f.Machines == nil {
		f.Machines = map[string]stop{}
	}
	return f.Machines, info, nil
}

// writePairs replaces the file at once, so that nobody reads half of it. It stays the worker's, also if root clears it.
func writePairs(file string, stopped map[string]stop) error {
	data, err := json.MarshalIndent(pairsFile{stopped}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("write stopped hand-overs: %w", err)
	}
	if err := atomicfile.Replace(file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write stopped hand-overs: %w", err)
	}
	return nil
}

// machineOf is the machine of a server that is named "machine/worker".
func machineOf(server string) string {
	if i := strings.LastIndexByte(server, '/'); i >= 0 {
		return server[:i]
	}
	return server
}

// workerOf is the worker of a server that is named "machine/worker".
func workerOf(server string) string { return server[strings.LastIndexByte(server, '/')+1:] }
