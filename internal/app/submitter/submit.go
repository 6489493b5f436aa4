package submitter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// submitCmd runs one prompt.
type submitCmd struct {
	Prompt string `arg:"" optional:"" help:"The prompt; - reads it from standard input."`

	Model  string            `short:"m" required:"" env:"TANDEM_MODEL" placeholder:"NAME" help:"Model to ask, for example qwen3-coder:30b."`
	File   string            `short:"f" placeholder:"FILE" help:"Read the prompt from a file."`
	System string            `placeholder:"TEXT" help:"System prompt."`
	Format string            `placeholder:"FILE|json" help:"Have the answer in JSON: any, or as the JSON schema in FILE says."`
	Think  jobs.Think        `enum:",on,off,low,medium,high" default:"" placeholder:"HOW" help:"Reasoning: on, off, low, medium or high (default: the model's)."`
	Label  map[string]string `mapsep:"none" placeholder:"K=V" help:"Label that the result carries; may be repeated."`

	Temperature *float64          `placeholder:"N" help:"0 always takes the likeliest token."`
	Seed        *int64            `placeholder:"N" help:"Same seed, same answer."`
	NumPredict  *int              `name:"num-predict" placeholder:"TOKENS" help:"Tokens to generate at most."`
	Option      map[string]string `short:"o" mapsep:"none" placeholder:"K=V" help:"Another sampling option (num_ctx, top_p, top_k, min_p, repeat_penalty, stop); may be repeated."`

	Plan     jobs.Plan     `enum:",disaggregated,local,auto" default:"" placeholder:"PLAN" help:"disaggregated: prefill and decode on their machines (default); local: both on the decode machine; auto: what is fastest."`
	Class    jobs.Class    `enum:"interactive,batch" default:"interactive" placeholder:"CLASS" help:"interactive jobs run before batch ones (default ${default})."`
	Timeout  time.Duration `default:"10m" placeholder:"TIME" help:"How long to wait; the job lives on. 0 waits for ever (default ${default})."`
	Deadline time.Duration `placeholder:"TIME" help:"After this time from now the job must not run any more."`
	Stream   bool          `short:"s" help:"Print the text while it is generated."`
	Detach   bool          `short:"d" help:"Do not wait; print the job's id."`
	Direct   string        `placeholder:"URL" help:"Ollama to ask directly if NATS cannot be reached."`
}

// Run submits the prompt and waits for the answer.
func (c *submitCmd) Run(ctx context.Context, s *session) error {
	j, err := c.job(s)
	if err != nil {
		return err
	}
	if c.Detach && s.Local {
		return jobs.Errorf(jobs.CodeInvalid, "--detach and --local are both set: the local system ends with this command, and the job with it")
	}
	if err := s.connect(ctx, j.Model); err != nil {
		if c.Direct != "" && jobs.CodeOf(err) == jobs.CodeNATS && !s.Local {
			return c.direct(ctx, s, j, err)
		}
		return err
	}
	j.Plan = s.plan(c.Plan)
	if c.Detach {
		if err := s.client.Submit(ctx, j); err != nil {
			return err
		}
		if s.JSON {
			return s.print(submitted{j.ID})
		}
		_, err := fmt.Fprintln(s.out, j.ID)
		return err
	}
	wait, cancel := s.waitLimit(ctx, c.Timeout)
	defer cancel()
	r, printed, err := c.generate(wait, s, j)
	if err != nil {
		return s.notAwaited(ctx, err, j.ID)
	}
	if printed {
		return s.conclude(r)
	}
	return s.printResult(r)
}

// generate submits the job and waits, printing its text as it comes if asked to. printed says that
// stdout has all of it.
func (c *submitCmd) generate(ctx context.Context, s *session, j *jobs.Job) (r *jobs.Result, printed bool, err error) {
	if !j.Stream {
		progress := newBatchProgress(s, 1)
		defer progress.stop()
		defer progress.watch(ctx, s, j.Batch, j.ID, []string{j.Model}, nil)()
		r, err = s.client.Run(ctx, j)
		return r, false, err
	}
	out := &stream{session: s}
	for p, err := range s.client.Stream(ctx, j) {
		if err != nil {
			out.breakLine()
			return nil, false, err
		}
		r = p.Result
		out.piece(p)
	}
	return r, true, out.err
}

// direct asks an Ollama without any queue, because the queue cannot be reached.
func (c *submitCmd) direct(ctx context.Context, s *session, j *jobs.Job, cause error) error {
	fmt.Fprintf(s.err, "%s: %s\nasking the Ollama at %s directly instead\n", name, sanitize.Text(cause.Error()), sanitize.Text(protocol.RedactURL(c.Direct)))
	wait, cancel := s.waitLimit(ctx, c.Timeout)
	defer cancel()
	r, err := GenerateDirect(wait, c.Direct, j)
	if err != nil {
		return err
	}
	return s.printResult(r)
}

// job makes the job that the flags describe.
func (c *submitCmd) job(s *session) (*jobs.Job, error) {
	prompt, err := c.prompt(s.in)
	if err != nil {
		return nil, err
	}
	who, err := s.userName()
	if err != nil {
		return nil, err
	}
	j := &jobs.Job{
		V: jobs.Version, ID: jobs.NewID(), User: who, Batch: jobs.SingleBatch, Class: c.Class, Model: c.Model,
		System: c.System, Prompt: prompt, Think: c.Think, Labels: c.Label,
		Stream: c.Stream, SubmittedAt: time.Now().UTC(),
	}
	if err := checkTimes(c.Timeout, c.Deadline); err != nil {
		return nil, err
	}
	if c.Deadline > 0 {
		j.Deadline = j.SubmittedAt.Add(c.Deadline)
	}
	if j.Format, err = readFormat(c.Format); err != nil {
		return nil, err
	}
	if j.Options, err = readOptions(c.Option); err != nil {
		return nil, err
	}
	if c.Temperature != nil {
		j.Options.Temperature = c.Temperature
	}
	if c.Seed != nil {
		j.Options.Seed = c.Seed
	}
	if c.NumPredict != nil {
		j.Options.NumPredict = c.NumPredict
	}
	return j, finishJob(j)
}

// prompt returns the text from the one place where it was given.
func (c *submitCmd) prompt(stdin io.Reader) (string, error) {
	switch {
	case c.Prompt != "" && c.File != "":
		return "", jobs.Errorf(jobs.CodeInvalid, "the prompt is given twice, as an argument and with --file; give one")
	case c.File != "":
		f, err := os.Open(c.File)
		if err != nil {
			return "", jobs.Errorf(jobs.CodeInvalid, "file: %w", err)
		}
		defer f.Close()
		return readText(f, "file "+c.File)
	case c.Prompt == "-":
		return readText(stdin, "standard input")
	}
	if err := checkUTF8("the prompt", c.Prompt); err != nil {
		return "", err
	}
	return c.Prompt, nil
}

// readText reads a prompt, no more of it than a job may hold.
func readText(r io.Reader, from string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, jobs.MaxBody+1))
	if err != nil {
		return "", fmt.Errorf("read prompt: %s: %w", from, err)
	}
	if len(data) > jobs.MaxBody {
		return "", jobs.Errorf(jobs.CodeInvalid, "%s holds more than %d bytes, which is all that a prompt may have; shorten it", from, jobs.MaxBody)
	}
	return string(data), checkUTF8(from, string(data))
}

// checkUTF8 names the first byte that is not UTF-8.
func checkUTF8(what, s string) error {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return jobs.Errorf(jobs.CodeInvalid, "%s: byte %d is not valid UTF-8; convert the text to UTF-8", what, i)
			}
		}
	}
	return nil
}

// readFormat returns "json", or the schema in a file.
func readFormat(format string) (json.RawMessage, error) {
	switch format {
	case "":
		return nil, nil
	case "json":
		return json.RawMessage(`"json"`), nil
	}
	f, err := os.Open(format)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "format is neither json nor a file that can be read: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, jobs.MaxFormat+1))
	if err != nil {
		return nil, fmt.Errorf("read format: %w", err)
	}
	if len(data) > jobs.MaxFormat {
		return nil, jobs.Errorf(jobs.CodeInvalid, "format: %s has more than the %d bytes that a schema may have", format, jobs.MaxFormat)
	}
	if err := jobs.CheckJSON(data); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "format: %s is no JSON schema: %w", format, err)
	}
	return data, nil
}

// readOptions reads options given as K=V: V is JSON, or a plain word. A stop word may be given alone.
func readOptions(given map[string]string) (jobs.Options, error) {
	object := map[string]json.RawMessage{}
	for k, v := range given {
		raw := json.RawMessage(v)
		if !json.Valid(raw) || k == "stop" && !strings.HasPrefix(v, "[") {
			word, err := json.Marshal(v)
			if err != nil {
				return jobs.Options{}, err
			}
			if raw = word; k == "stop" {
				raw = append(append([]byte("["), word...), ']')
			}
		}
		object[k] = raw
	}
	data, err := json.Marshal(object)
	if err != nil {
		return jobs.Options{}, err
	}
	var j jobs.Job
	if err := json.Unmarshal(data, &j.Options); err != nil {
		return jobs.Options{}, typeError("option", err)
	}
	return j.Options, checkNested(&j)
}

// checkTimes refuses a time that has passed before it begins.
func checkTimes(times ...time.Duration) error {
	if slices.Min(times) < 0 {
		return jobs.Errorf(jobs.CodeInvalid, "a time is negative; give --timeout and --deadline as in 90s or 10m")
	}
	return nil
}

// waitLimit bounds how long the user waits; 0 is for ever.
func (s *session) waitLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// notAwaited explains an error that ended the waiting for a job, and says how to go on.
func (s *session) notAwaited(ctx context.Context, err error, jobID string) error {
	code := jobs.CodeOf(err)
	switch {
	case interrupted(ctx):
		err = app.ErrInterrupted
	case code == jobs.CodeNATS && errors.Is(err, context.DeadlineExceeded): // no answer
		return withHint(err, "whether NATS has job %s is not known; when it is back: %s result %[1]s", jobID, name)
	case errors.Is(err, context.DeadlineExceeded), code == jobs.CodeTimeout, code == jobs.CodeDecodeMissing:
	default:
		return err
	}
	if s.Local {
		return withHint(err, "the local system ends with this command, and job %s with it", jobID)
	}
	return &hinted{err, fmt.Sprintf("job %s lives on: %s await %[1]s, or: %[2]s cancel %[1]s", jobID, name), jobID}
}
