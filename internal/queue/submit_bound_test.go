package queue

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// What a program has submitted beyond what one user may is ended, the newest first, and others get in, by whichever limit the intake is full, and
// by however many workers.
func TestOneUserFillsTheIntake(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit   func(*jetstream.StreamConfig)
		prompts int // bytes of each
		fits    int // jobs in the intake,
		left    int // and of one user, afterwards
	}{
		"number": {func(c *jetstream.StreamConfig) { c.MaxMsgs = 40 }, 10, 40, 36},
		"bytes":  {func(c *jetstream.StreamConfig) { c.MaxBytes = 4 << 20 }, 200_000, 20, 18},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.changeIntake(tt.limit)
			var list []*jobs.Job
			for range tt.fits {
				list = append(list, testJob(jobs.Batch, func(j *jobs.Job) { j.User, j.Prompt = "loud.user", strings.Repeat("x", tt.prompts) }))
			}
			r.submit(list...)
			quiet := testJob(jobs.Batch, func(j *jobs.Job) { j.User, j.Prompt = "quiet", strings.Repeat("x", tt.prompts) })
			var refusals sync.WaitGroup
			for range 2 { // of which each has a worker do it
				refusals.Go(func() {
					err := NewClient(r.Conn, quiet.User).Submit(t.Context(), quiet, SubmitOptions{})
					if full, ok := errors.AsType[*jobs.Error](err); err != nil && (!ok || full.Code != jobs.CodeQueueFull) {
						t.Errorf("submit to a full intake: %v", err)
					}
				})
			}
			refusals.Wait()
			r.eventually("the quiet user's job is taken", func() bool { // when the worker that ends the others' is done
				err := NewClient(r.Conn, quiet.User).Submit(t.Context(), quiet, SubmitOptions{})
				if err != nil && !errors.Is(err, jobs.ErrQueueFull) {
					t.Errorf("submit when one user was bounded: %v", err)
				}
				return err == nil
			})
			if n := r.waiting(StreamIntake); n != tt.left+1 {
				t.Errorf("%d jobs wait, want %d of one user and one of another", n, tt.left)
			}
			r.start(protocol.RoleDecode, 4, answer)
			for i, res := range r.results(append(list, quiet)...) {
				if ended := i >= tt.left && i < len(list); ended != (res.Status == jobs.Failed) || ended && res.Error.Code != jobs.CodeQueueFull {
					t.Errorf("job %d of %d: %s, %+v", i, len(list), res.Status, res.Error)
				}
			}
			if n := r.waiting(StreamDLQ); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// A user who is alone may fill the intake, such as when no worker was there to ask, and none of the jobs is ended.
func TestOneUserAloneFillsTheIntake(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limitIntake(20)
	list := several(20, jobs.Batch)
	r.submit(list...)
	wantError(t, r.client().Submit(t.Context(), testJob(jobs.Batch), SubmitOptions{}), jobs.CodeQueueFull)
	r.start(protocol.RoleDecode, 4, answer)
	for _, res := range r.results(list...) {
		if res.Status != jobs.Succeeded {
			t.Errorf("result = %+v", res)
		}
	}
}

// A client that asks how much its user may submit waits, and none of its jobs fails.
func TestClientLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limitIntake(20)
	c := r.client()
	full := make(chan error, 100)
	c.OnFull = func(err error) { full <- err }
	list := input(40)
	submitted := make(chan error, 1)
	go func() { submitted <- submitBatch(c, t.Context(), filepath.Join(t.TempDir(), "m"), list, nil) }()
	wantError(t, <-full, jobs.CodeQueueFull, "18 jobs of user user wait, the limit is 18", "start one")
	if n := r.waiting(StreamIntake); n != 18 {
		t.Errorf("%d jobs wait, want 18", n)
	}
	other := testJob(jobs.Batch, func(j *jobs.Job) { j.User = "other" })
	if err := NewClient(r.Conn, other.User).Submit(t.Context(), other, SubmitOptions{}); err != nil {
		t.Errorf("another user: %v", err)
	}
	if err := c.Submit(t.Context(), list[0], SubmitOptions{}); err != nil {
		t.Errorf("a job that waits already: %v", err)
	}
	r.start(protocol.RoleDecode, 4, answer)
	if err := <-submitted; err != nil {
		t.Fatal(err)
	}
	for _, res := range r.results(append(list, other)...) {
		if res.Status != jobs.Succeeded {
			t.Errorf("result = %+v", res)
		}
	}
}

// A message whose headers are none takes room by all that it has, and hides no other's job: those are found, cancelled and bounded as ever.
func TestMalformedHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rawHeaders(protocol.JobSubject(jobs.StagePrefill, testModel, jobs.Batch, "loud", jobs.NewID()), strings.Repeat("no header ", 6_000)+"\r\n\r\n")
	j := testJob(jobs.Batch)
	r.submit(j)
	sizes, err := r.jobSizes.list(t.Context(), r.Conn, StreamIntake)
	if err != nil || len(sizes["loud"]) != 1 || bytesOf(sizes["loud"]) < 60_000 {
		t.Errorf("the sizes are %v, %v; want one message of more than 60,000 bytes", sizes, err)
	}
	if list, _, err := r.client().CancelBatch(t.Context(), j.Batch); err != nil || len(list) != 1 || list[0].Was != jobs.PriorQueued {
		t.Errorf("CancelBatch = %+v, %v; want one that was queued", list, err)
	}
	r.start(protocol.RoleDecode, 1, answer)
	r.eventually("an empty intake", func() bool { return r.waiting(StreamIntake) == 0 })
}

// rawHeaders publishes a message with headers that are none, as only a client can that writes the protocol by itself.
func (r *rig) rawHeaders(subject, headers string) {
	r.t.Helper()
	_, addr, _ := strings.Cut(r.server.URL(), "://")
	var d net.Dialer
	conn, err := d.DialContext(r.t.Context(), "tcp", addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB %s %d %d\r\n%s\r\nPING\r\n", subject, len(headers), len(headers), headers)
	if err != nil {
		r.t.Fatal(err)
	}
	for in := bufio.NewScanner(conn); in.Scan() && in.Text() != "PONG"; {
		if strings.HasPrefix(in.Text(), "-ERR") {
			r.t.Fatal(in.Text())
		}
	}
	r.eventually("a message with bad headers", func() bool {
		msg, err := r.lastMsg(r.t.Context(), StreamIntake, subject)
		return err == nil && msg != nil
	})
}
