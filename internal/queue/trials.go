package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Trial is what submitter doctor --handover measured between two machines the last time.
type Trial struct {
	At      time.Time     `json:"at"`
	Model   string        `json:"model"`   // canonical
	Prefill string        `json:"prefill"` // the machine that computed the prompts
	Decode  string        `json:"decode"`  // the machine to which KV states were handed over
	Lengths []TrialLength `json:"lengths"`
}

// TrialLength is the hand-over of a prompt of one length.
type TrialLength struct {
	Tokens         int     `json:"tokens"`           // of the prompt
	WholeSeconds   float64 `json:"whole_seconds"`    // that the decode machine takes to compute it by itself
	PrefillSeconds float64 `json:"prefill_seconds"`  // that the prefill machine takes
	SaveSeconds    float64 `json:"save_seconds"`     // then the KV state is written,
	MoveSeconds    float64 `json:"move_seconds"`     // fetched,
	RestoreSeconds float64 `json:"restore_seconds"`  // read,
	CheckSeconds   float64 `json:"check_seconds"`    // and its first prediction compared
	Bytes          int64   `json:"bytes"`            // of the KV state
	BytesPerSecond float64 `json:"bytes_per_second"` // over the network
	Divergence     float64 `json:"divergence"`       // from what the decode machine predicts after it computed the prompt by itself, from 0 (equal) to 1
	SameText       bool    `json:"same_text"`        // both ways
}

// SavedSeconds are those by which a hand-over is faster; below 0 it is slower.
func (t TrialLength) SavedSeconds() float64 {
	return t.WholeSeconds - t.PrefillSeconds - t.SaveSeconds - t.MoveSeconds - t.RestoreSeconds - t.CheckSeconds
}

// ErrNotKept is why a grader's account keeps no trial: whoever looks would take any grader's word for it.
var ErrNotKept = errors.New("only the operator's key keeps what was measured")

// KeepTrial keeps a trial in the place of the last one of its machines and model. The bucket is made with the first.
func (c *Conn) KeepTrial(ctx context.Context, t Trial) error {
	if c.grader {
		return ErrNotKept
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode trial: %w", err)
	}
	kv, err := c.js.KeyValue(ctx, BucketTrials)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		want := trialsBucket()
		if intake, err := c.js.Stream(ctx, StreamIntake); err == nil {
			want.Replicas = intake.CachedInfo().Config.Replicas
		}
		kv, err = c.js.CreateKeyValue(ctx, want)
	}
	if err == nil {
		_, err = kv.Put(ctx, protocol.KeyToken(t.Model)+"."+protocol.KeyToken(t.Prefill)+"."+protocol.KeyToken(t.Decode), data)
	}
	if err != nil {
		return c.failed(ctx, err, "keep what was measured")
	}
	return nil
}

// Trials returns the last trial of each model and pair of machines, newest first; none to a grader's account. What cannot be read is left out.
func (c *Conn) Trials(ctx context.Context) (list []Trial, err error) {
	if c.grader {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	err = c.ask(ctx, "$JS.API.DIRECT.GET.KV_"+BucketTrials, func(ctx context.Context) error {
		bucket, err := c.js.Stream(ctx, "KV_"+BucketTrials)
		for seq := uint64(1); err == nil; {
			var msg *jetstream.RawStreamMsg
			if msg, err = bucket.GetMsg(ctx, seq, jetstream.WithGetMsgSubject("$KV."+BucketTrials+".>")); err == nil {
				var t Trial
				if seq = msg.Sequence + 1; json.Unmarshal(msg.Data, &t) == nil && t.Model != "" {
					list = append(list, t)
				}
			}
		}
		return err
	})
	slices.SortStableFunc(list, func(a, b Trial) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Prefill, b.Prefill), cmp.Compare(a.Decode, b.Decode))
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound): // the end of it, or nobody has measured yet
		return list, nil
	case errors.Is(err, errRefused):
		return nil, jobs.Errorf(jobs.CodeNATS, "read what was measured: %w; %s", err, renewRights)
	}
	return nil, c.failed(ctx, err, "read what was measured")
}
