package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/jobs"
)

// bucketUsage is where the usage is kept, for who pays and who plans: a record for each day and token.
const (
	bucketUsage = "gateway_usage"
	keepUsage   = 400 * 24 * time.Hour
	usageBytes  = 64 << 20
)

// Usage is what was done for a token on a day.
type Usage struct {
	Day       string `json:"day"` // 2026-11-23, by UTC
	Token     string `json:"token"`
	User      string `json:"user"`
	Requests  int64  `json:"requests"`         // whose job was accepted
	Failed    int64  `json:"failed"`           // of these, that did not succeed
	Prompt    int64  `json:"prompt_tokens"`    // of the prompts
	Cached    int64  `json:"cached_tokens"`    // of these, that no machine had to compute
	Generated int64  `json:"generated_tokens"` // of the answers
}

func (u Usage) add(v Usage) Usage {
	u.User = cmp.Or(v.User, u.User)
	u.Requests, u.Failed = u.Requests+v.Requests, u.Failed+v.Failed
	u.Prompt, u.Cached, u.Generated = u.Prompt+v.Prompt, u.Cached+v.Cached, u.Generated+v.Generated
	return u
}

// usageOfJob is what a job cost.
func usageOfJob(token *Token, r *jobs.Result) Usage {
	u := Usage{Token: token.Name, User: token.User, Requests: 1}
	if r == nil || r.Status != jobs.Succeeded {
		u.Failed = 1
	}
	if r != nil {
		u.Prompt, u.Cached, u.Generated = int64(r.Usage.PromptTokens), int64(cachedTokens(r)), int64(r.Usage.GeneratedTokens)
	}
	return u
}

// OpenUsage opens the bucket of usage, and makes it if it is not there.
func OpenUsage(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, bucketUsage)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucketUsage, Description: "What the gateway's tokens used, by day", TTL: keepUsage, MaxBytes: usageBytes, Storage: jetstream.FileStorage, Replicas: replicas(ctx, js)})
	}
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeNATS, "open the bucket %s: %w; its key must be allowed to, as that of the operator is", bucketUsage, err)
	}
	return kv, nil
}

// replicas is on how many servers of a cluster a bucket is kept: on as many as the queue.
func replicas(ctx context.Context, js jetstream.JetStream) int {
	queue, err := js.Stream(ctx, "INTAKE")
	if err != nil { // nobody has made it yet
		return 1
	}
	return queue.CachedInfo().Config.Replicas
}

// ListUsage returns what was used from one day to another, both included and each empty if it does not matter, in the order of days and tokens.
func ListUsage(ctx context.Context, kv jetstream.KeyValue, from, to string) ([]Usage, error) {
	keys, err := kv.ListKeys(ctx)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeNATS, "list usage: %w", err)
	}
	defer func() { _ = keys.Stop() }()
	var list []Usage
	for key := range keys.Keys() {
		if day, _, _ := strings.Cut(key, "."); from != "" && day < from || to != "" && day > to {
			continue
		}
		u, _, err := readUsage(ctx, kv, key)
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b Usage) int { return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Token, b.Token)) })
	return list, nil
}

// readUsage reads a record and its revision, 0 if there is none yet.
func readUsage(ctx context.Context, kv jetstream.KeyValue, key string) (u Usage, revision uint64, err error) {
	u.Day, u.Token, _ = strings.Cut(key, ".")
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return u, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(entry.Value(), &u)
	}
	if err != nil {
		return u, 0, jobs.Errorf(jobs.CodeNATS, "read usage %s: %w", key, err)
	}
	return u, entry.Revision(), nil
}

// usageEvery is how often usage is written: what a gateway that is killed loses of it.
const usageEvery = time.Second

// account adds up what is used, of which all gateways write the sum.
type account struct {
	kv  jetstream.KeyValue
	log *slog.Logger

	mu    sync.Mutex
	fresh map[string]Usage // by key: not written yet
	spent map[string]int64 // by key: tokens of all, as they were when it was written last
}

func newAccount(kv jetstream.KeyValue, log *slog.Logger) *account {
	return &account{kv: kv, log: log, fresh: map[string]Usage{}, spent: map[string]int64{}}
}

func usageKey(token string) string { return time.Now().UTC().Format(time.DateOnly) + "." + token }

func (a *account) add(u Usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := usageKey(u.Token)
	a.fresh[key] = a.fresh[key].add(u)
}

// today is how many tokens a token has used today, as far as is known.
func (a *account) today(ctx context.Context, token string) int64 {
	key := usageKey(token)
	a.mu.Lock()
	spent, known := a.spent[key]
	a.mu.Unlock()
	if !known {
		u, _, err := readUsage(ctx, a.kv, key)
		if err != nil {
			a.log.Warn("what was used today is not known", "token", token, "error", err)
		}
		spent = u.Prompt + u.Generated
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent[key] = max(spent, a.spent[key])
	return a.spent[key] + a.fresh[key].Prompt + a.fresh[key].Generated
}

// run writes what is used until ctx ends, and a last time then.
func (a *account) run(ctx context.Context) {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.write(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			a.write(last)
			return
		}
	}
}

func (a *account) write(ctx context.Context) {
	a.mu.Lock()
	fresh := a.fresh
	a.fresh = map[string]Usage{}
	a.mu.Unlock()
	for key, u := range fresh {
		sum, err := a.addTo(ctx, key, u)
		a.mu.Lock()
		if err != nil {
			a.fresh[key] = a.fresh[key].add(u)
			a.log.Warn("usage is not written yet", "error", err)
		} else {
			a.spent[key] = sum.Prompt + sum.Generated
		}
		a.mu.Unlock()
	}
}

// addTo adds to a record, to which other gateways add too.
func (a *account) addTo(ctx context.Context, key string, u Usage) (Usage, error) {
	for {
		sum, revision, err := readUsage(ctx, a.kv, key)
		if err != nil {
			return sum, err
		}
		sum = sum.add(u)
		data, err := json.Marshal(sum)
		if err != nil {
			return sum, err
		}
		if _, err = a.kv.Update(ctx, key, data, revision); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return sum, err
		}
	}
}
