package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tandem/jobs"
)

// errRefused is what a request ends with that this user may not make.
var errRefused = errors.New("the server refuses it to this user")

// question is a request that is under way.
type question struct {
	subject string // or the beginning of it
	stop    context.CancelCauseFunc
}

// ask makes a request whose subject begins so, and which this user may have no right to make. The server says that beside the request,
// which gets no answer; ask ends it at once, with an error that is [errRefused], and does not make it again.
func (c *Conn) ask(ctx context.Context, subject string, request func(context.Context) error) error {
	if err, ok := c.refused.Load(subject); ok {
		return err.(error)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	q := &question{subject, stop}
	c.asking.Store(q, nil)
	defer c.asking.Delete(q)
	err := request(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errRefused) {
		c.refused.Store(subject, cause)
		return cause
	}
	return err
}

// renewRights is what to do where a key was made before it needed a right.
const renewRights = "run submitter admin secure and nats-server --signal reload once, for the right to"

// errInbox is what all requests end with if the answers may not be heard.
var errInbox = fmt.Errorf("%w: the inboxes by which answers come", errRefused)

// interrupt ends the requests that the server has just refused, or whose answers, if there are any.
func (c *Conn) interrupt(refusal error, inboxes string) (stopped bool) {
	for q := range c.asking.Range {
		q, err := q.(*question), error(nil)
		switch {
		case strings.Contains(refusal.Error(), `"`+q.subject):
			err = errRefused
		case strings.Contains(refusal.Error(), `Subscription to "`+inboxes):
			err = errInbox
		default:
			continue
		}
		q.stop(fmt.Errorf("%w: %w", err, refusal))
		stopped = true
	}
	return stopped
}

// isAnswer reports whether what the server has refused is an answer to a request, over accounts or within one. It takes one for each request
// that it has passed on over the same connection, and for a while only.
func isAnswer(refusal error) bool {
	return strings.Contains(refusal.Error(), `Publish to "_R_.`) || strings.Contains(refusal.Error(), `Publish to "`+inboxPrefix)
}

// missing says that something is not there which this user may not create.
func (c *Conn) missing(what string, err error) error {
	model := c.model
	if model == "" {
		model = "NAME"
	}
	return jobs.Errorf(jobs.CodeNATS, "%s is missing; have it created by a user who may: submitter admin init --model %s: %w", what, model, err)
}
