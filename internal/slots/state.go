package slots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// moved is llama-server's answer to saving or restoring a slot.
type moved struct {
	Saved    int   `json:"n_saved"`   // tokens
	Written  int64 `json:"n_written"` // bytes
	Restored int   `json:"n_restored"`
	Read     int64 `json:"n_read"`
}

// act has the server save, restore or erase the slot. The name is of a file in its folder.
func (sl *Slot) act(ctx context.Context, action, name string) (moved, error) {
	body := struct {
		Filename string `json:"filename,omitempty"`
	}{name}
	var answer moved
	err := sl.server.Call(ctx, fmt.Sprintf("/slots/%d?action=%s", sl.cache.id, action), body, &answer)
	return answer, err
}

// eraseLimit is how long a slot may take to be emptied, even when the request it was for has ended: a slow
// server may be in the middle of another slot's batch.
const eraseLimit = 30 * time.Second

// erase makes sure that nothing of what the slot holds can be used: if the server does not empty it, the next
// request here is computed from its beginning.
func (sl *Slot) erase(ctx context.Context) {
	sl.cache.forget()
	sl.cache.foreign = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseLimit)
	defer cancel()
	if _, err := sl.act(ctx, "erase", ""); err != nil {
		sl.server.config.Log.Warn("a slot could not be emptied", "slot", sl.cache.id, "error", err)
		return
	}
	sl.cache.foreign = false
}

// firstTokens is how many of the likeliest tokens a prediction lists.
const firstTokens = 20

// prediction is what a slot predicts after a prompt, and what that took.
type prediction struct {
	tokens []jobs.TokenProb // the likeliest first
	cached int              // tokens of the prompt that were found in the slot
	took   time.Duration
}

// predict evaluates the last token of a prompt whose others the slot holds.
func (sl *Slot) predict(ctx context.Context, prompt []int32) (prediction, error) {
	place := sl.Placement()
	place.Stream, place.ReturnProgress = false, false
	body := completion{
		Prompt: prompt, NumPredict: 1, NumProbs: firstTokens, Placement: place,
		Fields: []string{"completion_probabilities", "timings"},
	}
	var answer struct {
		Probabilities []struct {
			Top []jobs.TokenProb `json:"top_logprobs"`
		} `json:"completion_probabilities"`
		Timings Timings `json:"timings"`
	}
	sl.cache.expect(prompt)
	begin := time.Now()
	if err := sl.server.Call(ctx, "/completion", body, &answer); err != nil {
		return prediction{}, err
	}
	sl.cache.hold(prompt, false)
	if len(answer.Probabilities) == 0 || len(answer.Probabilities[0].Top) == 0 {
		return prediction{}, jobs.Errorf(jobs.CodeEngineFailed, "llama-server does not say how likely the next token is; use a build that knows n_probs")
	}
	return prediction{answer.Probabilities[0].Top, answer.Timings.Cached, time.Since(begin)}, nil
}

// handoverError makes the server's refusal a failure of the hand-over. That it is gone, or that the
// request was ended, is passed on as it is.
func handoverError(ctx context.Context, f jobs.Failure, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, already := errors.AsType[*protocol.HandoverError](err); already || err == ErrLoading || Lost(err) {
		return err
	}
	return protocol.HandoverErrorf(f, "%s: %w", what, err)
}

// remove removes a state file and what a server may have put beside it.
func remove(path string) error {
	return errors.Join(ignoreMissing(os.Remove(path)), ignoreMissing(os.Remove(path+".ckpt")))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
