package client

import (
	"cmp"
	"context"
	"log/slog"
	"os/user"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/access"
	"tandem/internal/queue"
	"tandem/jobs"
)

// DefaultURL is where NATS is if nobody says otherwise.
const DefaultURL = queue.DefaultURL

// Options say how to reach NATS and for whom. The zero value is for a server without keys on this machine.
type Options struct {
	URL   string // nats://host:4222, tls:// for TLS; several separated by commas; DefaultURL if empty
	NKey  string // file with the user's nkey seed, as `submitter admin grader add` writes it; none if empty
	Creds string // file with a user's JWT and nkey seed, as made by nsc; none if empty
	CA    string // PEM file of the authority that signed the server's certificate; the system's if empty
	User  string // whose jobs and results these are; the user that NKey names, else the login name, if empty
	Name  string // of the program, as `nats server report connections` shows it; tandem-client if empty

	// NATS are more options of the connection. They come last.
	NATS []nats.Option
	// OnFull, if set, is told of each job that has to wait because the queue is full: the error says how full and when it is tried
	// again. It may be called from several goroutines.
	OnFull func(err error)
	// Order, if set, is the order in which the jobs of a batch are published.
	Order func([]*jobs.Job) []*jobs.Job
	// Log is told of what goes wrong beside the calls, such as a connection that was lost; nothing is logged if it is nil. No text of a prompt
	// or an answer is in it.
	Log *slog.Logger

	// Context is the name of the nats CLI's context that the options come from, if they do, for errors.
	Context string
}

// Client submits jobs and awaits their results for one user. It may be used by several goroutines, and keeps trying when NATS is away.
type Client struct {
	q    *queue.Client
	user string
}

// Dial connects to NATS. Every error is of code nats_unavailable, or invalid_request for an option that is wrong, and says what to do. Close must be called.
func Dial(ctx context.Context, o Options) (*Client, error) {
	who, err := UserName(o.User, o.NKey)
	if err != nil {
		return nil, err
	}
	conn, err := queue.Connect(ctx, queue.Config{
		URL: o.URL, Creds: o.Creds, NKey: o.NKey, TLSCA: o.CA, Options: o.NATS, Context: o.Context,
		Name: cmp.Or(o.Name, "tandem-client"), Inbox: jobs.EncodeToken(who), Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	q := queue.NewClient(conn, who)
	q.OnFull, q.Order = o.OnFull, o.Order
	return &Client{q, who}, nil
}

// UserName is whose jobs a program submits with these options: the user given, or the one that the key's file names, or the login name.
func UserName(given, nkey string) (string, error) {
	who := cmp.Or(given, access.CredentialUser(nkey))
	if who == "" {
		u, err := user.Current()
		if err != nil || u.Username == "" {
			return "", jobs.Errorf(jobs.CodeInvalid, "user: the login name cannot be told; give --user or set TANDEM_USER")
		}
		who = u.Username
	}
	return who, jobs.CheckUser(who)
}

// User is whose jobs and results these are.
func (c *Client) User() string { return c.user }

// For returns a client for the jobs and results of another user over the same connection, whose key must allow that: a grader's does not. It is closed with
// this one.
func (c *Client) For(user string) *Client {
	q := queue.NewClient(c.q.Conn, user)
	q.OnFull, q.Order = c.q.OnFull, c.q.Order
	return &Client{q, user}
}

// Close ends the connection. Calls that wait end with an error; their jobs live on.
func (c *Client) Close() { c.q.Close() }

// Queue is for package admin: other programs cannot use what it returns.
func (c *Client) Queue() *queue.Client { return c.q }

// Models lists the models that jobs may ask for, in order: those that a worker was ever started for. Whether one lives now is another matter.
func (c *Client) Models(ctx context.Context) ([]string, error) { return c.q.Models(ctx) }

// complete fills in what a job leaves out.
func (c *Client) complete(j *jobs.Job) error {
	model, err := jobs.CanonicalModel(j.Model)
	if err != nil {
		return err
	}
	if j.ID == "" {
		j.ID = jobs.NewID()
	}
	j.V, j.Model = cmp.Or(j.V, jobs.Version), model
	j.User, j.Batch, j.Class = cmp.Or(j.User, c.user), cmp.Or(j.Batch, jobs.SingleBatch), cmp.Or(j.Class, jobs.Interactive)
	if j.SubmittedAt.IsZero() {
		j.SubmittedAt = time.Now().UTC()
	}
	return nil
}

// Submit has a job done, some time, by somebody: when it returns, NATS has stored the job, and it will have a result. What the job leaves out is filled in: its id,
// the user, the batch "single", the class interactive and the time. Submitting a job again that is queued, running or finished changes nothing and is
// no error.
//
// Errors are of code queue_full, which say in RetryAfter when to try again; unknown_model, which list the known ones; invalid_request and nats_unavailable.
func (c *Client) Submit(ctx context.Context, j *jobs.Job) error {
	if err := c.complete(j); err != nil {
		return err
	}
	return c.q.Submit(ctx, j, queue.SubmitOptions{})
}

// SubmitWaiting is Submit for one of many jobs, of which the caller keeps the record: it waits while the queue is full, and minutes while NATS is
// away. Again says that an earlier process may have submitted the job: one that waits, runs or has ended is left alone then.
func (c *Client) SubmitWaiting(ctx context.Context, j *jobs.Job, again bool) error {
	if err := c.complete(j); err != nil {
		return err
	}
	return c.q.SubmitOne(ctx, j, again)
}

// Run submits a job and returns its result: Submit and Await in one.
func (c *Client) Run(ctx context.Context, j *jobs.Job) (*jobs.Result, error) {
	if err := c.complete(j); err != nil {
		return nil, err
	}
	return c.q.Run(ctx, j, queue.SubmitOptions{})
}

// Generate asks a model, in its simplest form: it generates at most so many tokens, or as many as the model wants if limit is 0. It returns the text, and the result
// with all that was measured. A job that did not succeed is an error with the code that its result says.
func (c *Client) Generate(ctx context.Context, prompt, model string, limit int) (text string, metrics *jobs.Result, err error) {
	j := &jobs.Job{Model: model, Prompt: prompt}
	if limit != 0 {
		j.Options.NumPredict = &limit
	}
	r, err := c.Run(ctx, j)
	if err != nil {
		return "", nil, err
	}
	if r.Status != jobs.Succeeded {
		return r.Text, r, jobs.Errorf(r.Error.Code, "job %s %s: %s", r.JobID, r.Status, r.Error.Message)
	}
	return r.Text, r, nil
}

// Await returns the result of a job, or of its replay, when it is there, whoever submitted it for the user and whenever: results stay for seven days.
// A job past its own deadline ends as expired.
//
// When ctx's deadline passes first the error is of code decode_unavailable if no decode worker serves the job's model, else of code timeout.
// The job lives on either way, and Await may be called again. A job that is unknown is of code invalid_request.
func (c *Client) Await(ctx context.Context, jobID string) (*jobs.Result, error) {
	return c.q.Await(ctx, jobID)
}

// Result is Await without waiting: a job without result is an error of code timeout that says where it is.
func (c *Client) Result(ctx context.Context, jobID string) (*jobs.Result, error) {
	return c.q.Result(ctx, jobID)
}
