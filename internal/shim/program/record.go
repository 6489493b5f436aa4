package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Record is what the shim leaves in the run folder of the llama-server that it became.
type Record struct {
	PID     int       `json:"pid"`
	Port    int       `json:"port"`
	Host    string    `json:"host"`
	Model   string    `json:"model"` // path of the model file
	Args    []string  `json:"args"`  // all it was started with
	SlotDir string    `json:"slot_dir"`
	Started time.Time `json:"started"`
	Ticks   uint64    `json:"ticks,omitempty"` // when the process was made, by the kernel's clock; 0 where that cannot be told
}

// recordSuffix follows the process id in the name of a record's file.
const recordSuffix = ".json"

// leaveRecord writes the record of this process, whole or not at all.
func leaveRecord(dir, model, slotDir string, args []string) error {
	r := Record{PID: os.Getpid(), Model: model, Args: args, SlotDir: slotDir, Started: time.Now().UTC()}
	r.Ticks, _ = startTicks(r.PID)
	port, _ := value(args, "--port")
	var err error
	if r.Port, err = strconv.Atoi(port); err != nil || r.Port < 1 {
		return fmt.Errorf("llama-server was given no port (--port %q)", port)
	}
	r.Host = "127.0.0.1"
	if host, ok := value(args, "--host"); ok {
		r.Host = host
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	path := filepath.Join(dir, strconv.Itoa(r.PID)+recordSuffix)
	if err := writeNew(path+".tmp", b); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// writeNew makes a file of its own: one that is there may be a link that another of the folder's group made.
func writeNew(path string, b []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) // less what the umask takes away
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Records reads the records of a run folder, in no order, whether their processes live or not. A folder
// that is not there has none; files that are no records are passed over.
func Records(dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run folder: %w", err)
	}
	var list []Record
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), recordSuffix)
		pid, err := strconv.Atoi(name)
		if !ok || err != nil || !e.Type().IsRegular() {
			continue
		}
		b, err := readSmall(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) { // swept meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}
		if r, ok := parseRecord(b); ok && r.PID == pid {
			list = append(list, r)
		}
	}
	return list, nil
}

// largestRecord bounds a record: arguments are a few kilobytes.
const largestRecord = 1 << 20

// readSmall reads a file up to a byte more than a record may have; a cut one is no JSON. It follows no link and waits for
// no pipe, should one have come in the file's place.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, largestRecord+1))
}

func parseRecord(b []byte) (r Record, ok bool) {
	err := json.Unmarshal(b, &r)
	return r, err == nil && r.PID > 0 && r.PID < 1<<31 && r.Port > 0 && r.Port < 1<<16 && r.Model != "" && here(r.Host)
}

// here reports whether a host is this machine itself, where Ollama's servers listen. A record that names another, whoever
// wrote it, would have prompts sent there.
func here(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// State says what is known of the process that left a record.
type State int

// The states of a process.
const (
	Gone  State = iota // it has ended, even if its number is another's now
	Alive              // it is there
	Maybe              // a process of its number is there, of which no more can be told from here
)

// State looks whether the process that left the record is still there.
func (r Record) State() State {
	if err := syscall.Kill(r.PID, 0); errors.Is(err, syscall.ESRCH) {
		return Gone
	}
	ticks, ok := startTicks(r.PID)
	switch {
	case r.Ticks == 0 || !ok:
		return Maybe
	case ticks != r.Ticks:
		return Gone
	}
	return Alive
}

// Remove removes a record from its folder.
func Remove(dir string, r Record) {
	_ = os.Remove(filepath.Join(dir, strconv.Itoa(r.PID)+recordSuffix)) // another may have been faster
}

// Sweep removes the records of processes that are gone.
func Sweep(dir string) {
	list, err := Records(dir)
	if err != nil {
		return // whoever needs the records will say so
	}
	for _, r := range list {
		if r.State() == Gone {
			Remove(dir, r)
		}
	}
}
