package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// history is what is kept about the deliveries of one job to one stage, written only when
// something went wrong. The server counts deliveries; attempts are ours to count.
type history struct {
	HandBacks int    `json:"hand_backs,omitempty"` // deliveries that were nobody's fault
	Reason    string `json:"reason,omitempty"`     // why the last delivery that said so failed

	Timeline []jobs.Moment `json:"timeline,omitempty"` // as far as the last delivery that said so came
}

// historyKey is where the history of a job at a stage is kept, the intake being the prefill stage
// whoever serves it: <user>.<job>.<stage>.
func historyKey(stage jobs.Stage, user, jobID string) string {
	return protocol.KeyToken(user) + "." + protocol.KeyToken(jobID) + "." + string(stage)
}

// empty reports whether nothing is known.
func (h history) empty() bool { return h.HandBacks == 0 && h.Reason == "" && h.Timeline == nil }

// attempt is the number of a delivery, hand-backs not counted, from 1. The server's count starts
// again when it crashes.
func (h history) attempt(delivered int) int { return max(1, delivered-h.HandBacks) }

// readHistory returns the history at key, an empty one if there is none.
func (c *Conn) readHistory(ctx context.Context, key string) (history, uint64, error) {
	entry, err := c.lastMsg(ctx, "KV_"+BucketHandbacks, "$KV."+BucketHandbacks+"."+key) // KeyValue.Get would be a direct get
	if err != nil || entry == nil {
		return history{}, 0, err
	}
	var h history
	if err := json.Unmarshal(entry.Data, &h); err != nil {
		return history{}, entry.Sequence, nil // another version's; begin anew
	}
	return h, entry.Sequence, nil
}

// changeHistory changes the history at key. Two workers may hold the same job for a moment, so a
// write that lost against another is done again on what the other wrote.
func (c *Conn) changeHistory(ctx context.Context, kv jetstream.KeyValue, key string, change func(*history)) error {
	for {
		h, revision, err := c.readHistory(ctx, key)
		if err != nil {
			return err
		}
		change(&h)
		data, err := json.Marshal(h)
		if err != nil {
			return fmt.Errorf("encode history %s: %w", key, err)
		}
		if revision == 0 {
			_, err = kv.Create(ctx, key, data)
		} else {
			_, err = kv.Update(ctx, key, data, revision)
		}
		if !errors.Is(err, jetstream.ErrKeyExists) && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
	}
}
