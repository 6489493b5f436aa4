package submitter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"tandem/jobs"
)

// manifestFile is the name of a batch's manifest beside its results. No result file is called so:
// [jobs.EncodeToken] leaves no dot in a name.
const manifestFile = "batch.manifest.json"

// maxFileName is what every file system of interest takes, less the suffix of a file being written.
const maxFileName = 250

// resultFile is the name of a job's result file. [jobs.DecodeToken] reads the custom id back from
// it; it holds no separator, no dot in front, and nothing that a shell or a terminal acts upon. The names
// of Windows' devices, which a file that is copied there cannot have, get a = in front, as no token has.
func resultFile(customID string) string {
	token := jobs.EncodeToken(customID)
	if isDevice(strings.ToUpper(token)) {
		token = "=" + token
	}
	return token + ".json"
}

// isDevice reports whether Windows takes a name, whatever its suffix, for a device.
func isDevice(name string) bool {
	switch name {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	port, ok := strings.CutPrefix(name, "COM")
	if !ok {
		port, ok = strings.CutPrefix(name, "LPT")
	}
	return ok && len(port) == 1 && port[0] >= '0' && port[0] <= '9'
}

// A resultDir is the folder into which a batch's results go, readable by its owner only.
type resultDir struct{ root *os.Root }

func openResultDir(dir string) (*resultDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create results folder (--out): %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open results folder (--out): %w", err)
	}
	return &resultDir{root}, nil
}

func (d *resultDir) close() { d.root.Close() }

// write writes a result whole or not at all.
func (d *resultDir) write(r *jobs.Result) error {
	data, err := jobs.Encode(r)
	if err != nil {
		return fmt.Errorf("encode result of job %s: %w", r.JobID, err)
	}
	name := resultFile(r.CustomID)
	if r.CustomID == "" {
		name = r.JobID + ".json"
	}
	if err := d.replace(name, append(data, '\n')); err != nil {
		return fmt.Errorf("write result of job %s: %w", r.JobID, err)
	}
	return nil
}

func (d *resultDir) replace(name string, data []byte) (err error) {
	part := name + ".part"
	f, err := d.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, d.root.Remove(part))
	}
	return nil
}

// read returns the result that an earlier run wrote for a job, nil if there is none, or if it is of another job.
func (d *resultDir) read(customID, jobID string) (*jobs.Result, error) {
	data, err := d.root.ReadFile(resultFile(customID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r, err := jobs.Decode[jobs.Result](data)
	if err != nil || r.JobID != jobID {
		return nil, nil // not ours, or damaged: it is written again
	}
	return r, nil
}
