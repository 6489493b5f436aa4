package grader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"tandem/internal/grader/report"
	"tandem/internal/grader/rubric"
	"tandem/jobs"
)

// ledgerFile is what a grading remembers: one JSON object a line, only ever appended to, each on the disk before what it promises is done. It has no name of a
// student, no text of one and no answer: those lie in [answersDir].
const ledgerFile = "ledger.jsonl"

// ledgerVersion is the version of the lines.
const ledgerVersion = 1

// line is one line of the ledger. Exactly one field is set.
type line struct {
	Begun    *begun    `json:"begun,omitempty"`    // the first line
	Asked    *asked    `json:"asked,omitempty"`    // before a request is sent
	Answered *answered `json:"answered,omitempty"` // after the answer was stored
}

// begun says whose grading it is.
type begun struct {
	V       int       `json:"v"`
	Batch   string    `json:"batch"` // of all its jobs
	User    string    `json:"user"`  // whose jobs they are
	Created time.Time `json:"created"`
}

// asked is a request to a model.
type asked struct {
	Student string        `json:"student"` // pseudonym
	Judge   rubric.Judge  `json:"judge"`
	Attempt int           `json:"attempt"`           // from 1, of this student and judge, over all runs
	Again   bool          `json:"again,omitempty"`   // repeats the attempt before, whose answer did not pass
	Key     string        `json:"key"`               // of what is asked, see keyOf
	Digest  string        `json:"digest,omitempty"`  // of the model, as far as was known
	Context int           `json:"context,omitempty"` // of the model in tokens, by which the prompt was cut; 0 if it was not known
	Inputs  report.Inputs `json:"inputs"`            // what the key rests on, to say later what changed
	Job     string        `json:"job"`               // id
	At      time.Time     `json:"at"`
}

// state is what became of a request.
type state string

const (
	passed   state = "ok"       // the answer passed all checks
	rejected state = "rejected" // it did not
	failed   state = "failed"   // there is none: the job failed, was cancelled or expired
)

// answered is the end of a request.
type answered struct {
	Job    string    `json:"job"`
	State  state     `json:"state"`
	SHA256 string    `json:"sha256"` // of the answer's file
	At     time.Time `json:"at"`
}

// attempt is a request with its end.
type attempt struct {
	asked
	answer *answered // nil while there is none
	lost   bool      // the ledger has an answer whose file is gone or was changed

	// Of the answer, as it is judged today: the ledger has how it was judged when it came.
	state   state
	problem error  // why it did not pass
	digest  string // of the model that answered, "" if not known
}

// customID names the request's job: by pseudonym and judge, unique in the batch.
func (a *attempt) customID() string {
	if a.Attempt == 1 {
		return a.Student + "-" + string(a.Judge)
	}
	return fmt.Sprintf("%s-%s-%d", a.Student, a.Judge, a.Attempt)
}

// ledger is the file and what it says. Its methods may be called from several goroutines, its fields may be read while nobody appends.
type ledger struct {
	begun    *begun     // nil while nothing was promised
	attempts []*attempt // in the order of asking

	root *os.Root
	path string // as the user knows it

	mu   sync.Mutex
	file *os.File // nil before the first line
	err  error    // of the first append that failed: what follows would stand behind a torn line
}

// openLedger reads the ledger of a folder, if it has one. A last line without an end, of a process that died while it wrote, is cut off: what it promised was not done yet.
// Anything else that is wrong is an error of code [jobs.CodeInvalid] that names file and line.
func openLedger(root *os.Root, path string) (*ledger, error) {
	l := &ledger{root: root, path: path}
	f, err := root.OpenFile(ledgerFile, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	l.file = f
	data, err := io.ReadAll(f)
	if err != nil {
		err = fmt.Errorf("read ledger %s: %w", path, err)
	} else if err = l.read(data); err == nil {
		err = f.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// read takes the whole lines of the ledger.
func (l *ledger) read(data []byte) error {
	byJob := map[string]*attempt{}
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text[len(text)-1] != '\n' {
			break
		}
		if err := l.take(text, byJob); err != nil {
			return jobs.Errorf(jobs.CodeInvalid, "%s, line %d is damaged: %w; put the file back as it was, or grade into another folder", l.path, number, err)
		}
	}
	return nil
}

// take takes one line. Lines of a damaged file may say anything.
func (l *ledger) take(text []byte, byJob map[string]*attempt) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var n line
	if err := errors.Join(jobs.CheckJSON(text), d.Decode(&n)); err != nil {
		return errors.New("it is no line of a ledger")
	}
	if (n.Begun != nil) != (l.begun == nil) {
		return errors.New("a ledger begins with a line that says whose it is, and has no other such line")
	}
	switch {
	case n.Begun != nil && n.Asked == nil && n.Answered == nil:
		if n.Begun.V != ledgerVersion {
			return fmt.Errorf("it is of version %d, and this program reads version %d", n.Begun.V, ledgerVersion)
		}
		l.begun = n.Begun
	case n.Asked != nil && n.Begun == nil && n.Answered == nil:
		switch judge := n.Asked.Judge; {
		case judge != rubric.JudgeCode && judge != rubric.JudgeFeedback, n.Asked.Attempt < 1:
			return errors.New("it is about no request that there can be")
		case byJob[n.Asked.Job] != nil:
			return errors.New("its job was asked before")
		}
		a := &attempt{asked: *n.Asked}
		byJob[a.Job] = a
		l.attempts = append(l.attempts, a)
	case n.Answered != nil && n.Begun == nil && n.Asked == nil:
		a := byJob[n.Answered.Job]
		if a == nil {
			return errors.New("it answers a job that was never asked")
		}
		a.answer = n.Answered
	default:
		return errors.New("it says not one thing")
	}
	return nil
}

// begin makes the first line, unless it is there. The file is created for the owner alone.
func (l *ledger) begin(b begun) error {
	if l.begun != nil {
		return nil
	}
	if l.file == nil {
		f, err := l.root.OpenFile(ledgerFile, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("begin ledger %s: %w", l.path, err)
		}
		l.file = f
	}
	if err := l.append(line{Begun: &b}); err != nil {
		return err
	}
	l.begun = &b
	return syncDir(l.root, ".")
}

// append adds a line; when it returns, the line is on the disk.
func (l *ledger) append(n line) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode line of ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	_, err = l.file.Write(append(text, '\n'))
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.err = fmt.Errorf("write ledger %s: %w", l.path, err)
	}
	return l.err
}

func (l *ledger) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// syncDir makes sure that a new name in a folder is on the disk.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
