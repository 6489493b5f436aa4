package shim

import (
	"cmp"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tandem/internal/shim/program"
)

// How long a port of this machine may take to answer, and how long after its start a server may take to
// listen, if nothing else can tell whether it lives.
const (
	portPatience   = time.Second
	listenPatience = time.Minute
)

// Live returns the record of the llama-server that runs a model file, the youngest if there are several,
// and nil if there is none. The path is the one that Ollama itself says. Records of processes that are gone are
// removed. It costs some file reads, and a connection where the operating system does not tell who a process is.
func Live(runDir, modelFile string) (*Record, error) {
	list, err := program.Records(runDir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Record) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Ticks, a.Ticks))
	})
	for _, r := range list {
		if filepath.Clean(r.Model) == filepath.Clean(modelFile) && lives(runDir, r) {
			return &r, nil
		}
	}
	return nil, nil
}

// LiveAll returns the records of all llama-servers that live, the youngest first.
func LiveAll(runDir string) ([]Record, error) {
	list, err := program.Records(runDir)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r Record) bool { return !lives(runDir, r) })
	slices.SortFunc(list, func(a, b Record) int { return b.Started.Compare(a.Started) })
	return list, nil
}

// lives reports whether the process of a record is there, and removes the record if it is not.
func lives(runDir string, r Record) bool {
	state := r.State()
	if state == program.Maybe {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(r.Host, strconv.Itoa(r.Port)), portPatience)
		switch {
		case err == nil:
			conn.Close()
			return true
		case errors.Is(err, syscall.ECONNREFUSED) && time.Since(r.Started) > listenPatience:
			state = program.Gone
		}
	}
	if state == program.Gone {
		program.Remove(runDir, r)
	}
	return state == program.Alive
}
