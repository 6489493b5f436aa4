// Package admin is what an operator may do with the queue, beside what package tandem/client does for everybody: see what waits and who works, read and replay
// dead letters, remove a batch, and make the streams. With a grader's key everything is about the user's own jobs, and streams cannot be made.
package admin

import (
	"context"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/client"
	"tandem/internal/queue"
	"tandem/jobs"
)

// What the calls return. Their fields are JSON of the commands that print them: docs/OPERATIONS.md.
type (
	Overview     = queue.Overview     // the streams, models and workers
	Depth        = queue.Depth        // jobs of a consumer: waiting, and at work
	StreamStatus = queue.StreamStatus // a stream: what it holds and may hold
	ModelStatus  = queue.ModelStatus  // what waits for a model
	ClassStatus  = queue.ClassStatus  // of a class of jobs
	Presence     = queue.Presence     // what a worker says of itself
	Letter       = queue.Letter       // a job that could not be done, and why
	LetterFilter = queue.LetterFilter // which letters to list
	TokenStream  = queue.TokenStream  // the text of a job while it is generated
	Purged       = queue.Purged       // what was removed of a batch
	Kept         = queue.Kept         // what a stream holds of a job
	KeptName     = queue.KeptName     // names a job of which a stream holds something
	Change       = queue.Change       // a stream or consumer that was made or changed
	Trial        = queue.Trial        // what doctor measured of hand-overs between two machines
	TrialLength  = queue.TrialLength  // of prompts of one length
)

// The states of a worker.
const (
	StateReady    = queue.StateReady
	StateDown     = queue.StateDown
	StateDraining = queue.StateDraining
)

// The streams of jobs.
const (
	StreamIntake  = queue.StreamIntake  // jobs that wait for prefill or are at it
	StreamRelay   = queue.StreamRelay   // for decode
	StreamResults = queue.StreamResults // how jobs ended
	StreamDLQ     = queue.StreamDLQ     // dead letters
)

// Client is a client with an operator's verbs. It may be used by several goroutines.
type Client struct {
	*client.Client
	q *queue.Client
}

// New returns the operator's verbs over the connection of c.
func New(c *client.Client) *Client { return &Client{c, c.Queue()} }

// For returns a client for the jobs of another user over the same connection, whose key must allow that, as an operator's does. It is closed with this one.
func (c *Client) For(user string) *Client { return New(c.Client.For(user)) }

// JetStream is that of the connection, for what a program keeps beside the queue in buckets of its own.
func (c *Client) JetStream() jetstream.JetStream { return c.q.JetStream() }

// Inspect reads the state of the queue. A stream that is missing is no error.
func (c *Client) Inspect(ctx context.Context) (*Overview, error) { return c.q.Inspect(ctx) }

// Workers lists who is present, in the order of role, model and worker.
func (c *Client) Workers(ctx context.Context) ([]Presence, error) { return c.q.Workers(ctx) }

// Trials returns what doctor --handover measured last, of each model and pair of machines, newest first.
func (c *Client) Trials(ctx context.Context) ([]Trial, error) { return c.q.Trials(ctx) }

// KeepTrial keeps a trial in the place of the last one of its machines and model. It takes an operator's rights.
func (c *Client) KeepTrial(ctx context.Context, t Trial) error { return c.q.KeepTrial(ctx, t) }

// DeadLetter returns the dead letter of a job.
func (c *Client) DeadLetter(ctx context.Context, jobID string) (*Letter, error) {
	return c.q.DeadLetter(ctx, jobID)
}

// DeadLetters lists the dead letters that match, oldest first, without their jobs and other texts. An error ends the list.
func (c *Client) DeadLetters(ctx context.Context, filter LetterFilter) iter.Seq2[*Letter, error] {
	return c.q.DeadLetters(ctx, filter)
}

// Replay submits the job of a dead letter again, as a new job that names the old one in replay_of and has no deadline; whoever awaits the old one gets the
// result of the new one. The dead letter stays. Replaying twice is one replay: again says that it was there already.
func (c *Client) Replay(ctx context.Context, jobID string) (newID string, again bool, err error) {
	return c.q.Replay(ctx, jobID)
}

// DropDeadLetter removes the dead letter of a job for good.
func (c *Client) DropDeadLetter(ctx context.Context, jobID string) error {
	return c.q.DropDeadLetter(ctx, jobID)
}

// Kept lists what one of the streams of jobs holds after a sequence, in its order and without texts. Nothing is taken off it, and none of its consumers is
// asked. What cannot be read is left out; an error ends the list. It takes an operator's or the gateway's rights.
func (c *Client) Kept(ctx context.Context, stream string, after uint64) iter.Seq2[*Kept, error] {
	return c.q.Kept(ctx, stream, after)
}

// KeptNames lists the jobs of which one of their streams holds something. It takes an operator's or the gateway's rights.
func (c *Client) KeptNames(ctx context.Context, stream string) ([]KeptName, error) {
	return c.q.KeptNames(ctx, stream)
}

// OwnLetter is DeadLetter of a job of the client's user, as ReplayOwn and DropOwn are Replay and DropDeadLetter, where the account is not a grader's: two users'
// jobs may have the same id.
func (c *Client) OwnLetter(ctx context.Context, jobID string) (*Letter, error) {
	return c.q.OwnLetter(ctx, jobID)
}

// OwnResult reads the result of a job of the client's user, not of its replay; nil if there is none.
func (c *Client) OwnResult(ctx context.Context, jobID string) (*jobs.Result, error) {
	return c.q.OwnResult(ctx, jobID)
}

// Tokens begins to listen for the text that a job of the client's user streams. Close must be called.
func (c *Client) Tokens(ctx context.Context, batch, jobID string) (*TokenStream, error) {
	return c.q.Tokens(ctx, batch, jobID)
}

// ReplayOwn is said at [Client.OwnLetter].
func (c *Client) ReplayOwn(ctx context.Context, jobID string) (newID string, again bool, err error) {
	return c.q.ReplayOwn(ctx, jobID)
}

// DropOwn is said at [Client.OwnLetter].
func (c *Client) DropOwn(ctx context.Context, jobID string) error { return c.q.DropOwn(ctx, jobID) }

// PurgeBatch removes all that the server holds of a batch: jobs that wait or run are cancelled, then results and dead letters are removed.
func (c *Client) PurgeBatch(ctx context.Context, batch string) (Purged, error) {
	return c.q.PurgeBatch(ctx, batch)
}

// Init creates the streams, the buckets and the consumers of the models given and of those known that are missing, each stream on so many servers of a cluster
// (1, 3 or 5), and changes what is not as it should be. It removes no message: what the server cannot change in place it leaves as it is. With dryRun it does
// nothing. It returns what it did, or would do, and what it left.
func (c *Client) Init(ctx context.Context, models []string, replicas int, dryRun bool) ([]Change, error) {
	return c.q.Init(ctx, models, replicas, dryRun)
}

// JobEvents begins to listen for what happens to the jobs of all users; the gateway's key allows that, too.
func (c *Client) JobEvents(ctx context.Context) (iter.Seq[*jobs.Event], error) {
	return c.q.JobEvents(ctx)
}

// AllEvents begins to listen for what happens to all jobs and workers, as [client.Client.Events] does for those of one user. It takes an operator's rights.
func (c *Client) AllEvents(ctx context.Context) (iter.Seq[*jobs.Event], error) {
	return c.q.AllEvents(ctx)
}
