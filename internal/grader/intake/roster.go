package intake

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"

	"tandem/internal/atomicfile"
	"tandem/jobs"
)

const (
	rosterDir     = "instructor"
	rosterFile    = rosterDir + "/roster.json"
	rosterVersion = 1
)

// Student is a line of the roster: what only the instructor sees.
type Student struct {
	ID         string `json:"id"`                   // pseudonym
	Name       string `json:"name"`                 // as the path says: a name or a login; the instructor may correct it, it is never written over
	LMSID      string `json:"lms_id,omitempty"`     // the learning system's number for the student, if the path has one
	Assignment string `json:"assignment,omitempty"` // of an nbgrader tree: the folder's name
	File       string `json:"file"`                 // where the notebook lies, an entry of a ZIP file as archive.zip!entry
	Key        string `json:"key"`                  // by which the student is found again in a later run: Name and LMSID, or the path where that is not unique
}

// Roster maps pseudonyms to students. It is kept in DIR/instructor/roster.json (folder 0700, file 0600).
type Roster struct {
	dir      *os.Root
	students map[string]*Student // by key
}

// rosterJSON is the file.
type rosterJSON struct {
	Version  int        `json:"version"`
	Students []*Student `json:"students"`
}

// OpenRoster reads the roster below a folder, or begins one. A file that is damaged, or has fields that this version does not know, is an
// error and stays as it is: without it nobody knows whose grades are whose.
func OpenRoster(dir *os.Root) (*Roster, error) {
	r := &Roster{dir: dir, students: map[string]*Student{}}
	data, err := dir.ReadFile(rosterFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the roster: %w", err)
	}
	if problem := r.decode(data); problem != "" {
		return nil, jobs.Errorf(jobs.CodeInvalid, "the roster %s/%s %s; it says whose grades are whose: bring it back from a copy, or move it away to give all students new pseudonyms", dir.Name(), rosterFile, problem)
	}
	return r, nil
}

// decode returns what is wrong with the file, "" if nothing is.
func (r *Roster) decode(data []byte) string {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return "is damaged (it is not valid JSON)"
	}
	if head.Version != rosterVersion {
		return fmt.Sprintf("is of version %d, and this program reads version %d", head.Version, rosterVersion)
	}
	var file rosterJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return "holds fields that this program does not know, or of the wrong type"
	}
	if _, err := dec.Token(); err != io.EOF {
		return "is damaged (something follows its end)"
	}
	ids := map[string]bool{}
	for i, s := range file.Students {
		switch {
		case s == nil || !isPseudonym(s.ID) || s.Key == "":
			return fmt.Sprintf("is damaged (student %d has no pseudonym or no key)", i+1)
		case ids[s.ID] || r.students[s.Key] != nil:
			return fmt.Sprintf("is damaged (student %d has the pseudonym or the key of another)", i+1)
		}
		ids[s.ID], r.students[s.Key] = true, s
	}
	return ""
}

// Student returns whose pseudonym it is.
func (r *Roster) Student(id string) (Student, bool) {
	for _, s := range r.students {
		if s.ID == id {
			return *s, true
		}
	}
	return Student{}, false
}

// Students lists all in the order of their names.
func (r *Roster) Students() []Student {
	list := make([]Student, 0, len(r.students))
	for _, s := range r.students {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Student) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.LMSID, b.LMSID), cmp.Compare(a.File, b.File))
	})
	return list
}

// enter finds the student of this run in the roster, or gives a new pseudonym. Unique says that nobody else of the run has
// this name and number; path is where the student's part lies.
//
// A name that is unique in one run need not be so in another, in which a namesake is added or left out. So a student of whom the
// path was noted is looked for by path first, and one of whom the name was noted is taken for this one if the name is unique or the file is the same.
func (r *Roster) enter(s Student, path string, unique bool) string {
	byPath, byName := "path:"+path, "name:"+s.Name
	if s.LMSID != "" {
		byName = "lms:" + s.LMSID + ":" + s.Name
	}
	known := r.students[byPath]
	if named := r.students[byName]; known == nil && named != nil && (unique || named.File == s.File) {
		known = named
	}
	if known != nil {
		known.File, known.Assignment = s.File, s.Assignment
		return known.ID
	}
	if s.Key = byName; !unique {
		s.Key = byPath
	}
	s.ID = r.newPseudonym()
	r.students[s.Key] = &s
	return s.ID
}

// letters are those of pseudonyms: none that looks like another.
const letters = "abcdefghjkmnpqrstuvwxyz23456789"

var pseudonym = regexp.MustCompile(`^s-[` + letters + `]{6}$`)

func isPseudonym(id string) bool { return pseudonym.MatchString(id) }

// newPseudonym draws one that is not taken.
func (r *Roster) newPseudonym() string {
	for {
		id := []byte("s-")
		for len(id) < len("s-7kq2mx") {
			var b [1]byte
			rand.Read(b[:]) // never fails
			if n := int(b[0] % 32); n < len(letters) {
				id = append(id, letters[n])
			}
		}
		if _, taken := r.Student(string(id)); !taken {
			return string(id)
		}
	}
}

// save writes the roster, whole or not at all, readable by its owner only.
func (r *Roster) save() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the roster: %w", err)
		}
	}()
	keys := slices.Sorted(maps.Keys(r.students))
	file := rosterJSON{Version: rosterVersion, Students: make([]*Student, len(keys))}
	for i, key := range keys {
		file.Students[i] = r.students[key]
	}
	data, err := json.MarshalIndent(file, "", "\t")
	if err != nil {
		return err
	}
	if err := r.dir.Mkdir(rosterDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := r.dir.Chmod(rosterDir, 0o700); err != nil {
		return err
	}
	return atomicfile.WriteIn(r.dir, rosterFile, append(data, '\n'), 0o600)
}
