package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"tandem/internal/atomicfile"
	"tandem/jobs"
)

// Manifest is the submitter's own record of a batch: which jobs it is made of. It is on the disk
// before the first job is published, so that a batch can be resumed and awaited after any crash. It
// holds no text.
type Manifest struct {
	V         int             `json:"v"`
	User      string          `json:"user"`
	Batch     string          `json:"batch"`
	CreatedAt time.Time       `json:"created_at"`
	Jobs      []ManifestEntry `json:"jobs"`
}

// ManifestEntry is one job of a batch, in the order of the input.
type ManifestEntry struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id,omitempty"`
	SHA256   string `json:"sha256"` // of what is asked for, in hex; two submissions of the same input agree
}

// IDs lists the jobs in order.
func (m *Manifest) IDs() []string {
	ids := make([]string, len(m.Jobs))
	for i, e := range m.Jobs {
		ids[i] = e.ID
	}
	return ids
}

// ReadManifest reads a manifest. One that is not there is [fs.ErrNotExist].
func ReadManifest(path string) (*Manifest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m := new(Manifest)
	if err := jobs.CheckJSON(data); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "manifest %s is damaged: %w", path, err)
	}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "manifest %s is damaged: %w", path, err)
	}
	if m.V != jobs.Version {
		return nil, jobs.Errorf(jobs.CodeInvalid, "manifest %s is of version %d; this program reads version %d", path, m.V, jobs.Version)
	}
	return m, nil
}

// newManifest describes jobs that are about to be submitted together.
func newManifest(list []*jobs.Job) (*Manifest, error) {
	m := &Manifest{V: jobs.Version, User: list[0].User, Batch: list[0].Batch, CreatedAt: time.Now().UTC()}
	ids := map[string]bool{}
	for i, j := range list {
		if j.User != m.User || j.Batch != m.Batch {
			return nil, jobs.Errorf(jobs.CodeInvalid, "job %d of the batch is of user %q and batch %q; the first is of %q and %q", i+1, j.User, j.Batch, m.User, m.Batch)
		}
		if ids[j.ID] {
			return nil, jobs.Errorf(jobs.CodeInvalid, "job %d of the batch has the id of another: %s", i+1, j.ID)
		}
		ids[j.ID] = true
		sum, err := inputSHA256(j)
		if err != nil {
			return nil, err
		}
		m.Jobs = append(m.Jobs, ManifestEntry{ID: j.ID, CustomID: j.CustomID, SHA256: sum})
	}
	return m, nil
}

// inputSHA256 is the hash of all that was asked for, without what differs from one submission to the next.
func inputSHA256(j *jobs.Job) (string, error) {
	input := *j
	input.ID, input.Batch, input.Following, input.SubmittedAt, input.Deadline = "", "", jobs.Following{}, time.Time{}, time.Time{}
	data, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("encode job: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// adopt gives the jobs of the same input the ids and the batch that they have in the manifest.
func (m *Manifest) adopt(path string, list []*jobs.Job) error {
	other := func(format string, args ...any) error {
		return jobs.Errorf(jobs.CodeInvalid, "manifest %s belongs to other input: %s; resume with the input it was made from, or name another folder",
			path, fmt.Sprintf(format, args...))
	}
	if len(m.Jobs) != len(list) {
		return other("it has %d jobs, and the input %d", len(m.Jobs), len(list))
	}
	for i, j := range list {
		e := m.Jobs[i]
		if j.User != m.User {
			return other("it is of user %q, and the input of %q", m.User, j.User)
		}
		if j.CustomID != e.CustomID {
			return other("job %d has custom_id %q there and %q in the input", i+1, e.CustomID, j.CustomID)
		}
		sum, err := inputSHA256(j)
		if err != nil {
			return err
		}
		if sum != e.SHA256 {
			return other("job %d (custom_id %q) asks for something else", i+1, e.CustomID)
		}
	}
	for i, j := range list {
		j.ID, j.Batch = m.Jobs[i].ID, m.Batch
	}
	return nil
}

// write puts the manifest on the disk, whole or not at all, readable by the owner only.
func (m *Manifest) write(path string) error {
	data, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if err := atomicfile.Write(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}
