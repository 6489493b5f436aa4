package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tandem/internal/jobs"
)

// A list is read to its end also while presences expire under the reader.
func TestWorkersWhilePresencesExpire(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	kv, err := r.js.KeyValue(limit, BucketWorkers)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	most, last := 0, 1
	for i := 0; time.Since(start) < r.timing.PresenceTTL+time.Second || last > 0; i++ {
		if time.Since(start) < r.timing.PresenceTTL { // presences that end one after the other, later on
			p := fmt.Sprintf(`{"role":"decode","model":%q,"worker":"w%d"}`, testModel, i)
			if _, err := kv.PutString(limit, presenceKey(jobs.RoleDecode, testModel, fmt.Sprintf("w%d", i)), p); err != nil {
				t.Fatal(err)
			}
		}
		list, err := r.Workers(limit)
		if err != nil {
			t.Fatal(err)
		}
		last = len(list)
		most = max(most, last)
	}
	if most < 3 {
		t.Errorf("at most %d workers at once, so nothing was shown", most)
	}
}
