package grader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"tandem/internal/atomicfile"
	"tandem/jobs"
)

// answersDir holds what the models said, each whole [jobs.Result] in a file of its own, <student>-<judge>-<attempt>.json.
const answersDir = "answers"

// answers are the files. They are read when they are needed: a class's answers are not in memory together.
type answers struct{ root *os.Root }

func openAnswers(root *os.Root) (*answers, error) {
	if err := root.MkdirAll(answersDir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder of answers: %w", err)
	}
	return &answers{root}, nil
}

func (*answers) name(a *attempt) string {
	return path.Join(answersDir, fmt.Sprintf("%s-%s-%d.json", a.Student, a.Judge, a.Attempt))
}

// write puts a result on the disk, whole or not at all, and returns the hash of its file.
func (s *answers) write(a *attempt, r *jobs.Result) (sha string, err error) {
	data, err := jobs.Encode(r)
	if err != nil {
		return "", fmt.Errorf("encode answer to job %s: %w", r.JobID, err)
	}
	data = append(data, '\n')
	if err := atomicfile.WriteIn(s.root, s.name(a), data, 0o600); err != nil {
		return "", fmt.Errorf("write answer: %w", err)
	}
	return hash(data), nil
}

// read returns the answer to a request, nil if its file is gone, damaged, or another's than the ledger says. Of a request that the ledger has no answer to, it is the one that a
// process left which died before it wrote the line.
func (s *answers) read(a *attempt) (*jobs.Result, error) {
	data, err := s.root.ReadFile(s.name(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	r, err := jobs.Decode[jobs.Result](data)
	switch {
	case err != nil,
		a.answer != nil && hash(data) != a.answer.SHA256,
		a.answer == nil && r.JobID != a.Job && r.ReplayOf != a.Job:
		return nil, nil
	}
	return r, nil
}
