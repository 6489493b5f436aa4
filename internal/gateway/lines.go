package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"tandem/jobs"
)

const (
	maxLines  = 50_000
	maxErrors = 100 // that are said of a file
)

// batchLine is a line of the file of a batch.
type batchLine struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// batchPlan is what the lines of a file have in common.
type batchPlan struct {
	lines  int
	shared int // first messages that all have
}

// jobID is the id of the job of a line: the same each time, so that no line is done twice.
func jobID(batch string, line int) string {
	id, err := uuid.Parse(batch)
	if err != nil { // ours are
		panic(err)
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(batch), uint64(line)))
	copy(id[6:], sum[:]) // after the time, by which ids sort
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id.String()
}

// fetch copies the batch's file to this machine's disk, where it has no name: reading it may take as long as the batch.
func (r *batchRun) fetch(ctx context.Context) (_ *os.File, err error) {
	object, err := r.b.store.Get(ctx, objectName(r.record.User, r.record.Batch.InputFile))
	if err != nil {
		return nil, notStored(err)
	}
	defer object.Close()
	f, err := unnamed()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, object); err != nil {
		_ = f.Close() // nobody reads it
		return nil, notStored(err)
	}
	return f, nil
}

// unnamed makes a file that is gone when it is closed.
func unnamed() (*os.File, error) {
	f, err := os.CreateTemp("", "tandem-batch-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // it is empty
		return nil, err
	}
	return f, nil
}

// each calls f for each line of a file that is not empty; lines count from 1, n from 0.
func each(file *os.File, f func(n, line int, data []byte) error) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(file, 1<<20)
	n := 0
	for line := 1; ; line++ {
		data, err := in.ReadBytes('\n')
		if text := bytes.TrimSpace(data); len(text) > 0 {
			if err := f(n, line, text); err != nil {
				return err
			}
			n++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// parse makes a job of a line, that is not complete yet.
func (r *batchRun) parse(data []byte) (*batchLine, *completion, error) {
	record := r.record
	var in batchLine
	if err := decode(data, &in); err != nil {
		return nil, nil, err
	}
	switch {
	case in.CustomID == "":
		return nil, nil, refuse(http.StatusBadRequest, "custom_id", "custom_id is empty; want a name that no other line has")
	case in.Method != http.MethodPost:
		return nil, nil, refuse(http.StatusBadRequest, "method", "method is %.20q; want POST", in.Method)
	case in.URL != record.Batch.Endpoint:
		return nil, nil, refuse(http.StatusBadRequest, "url", "url is %.60q; want %s, the endpoint of the batch", in.URL, record.Batch.Endpoint)
	case len(in.Body) == 0:
		return nil, nil, refuse(http.StatusBadRequest, "body", "body is missing")
	}
	c, err := completions[record.Batch.Endpoint](in.Body)
	if err != nil {
		return nil, nil, err
	}
	if c.Stream {
		return nil, nil, refuse(http.StatusBadRequest, "stream", "stream is true; a batch has no streams")
	}
	j := c.job
	if j.Model, err = jobs.CanonicalModel(j.Model); err != nil {
		return nil, nil, refuse(http.StatusBadRequest, "model", "model: %v", err)
	}
	if err := (caller{token: record.Token}).may(j.Model); err != nil {
		return nil, nil, err
	}
	j.V, j.User, j.Batch, j.CustomID = jobs.Version, record.User, record.Batch.ID, in.CustomID
	j.ID, j.Class, j.Plan, j.Deadline = jobs.NewID(), jobs.Batch, record.Plan, time.Unix(record.Batch.ExpiresAt, 0).UTC()
	if j.Embed != nil {
		j.Plan = jobs.PlanLocal
	}
	if err := j.Validate(); err != nil {
		return nil, nil, err
	}
	return &in, c, nil
}

// check reads all lines, and says what is wrong with them.
func (r *batchRun) check(ctx context.Context, file *os.File) (plan batchPlan, wrong []batchError, err error) {
	names := map[string]bool{}
	known, err := r.system.Models(ctx)
	if err != nil {
		return plan, nil, err
	}
	var first *jobs.Job
	say := func(line int, err error) {
		if len(wrong) == maxErrors {
			return
		}
		e := batchError{Code: "invalid_line", Message: err.Error(), Line: line}
		if refused, is := errors.AsType[*refusal](err); is && refused.param != "" {
			e.Param = &refused.param
		}
		wrong = append(wrong, e)
	}
	err = each(file, func(n, line int, data []byte) error {
		if plan.lines++; plan.lines > maxLines {
			return nil
		}
		in, c, err := r.parse(data)
		if err == nil && names[in.CustomID] {
			err = refuse(http.StatusBadRequest, "custom_id", "custom_id %.100q is there twice", in.CustomID)
		}
		if err == nil && !slices.Contains(known, c.job.Model) {
			err = refuse(http.StatusNotFound, "model", "model '%s' not found; there are %s", c.job.Model, strings.Join(known, ", "))
		}
		if err != nil {
			say(line, err)
			return nil
		}
		names[in.CustomID] = true
		messages := c.job.Messages
		if n == 0 {
			first, plan.shared = c.job, len(messages)-1
		}
		same := 0
		for same < min(plan.shared, len(messages)-1) && reflect.DeepEqual(messages[same], first.Messages[same]) && reflect.DeepEqual(c.job.Tools, first.Tools) {
			same++
		}
		plan.shared = same
		return nil
	})
	if plan.lines > maxLines {
		wrong = append(wrong, batchError{Code: "too_many_lines", Message: fmt.Sprintf("the file has %d lines; %d are allowed, so send several batches", plan.lines, maxLines), Line: maxLines + 1})
	}
	if err == nil && plan.lines == 0 {
		wrong = append(wrong, batchError{Code: "empty_file", Message: "the file has no lines", Line: 1})
	}
	plan.shared = max(plan.shared, 0)
	return plan, wrong, err
}

// all has all lines done, so many at the same time, and writes what becomes of each.
func (r *batchRun) all(parent context.Context, file *os.File, plan batchPlan, out *outcome) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var doing sync.WaitGroup
	idle := make(chan struct{})
	go r.cancelJobs(ctx, idle)
	id := strings.TrimPrefix(r.record.Batch.ID, "batch_")
	err := each(file, func(n, _ int, data []byte) error {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		doing.Go(func() {
			defer func() { <-r.slots }()
			if err := r.one(ctx, plan, id, n, data, out); err != nil {
				cancel(err)
			}
		})
		return nil
	})
	doing.Wait()
	close(idle)
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// cancelJobs cancels what is queued of the batch once it is to end early, and again, since something may be on its way into the queue.
func (r *batchRun) cancelJobs(ctx context.Context, idle <-chan struct{}) {
	select {
	case <-r.early:
	case <-idle:
		return
	}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		if _, _, err := r.system.CancelBatch(ctx, r.record.Batch.ID); err != nil && ctx.Err() == nil {
			r.log.Warn("the jobs of a batch are not cancelled yet", "error", err)
		}
		select {
		case <-again.C:
		case <-idle:
			return
		}
	}
}

// one has a line done.
func (r *batchRun) one(ctx context.Context, plan batchPlan, batch string, n int, data []byte, out *outcome) error {
	in, c, err := r.parse(data)
	if err != nil { // which it was not before
		return err
	}
	j := c.job
	j.ID, j.SharedPrefix = jobID(batch, n), plan.shared
	if rest := min(plan.lines-n-1, window); rest > 0 {
		j.Following.Jobs = rest
	}
	line := outcomeLine{ID: "batch_req_" + j.ID, CustomID: in.CustomID}
	switch {
	case r.ending():
		line.Error = &lineError{"batch_cancelled", "the batch was cancelled before this line was begun"}
	case r.b.now().After(j.Deadline):
		line.Error = &lineError{"batch_expired", "the time of the batch was over before this line was begun"}
	}
	var result *jobs.Result
	if line.Error == nil {
		if result, err = r.result(ctx, j); err != nil && jobs.CodeOf(err) == "" || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err == nil {
			err = failure(result)
			r.b.Observe.Job(j, result, "", "", 0, 0)
		}
		switch {
		case result != nil && result.Status == jobs.Cancelled:
			line.Error = &lineError{"batch_cancelled", err.Error()}
		case result != nil && result.Status == jobs.Expired:
			line.Error = &lineError{"batch_expired", err.Error()}
		case err != nil:
			line.Response = &lineResponse{statusOf(err), j.ID, openAIError(err)}
		default:
			c.created = result.FinishedAt.Unix()
			line.Response = &lineResponse{http.StatusOK, j.ID, c.whole(result)}
		}
	}
	good := line.Response != nil && line.Response.Status == http.StatusOK
	if err := out.write(good, line); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if good {
		r.counts.Completed++
	} else {
		r.counts.Failed++
	}
	if r.record.Token != nil && line.Error == nil {
		u := usageOfJob(r.record.Token, result)
		r.used = r.used.add(u)
		r.used.Token = u.Token
	}
	return nil
}

// result has a job done that may be queued already, or have ended, and waits while NATS is away.
func (r *batchRun) result(ctx context.Context, j *jobs.Job) (*jobs.Result, error) {
	for {
		err := r.system.SubmitWaiting(ctx, j, r.record.Starts > 1)
		if err == nil {
			var result *jobs.Result
			if result, err = r.system.Await(ctx, j.ID); err == nil {
				return result, nil
			}
		}
		if code := jobs.CodeOf(err); code != jobs.CodeNATS && code != jobs.CodeTimeout || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// outcomeLine is what became of a line.
type outcomeLine struct {
	ID       string        `json:"id"`
	CustomID string        `json:"custom_id"`
	Response *lineResponse `json:"response"`
	Error    *lineError    `json:"error"`
}

type lineResponse struct {
	Status  int    `json:"status_code"`
	Request string `json:"request_id"`
	Body    any    `json:"body"`
}

type lineError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// outcome is the two files of a batch while they are written.
type outcome struct {
	mu        sync.Mutex
	good, bad *os.File
}

func newOutcome() (o *outcome, err error) {
	o = &outcome{}
	if o.good, err = unnamed(); err == nil {
		o.bad, err = unnamed()
	}
	if err != nil {
		o.close()
	}
	return o, err
}

func (o *outcome) close() {
	for _, f := range []*os.File{o.good, o.bad} {
		if f != nil {
			_ = f.Close() // nobody reads it again
		}
	}
}

func (o *outcome) write(good bool, line outcomeLine) error {
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.bad
	if good {
		f = o.good
	}
	_, err = f.Write(append(data, '\n'))
	return err
}

// put stores one of the two as a file of the batch's user, and returns its id; "" if there is nothing in it.
func (o *outcome) put(ctx context.Context, r *batchRun, id string, f *os.File) (string, error) {
	if n, err := f.Seek(0, io.SeekCurrent); n == 0 || err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	name := r.record.Batch.ID + "_output.jsonl"
	if f == o.bad {
		name = r.record.Batch.ID + "_error.jsonl"
	}
	if _, err := putFile(ctx, r.b.store, r.record.User, id, name, purposeOutput, f); err != nil {
		return "", notStored(err)
	}
	return id, nil
}
