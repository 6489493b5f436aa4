package app

import (
	"os"
	"path/filepath"
	"slices"

	"tandem/internal/access"
	"tandem/jobs"
)

// secureLocal makes the keys and rights of a system in one process, or takes those that an earlier run made in the same folder.
func secureLocal(o LocalOptions) (access.Folder, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return "", err
	}
	folder := access.Folder(filepath.Join(dir, "access"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", jobs.Errorf(jobs.CodeInvalid, "store: %w", err)
	}
	if err := folder.Create([]string{"127.0.0.1", "localhost"}, o.Models); err != nil {
		return "", err
	}
	known, err := folder.Graders()
	if err != nil {
		return "", err
	}
	for _, name := range o.Graders {
		if slices.ContainsFunc(known, func(g access.Grader) bool { return g.Name == name }) {
			continue
		}
		if err := folder.AddGrader(name, GraderKey(folder, name)); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// GraderKey is the credential file of a grader of a system in one process.
func GraderKey(folder access.Folder, name string) string {
	return filepath.Join(string(folder), "grader-"+jobs.EncodeToken(name)+".nk")
}
