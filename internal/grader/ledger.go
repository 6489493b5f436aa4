package grader

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"tandem/internal/grader/journal"
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

// ledger is the file and what it says. append may be called from several goroutines, the fields may be read while nobody appends.
type ledger struct {
	begun    *begun     // nil while nothing was promised
	attempts []*attempt // in the order of asking

	file *journal.Journal
}

// openLedger reads the ledger of a folder, if it has one.
func openLedger(root *os.Root, path string) (*ledger, error) {
	l := &ledger{}
	byJob := map[string]*attempt{}
	file, err := journal.Open(root, ledgerFile, path, "put the file back as it was, or grade into another folder", func(text []byte) error { return l.take(text, byJob) })
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

// take takes one line. Lines of a damaged file may say anything.
func (l *ledger) take(text []byte, byJob map[string]*attempt) error {
	var n line
	if err := journal.Decode(text, &n); err != nil {
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

// Begun is the batch and the user of the grading that a folder holds; both are empty if none was begun there.
func Begun(out string) (batch, user string, err error) {
	f, err := os.Open(filepath.Join(out, ledgerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	text, err := bufio.NewReader(f).ReadBytes('\n')
	var n line
	if err == io.EOF { // it died while it wrote its first line
		return "", "", nil
	}
	if err = errors.Join(err, journal.Decode(text, &n)); err != nil || n.Begun == nil {
		return "", "", jobs.Errorf(jobs.CodeInvalid, "%s of %s is damaged: put the file back as it was", ledgerFile, filepath.Base(out))
	}
	return n.Begun.Batch, n.Begun.User, nil
}

// begin makes the first line, unless it is there.
func (l *ledger) begin(b begun) error {
	if l.begun != nil {
		return nil
	}
	if err := l.append(line{Begun: &b}); err != nil {
		return err
	}
	l.begun = &b
	return nil
}

// append adds a line; when it returns, the line is on the disk.
func (l *ledger) append(n line) error {
	_, err := l.file.Append(n)
	return err
}
