package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/jobs"
)

// bucketBatches is where the state of batches is kept, a record each. With the files and the results in the queue it is all that a batch needs: a gateway that is
// killed loses nothing of it, and another goes on.
const (
	bucketBatches = "gateway_batches"
	batchesBytes  = 256 << 20
)

const (
	leaseFor   = 6 * time.Second // a batch whose gateway was silent for so long is another's
	renewEvery = time.Second
	window     = 200 // jobs of a user's batches that wait or run at the same time, so that those of others come in between
)

// The states of a batch.
const (
	batchValidating = "validating"
	batchRunning    = "in_progress"
	batchFinalizing = "finalizing"
	batchCompleted  = "completed"
	batchFailed     = "failed" // its file is not as it must be, and nothing was done
	batchExpired    = "expired"
	batchCancelling = "cancelling"
	batchCancelled  = "cancelled"
)

// batch is one, as OpenAI describes it.
type batch struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Endpoint     string            `json:"endpoint"`
	Errors       *batchErrors      `json:"errors"`
	InputFile    string            `json:"input_file_id"`
	Window       string            `json:"completion_window"`
	Status       string            `json:"status"`
	OutputFile   string            `json:"output_file_id,omitempty"`
	ErrorFile    string            `json:"error_file_id,omitempty"`
	CreatedAt    int64             `json:"created_at"`
	InProgressAt int64             `json:"in_progress_at,omitempty"`
	ExpiresAt    int64             `json:"expires_at"`
	FinalizingAt int64             `json:"finalizing_at,omitempty"`
	CompletedAt  int64             `json:"completed_at,omitempty"`
	FailedAt     int64             `json:"failed_at,omitempty"`
	ExpiredAt    int64             `json:"expired_at,omitempty"`
	CancellingAt int64             `json:"cancelling_at,omitempty"`
	CancelledAt  int64             `json:"cancelled_at,omitempty"`
	Counts       batchCounts       `json:"request_counts"`
	Metadata     map[string]string `json:"metadata"`
}

type batchCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

type batchErrors struct {
	Object string       `json:"object"`
	Data   []batchError `json:"data"`
}

// batchError is what is wrong with a line of the file.
type batchError struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Line    int     `json:"line"`
}

func (b *batch) ended() bool {
	return b.Status == batchCompleted || b.Status == batchFailed || b.Status == batchExpired || b.Status == batchCancelled
}

// batchRecord is what is kept of a batch.
type batchRecord struct {
	Batch  batch     `json:"batch"`
	User   string    `json:"user"`
	Token  *Token    `json:"token,omitempty"` // by which it came, without its hash
	Plan   jobs.Plan `json:"plan"`
	Runner string    `json:"runner,omitempty"` // the gateway that does it
	Until  time.Time `json:"until,omitzero"`   // for how long, unless it says more
	Starts int       `json:"starts"`           // of its doing
}

// batches does the batches of all users, and keeps their files.
type batches struct {
	*gateway
	name  string // of this gateway
	store jetstream.ObjectStore
	kv    jetstream.KeyValue

	mu      sync.Mutex
	running map[string]*batchRun     // by key
	slots   map[string]chan struct{} // by user: places for their jobs
	runs    sync.WaitGroup
}

// openBatches opens the buckets, and makes them if they are not there.
func openBatches(ctx context.Context, g *gateway) (*batches, error) {
	js := g.System.JetStream()
	store, err := openFiles(ctx, js)
	if err != nil {
		return nil, err
	}
	kv, err := js.KeyValue(ctx, bucketBatches)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucketBatches, Description: "State of the gateway's batches", TTL: keepFiles, MaxBytes: batchesBytes, Storage: jetstream.FileStorage, Replicas: replicas(ctx, js)})
	}
	if err != nil {
		return nil, err
	}
	return &batches{gateway: g, name: jobs.NewID(), store: store, kv: kv, running: map[string]*batchRun{}, slots: map[string]chan struct{}{}}, nil
}

// userKey begins the keys of a user's batches.
func userKey(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:8])
}

func batchKey(user, id string) string { return userKey(user) + "." + id }

// api adds the API of batches: https://platform.openai.com/docs/api-reference/batch
func (b *batches) api(add func(pattern string, h handler)) {
	b.files(add)
	add("POST /v1/batches", b.create)
	add("GET /v1/batches", func(w http.ResponseWriter, r *http.Request) error {
		list, err := b.list(r.Context(), callerOf(r).system.User())
		if err != nil {
			return err
		}
		return writePage(w, r, list, 100, func(b batch) string { return b.ID })
	})
	add("GET /v1/batches/{id}", func(w http.ResponseWriter, r *http.Request) error {
		record, _, err := b.record(r.Context(), callerOf(r).system.User(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, record.Batch)
	})
	add("POST /v1/batches/{id}/cancel", b.cancel)
}

var errNoBatch = errors.New("there is no such batch")

// record reads a user's batch and its revision.
func (b *batches) record(ctx context.Context, user, id string) (*batchRecord, uint64, error) {
	noBatch := refuse(http.StatusNotFound, "id", "there is no batch %.100q; GET /v1/batches lists yours, which are kept for 30 days", id)
	if !tokenName.MatchString(id) {
		return nil, 0, noBatch
	}
	record, revision, err := b.read(ctx, batchKey(user, id))
	if errors.Is(err, errNoBatch) || err == nil && record.User != user {
		return nil, 0, noBatch
	}
	return record, revision, err
}

func (b *batches) read(ctx context.Context, key string) (*batchRecord, uint64, error) {
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, errNoBatch
	}
	if err != nil {
		return nil, 0, notStored(err)
	}
	var record batchRecord
	if err := json.Unmarshal(entry.Value(), &record); err != nil {
		return nil, 0, fmt.Errorf("read batch %s: %w", key, err)
	}
	return &record, entry.Revision(), nil
}

// change writes a record anew, as edit makes it of what is kept, which may have been changed meanwhile. An edit that returns false changes nothing.
func (b *batches) change(ctx context.Context, key string, edit func(r *batchRecord) bool) (*batchRecord, error) {
	for {
		record, revision, err := b.read(ctx, key)
		if err != nil || !edit(record) {
			return record, err
		}
		data, err := json.Marshal(record)
		if err != nil {
			return nil, err
		}
		switch _, err = b.kv.Update(ctx, key, data, revision); {
		case err == nil:
			return record, nil
		case !errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			return nil, notStored(err)
		}
	}
}

func (b *batches) list(ctx context.Context, user string) (list []batch, err error) {
	keys, err := b.kv.ListKeysFiltered(ctx, userKey(user)+".*")
	if err != nil {
		return nil, notStored(err)
	}
	defer func() { _ = keys.Stop() }()
	for key := range keys.Keys() {
		record, _, err := b.read(ctx, key)
		if errors.Is(err, errNoBatch) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if record.User == user {
			list = append(list, record.Batch)
		}
	}
	return list, nil
}

func (b *batches) create(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		InputFile string            `json:"input_file_id"`
		Endpoint  string            `json:"endpoint"`
		Window    string            `json:"completion_window"`
		Metadata  map[string]string `json:"metadata"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	if completions[in.Endpoint] == nil {
		return refuse(http.StatusBadRequest, "endpoint", "endpoint is %.60q; want /v1/chat/completions, /v1/completions or /v1/embeddings", in.Endpoint)
	}
	within, err := time.ParseDuration(in.Window)
	if err != nil || within < time.Minute || within > 144*time.Hour {
		return refuse(http.StatusBadRequest, "completion_window", "completion_window is %.20q; want 24h, or another time from 1m to 144h", in.Window)
	}
	if len(in.Metadata) > 16 {
		return refuse(http.StatusBadRequest, "metadata", "metadata has %d entries; want at most 16", len(in.Metadata))
	}
	for key, value := range in.Metadata {
		if len(key) > 64 || len(value) > 512 {
			return refuse(http.StatusBadRequest, "metadata", "metadata has a key of %d bytes with a value of %d; want at most 64 and 512", len(key), len(value))
		}
	}
	who := callerOf(r)
	if _, err := b.file(r.Context(), who.system.User(), in.InputFile); err != nil {
		return err
	}
	var sample jobs.Job
	sample.Model = "any:any" // of the headers only
	if err := b.complete(r, caller{system: who.system}, &sample); err != nil {
		return err
	}
	now := b.now()
	record := &batchRecord{User: who.system.User(), Plan: sample.Plan, Batch: batch{
		ID: "batch_" + jobs.NewID(), Object: "batch", Endpoint: in.Endpoint, InputFile: in.InputFile, Window: in.Window, Status: batchValidating,
		CreatedAt: now.Unix(), ExpiresAt: now.Add(within).Unix(), Metadata: in.Metadata,
	}}
	if who.token != nil {
		record.Token = &Token{Name: who.token.Name, User: who.token.User, Models: who.token.Models}
	}
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if _, err := b.kv.Create(r.Context(), batchKey(record.User, record.Batch.ID), data); err != nil {
		return notStored(err)
	}
	return writeJSON(w, http.StatusOK, record.Batch)
}

// cancel has whoever does a batch end it.
func (b *batches) cancel(w http.ResponseWriter, r *http.Request) error {
	record, _, err := b.record(r.Context(), callerOf(r).system.User(), r.PathValue("id"))
	if err != nil {
		return err
	}
	ended := false
	record, err = b.change(r.Context(), batchKey(record.User, record.Batch.ID), func(r *batchRecord) bool {
		if ended = r.Batch.ended(); ended || r.Batch.Status == batchCancelling {
			return false
		}
		r.Batch.Status, r.Batch.CancellingAt = batchCancelling, b.now().Unix()
		return true
	})
	if err != nil {
		return err
	}
	if ended {
		return refuse(http.StatusBadRequest, "id", "the batch is %s, and there is nothing to cancel", record.Batch.Status)
	}
	return writeJSON(w, http.StatusOK, record.Batch)
}
