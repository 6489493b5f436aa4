package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"tandem/internal/atomicfile"
	"tandem/jobs"
)

// Grader is a user who may submit jobs.
type Grader struct {
	Name string `json:"name"`
	NKey string `json:"nkey"` // public
}

// What stands around a grader's name in the first subject that it may subscribe to.
const (
	graderPrefix = "results."
	graderSuffix = ".>"
)

// credentialHead begins the first line of a grader's credential file, which ends with the user's name.
const credentialHead = "# user "

// CredentialUser is the user whom a key file names, "" if it names none.
func CredentialUser(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "" // connecting with it will say why
	}
	line, _, _ := strings.Cut(string(text), "\n")
	name, ok := strings.CutPrefix(line, credentialHead)
	if !ok {
		return ""
	}
	return name
}

// Graders lists the graders in the order in which they were added.
func (f Folder) Graders() ([]Grader, error) {
	users, err := f.readGraders()
	if err != nil {
		return nil, err
	}
	all := make([]Grader, len(users))
	for i, u := range users {
		token, begins := strings.CutPrefix(slices.Concat(u.Permissions.Subscribe.Allow, []string{""})[0], graderPrefix)
		token, ends := strings.CutSuffix(token, graderSuffix)
		name, err := jobs.DecodeToken(token)
		if err != nil || !begins || !ends {
			return nil, jobs.Errorf(jobs.CodeInvalid, "%s has an entry, %.60q, that names no user; put the file back as submitter wrote it", f.graders(), u.NKey)
		}
		all[i] = Grader{name, u.NKey}
	}
	return all, nil
}

// AddGrader makes a key for a user and writes it to a new credential file: a line with the user's name, then the seed. The server lets the
// user in once it has read its configuration again.
func (f Folder) AddGrader(name, file string) error {
	if err := jobs.CheckUser(name); err != nil {
		return err
	}
	created := false
	err := f.change(func(users []user, graders []Grader) ([]user, error) {
		if slices.ContainsFunc(graders, func(g Grader) bool { return g.Name == name }) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "grader %q exists; for a new key revoke that one first", name)
		}
		public, err := createKey(file, credentialHead+name+"\n")
		created = err == nil
		return append(users, grader(public, name)), err
	})
	if err != nil && created {
		_ = os.Remove(file) // a key that opens nothing
	}
	return err
}

// RevokeGrader removes a user. The server ends the user's connections once it has read its configuration again.
func (f Folder) RevokeGrader(name string) error {
	return f.change(func(users []user, graders []Grader) ([]user, error) {
		i := slices.IndexFunc(graders, func(g Grader) bool { return g.Name == name })
		if i < 0 {
			return nil, jobs.Errorf(jobs.CodeInvalid, "grader %q is unknown; submitter admin grader list names those that there are", name)
		}
		return slices.Delete(users, i, i+1), nil
	})
}

// change rewrites the list of graders, one program at a time.
func (f Folder) change(edit func([]user, []Grader) ([]user, error)) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	graders, err := f.Graders()
	if err != nil {
		return err
	}
	users, err := f.readGraders()
	if err != nil {
		return err
	}
	if users, err = edit(users, graders); err != nil {
		return err
	}
	return atomicfile.Replace(f.graders(), encodeGraders(users), 0o600)
}

// lock keeps other programs from changing the folder until unlock is called.
func (f Folder) lock() (unlock func(), err error) {
	dir, err := os.Open(string(f))
	if err != nil {
		return nil, f.missing(err)
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		_ = dir.Close()
		return nil, jobs.Errorf(jobs.CodeInvalid, "lock %s: %w", f, err)
	}
	return func() { _ = dir.Close() }, nil
}

// gradersHead is the first line of the list of graders; the rest is JSON.
const gradersHead = "# Written by submitter admin grader: who may submit jobs. Keys are public ones.\n"

type gradersFile struct {
	Users []user `json:"users"`
}

func encodeGraders(users []user) []byte {
	if users == nil {
		users = []user{}
	}
	return slices.Concat([]byte(gradersHead), encode(gradersFile{users}, ""), []byte("\n"))
}

func (f Folder) readGraders() ([]user, error) {
	text, err := os.ReadFile(f.graders())
	if err != nil {
		return nil, f.missing(err)
	}
	var list gradersFile
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte(gradersHead)), &list); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "%s is not as submitter wrote it; put it back: %w", f.graders(), err)
	}
	return list.Users, nil
}

// missing says what to do about a folder that cannot be read.
func (f Folder) missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return jobs.Errorf(jobs.CodeInvalid, "%s holds no graders.conf; name the folder that submitter admin secure made, or a new one to have it made: %w", f, err)
	}
	return jobs.Errorf(jobs.CodeInvalid, "dir: %w", err)
}
