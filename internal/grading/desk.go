package grading

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"tandem/client/admin"
	"tandem/internal/grader"
	"tandem/jobs"
)

// Options are what a desk is made of.
type Options struct {
	Dir    string        // the folder of the classes; it is made if it is not there
	System *admin.Client // whose key must allow jobs of all users who grade
	Plan   jobs.Plan     // of the jobs; "" for [DefaultPlan]
	Notice string        // for the reports: what a reader must know of the models
}

// Desk is a folder of classes, each as `submitter grade` has it, and what is being done to them here:
//
//	DIR/<class>/submissions/      what students handed in
//	DIR/<class>/rubric.json, solution.ipynb, template.ipynb
//	DIR/<class>/grades/           what grade --out writes; the lock in it keeps two programs apart
//	DIR/<class>/class.json        what there is to know beside: see [Kept]
//
// Folders are 0700, files 0600. It may be used by several goroutines.
type Desk struct {
	Options
	root    *os.Root
	open    context.Context // ends with the desk
	stop    func()
	working sync.WaitGroup

	mu      sync.Mutex
	work    map[string]*work // by class
	changed func()
	closed  bool
}

// OpenDesk opens the folder. Close must be called.
func OpenDesk(o Options) (*Desk, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of classes: %w", err)
	}
	abs, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open folder of classes: %w", err)
	}
	if left, err := filepath.Glob(filepath.Join(abs, "*", uploading)); err == nil { // by a gateway that died
		for _, file := range left {
			_ = os.Remove(file)
		}
	}
	if o.Dir = abs; o.Plan == "" {
		o.Plan = DefaultPlan
	}
	d := &Desk{Options: o, root: root, work: map[string]*work{}, changed: func() {}}
	d.open, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// Close ends what is going on, if there is a desk, and waits for it. Another run can go on with it.
func (d *Desk) Close() error {
	if d == nil {
		return nil
	}
	d.stop()
	d.mu.Lock()
	d.closed = true // whoever began anything before has said so
	d.mu.Unlock()
	d.working.Wait()
	return d.root.Close()
}

// OnChange has a function called whenever something has changed.
func (d *Desk) OnChange(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = f
}

// change changes what is known of a class's work, and tells of it.
func (d *Desk) change(class string, f func(w *work)) {
	d.changeLocked(class, f)()
}

func (d *Desk) changeLocked(class string, f func(w *work)) (tell func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.work[class] == nil {
		d.work[class] = &work{}
	}
	f(d.work[class])
	return d.changed
}

var className = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._-]*$`)

// NameOf is what a class is called whose name somebody typed: blanks become hyphens, since it is a folder and a part of addresses.
func NameOf(typed string) (string, error) {
	name := strings.Join(strings.Fields(typed), "-")
	switch {
	case name == "":
		return "", jobs.Errorf(jobs.CodeInvalid, "the class has no name; want one, as homework-4")
	case len(name) > 100 || !className.MatchString(name) || name == "new":
		return "", jobs.Errorf(jobs.CodeInvalid, "the name of the class is %.100q; want letters, digits, hyphens, dots and underscores, a letter or digit first, as homework-4", typed)
	}
	return name, nil
}

// path is where something of a class lies.
func (d *Desk) path(class string, elem ...string) string {
	return filepath.Join(append([]string{d.Dir, class}, elem...)...)
}

// Classes lists all, in the order of their names.
func (d *Desk) Classes() ([]*Class, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list classes: %w", err)
	}
	var list []*Class
	for _, e := range entries {
		if name, err := NameOf(e.Name()); err != nil || name != e.Name() || !e.IsDir() {
			continue
		}
		c, err := d.Class(e.Name())
		if err != nil {
			c = &Class{Name: e.Name(), Problem: err.Error()}
		}
		list = append(list, c)
	}
	return list, nil
}

// Review has a person decide about a class, whose folder nobody else has meanwhile.
func (d *Desk) Review(class, by string, do func(*grader.Review) error) error {
	if err := d.idle(class); err != nil {
		return err
	}
	reviewing := d.reviewing(class)
	reviewing.Lock()
	defer reviewing.Unlock()
	if c, err := d.Class(class); err != nil {
		return err
	} else if c.Summary == nil {
		return jobs.Errorf(jobs.CodeInvalid, "%s is not graded yet; nothing is there to be reviewed", class)
	}
	review, err := grader.OpenReview(d.path(class, grades), by)
	if err == nil {
		err = errors.Join(do(review), review.Close())
	}
	if err != nil {
		return jobs.Errorf(jobs.CodeOf(err), "%s", d.say(class, err))
	}
	return nil
}

// Grades opens what was written about a class.
func (d *Desk) Grades(class string) (*os.Root, error) {
	if _, err := d.Class(class); err != nil {
		return nil, err
	}
	return d.root.OpenRoot(filepath.Join(class, grades))
}

// Archive writes all of that as a ZIP file. After an error what it wrote is none.
func (d *Desk) Archive(class string, to io.Writer) error {
	root, err := d.Grades(class)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := zip.NewWriter(to)
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".lock") {
			return err
		}
		data, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		w, err := archive.Create(class + "/" + name)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// Delete removes a class with all that was written about it, and what the queue holds of it.
func (d *Desk) Delete(ctx context.Context, class string) (err error) {
	if _, err := d.Class(class); err != nil {
		return err
	}
	if err := d.claim(class, func(error) {}, nil); err != nil {
		return err
	}
	defer func() {
		d.free(class, func(w *work) {
			if err == nil {
				w.check, w.problem = nil, ""
			}
		})
	}()
	if unlock, err := grader.Lock(d.path(class, grades)); err == nil {
		defer func() { _ = unlock() }()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return jobs.Errorf(jobs.CodeOf(err), "%s", d.say(class, err))
	}
	batch, user, err := grader.Begun(d.path(class, grades))
	if err != nil {
		return err
	}
	if batch != "" {
		if _, err := d.System.For(user).PurgeBatch(ctx, batch); err != nil {
			return jobs.Errorf(jobs.CodeOf(err), "nothing was deleted, since what the queue holds of the class could not be (batch %s of %s): %w", batch, user, err)
		}
	}
	if err := d.root.RemoveAll(class); err != nil {
		return fmt.Errorf("delete class: %w", err)
	}
	return nil
}

// idle refuses what must not be done to a class while it is checked or graded here.
func (d *Desk) idle(class string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.work[class]
	switch {
	case w == nil || w.cancel == nil:
		return nil
	case w.run == nil:
		return jobs.Errorf(jobs.CodeInvalid, "%s is being checked; wait a moment", class)
	}
	return jobs.Errorf(jobs.CodeInvalid, "%s is being graded; pause it first", class)
}

func has(root *os.Root, name string) bool {
	info, err := root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
