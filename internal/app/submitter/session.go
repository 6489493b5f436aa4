package submitter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/app"
	"tandem/internal/grading"
	"tandem/internal/natscontext"
	"tandem/internal/sanitize"
	"tandem/internal/telemetry"
	"tandem/jobs"
)

// session is what one call of the command has: its settings, its streams and, once asked for, its connection.
type session struct {
	settings
	in       io.Reader
	out, err io.Writer
	parser   *kong.Kong

	local      *app.Local
	client     *admin.Client
	stopTraces func()          // nil before there were any
	full       func(err error) // told of jobs that wait because the queue is full; nil if nobody is to be
}

// connect connects to the queue or, with --local, starts the whole system first; models are those
// that it must serve then.
func (s *session) connect(ctx context.Context, models ...string) error {
	log, err := telemetry.NewLogger(s.err, s.LogFormat, slog.LevelWarn)
	if err != nil {
		return err
	}
	if s.stopTraces == nil {
		s.stopTraces = telemetry.StartTraces(name, app.Version(), log)
	}
	o := client.Options{
		URL: s.NATS, Creds: s.Creds, NKey: s.NKey, CA: s.TLSCA, User: s.User, Name: "tandem-" + name, Order: publishingOrder, Log: log,
		OnFull: func(err error) {
			if s.full != nil {
				s.full(err)
			}
		},
	}
	if s.Local {
		if s.local, err = s.startLocal(ctx, app.LocalOptions{Models: models, Log: log}); err != nil {
			return err
		}
		o.URL = s.local.URL()
	} else if s.NATSContext != "" {
		o.Context = s.NATSContext
		o.URL, o.NATS, err = natscontext.Load(s.NATSContext, map[string]string{"nats": s.NATS, "creds": s.Creds, "nkey": s.NKey, "tls-ca": s.TLSCA})
		if err != nil {
			return err
		}
	}
	c, err := client.Dial(ctx, o)
	if err != nil {
		return err
	}
	s.client = admin.New(c)
	return nil
}

// startLocal starts the system in this process with the engine that the flags name.
func (s *session) startLocal(ctx context.Context, o app.LocalOptions) (*app.Local, error) {
	o.Engine, o.EngineURL, o.ModelFile = s.Engine, s.EngineURL, s.ModelFile
	o.Say = func(format string, args ...any) { fmt.Fprintf(s.err, format+"\n", args...) }
	return app.StartLocal(ctx, o)
}

// plan is what jobs ask for: what the user wants, or what the local system is made for.
func (s *session) plan(wanted jobs.Plan) jobs.Plan {
	if wanted == "" && s.local != nil {
		return s.local.Plan()
	}
	return wanted
}

// classPlan is what the jobs of batch and grade ask for.
func (s *session) classPlan(wanted jobs.Plan) jobs.Plan {
	return cmp.Or(s.plan(wanted), grading.DefaultPlan)
}

func (s *session) close() {
	if s.client != nil {
		s.client.Close()
	}
	if s.local != nil {
		if err := s.local.Stop(); err != nil {
			fmt.Fprintf(s.err, "%s: stop local system: %v\n", name, err)
		}
	}
	if s.stopTraces != nil {
		s.stopTraces()
	}
}

// userName is --user, or the user whom the key file names, or the login name.
func (s *session) userName() (string, error) { return client.UserName(s.User, s.NKey) }

// say prints a line for the person at the terminal.
func (s *session) say(format string, args ...any) {
	if !s.Quiet {
		fmt.Fprintln(s.err, sanitize.Text(fmt.Sprintf(format, args...)))
	}
}

// sayFull has tell say, once, that jobs wait to be submitted because the queue is full, and for how long.
func (s *session) sayFull(tell func(line string)) {
	var once sync.Once
	s.full = func(err error) {
		once.Do(func() { tell("waiting to submit the rest: " + sanitize.Text(err.Error())) })
	}
}

// print writes a value as one line of JSON.
func (s *session) print(v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printResult prints a job's result: as JSON, or its text with a summary beside it. A job that did
// not succeed makes the command fail.
func (s *session) printResult(r *jobs.Result) error {
	if s.JSON {
		if err := s.print(r); err != nil {
			return err
		}
	} else if r.Text != "" {
		text := r.Text
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if _, err := io.WriteString(textWriter(s.out), text); err != nil {
			return err
		}
	}
	return s.conclude(r)
}

// conclude says on stderr how a job went. One that did not succeed is an error.
func (s *session) conclude(r *jobs.Result) error {
	if r.Status != jobs.Succeeded {
		return &app.ExitError{Code: app.ExitFailed, Err: errors.New("job " + r.JobID + " " + problem(r))}
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(s.err, "warning: %s\n", sanitize.Text(w))
	}
	s.say("%s", summary(r))
	return nil
}

// hinted is an error with what the user can do about it.
type hinted struct {
	error
	hint  string
	jobID string // that the error is about, if it is one that lives on
}

func (h *hinted) Unwrap() error { return h.error }

// withHint adds a line that is printed below the error.
func withHint(err error, format string, args ...any) error {
	return &hinted{error: err, hint: fmt.Sprintf(format, args...)}
}

// report tells the user about the error that ended the command; with --json stdout has it, too.
func (s *session) report(err error) {
	if e, ok := errors.AsType[*app.ExitError](err); ok && e.Err == nil {
		return // everything was said
	}
	fmt.Fprintf(s.err, "%s: %s\n", name, sanitize.Text(err.Error()))
	h, ok := errors.AsType[*hinted](err)
	if ok {
		fmt.Fprintf(s.err, "  %s\n", sanitize.Text(h.hint))
	}
	if _, said := errors.AsType[*app.ExitError](err); said || !s.JSON {
		return
	}
	f := failure{Error: jobs.ErrorInfo{Message: err.Error()}}
	if e, ok := errors.AsType[*jobs.Error](err); ok {
		f.Error.Code, f.RetryAfter = e.Code, e.RetryAfter.Seconds()
	}
	if ok {
		f.JobID = h.jobID
	}
	_ = s.print(f) // the exit code tells more than a second error would
}
