package queue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// countLimit is for counting what waits in the lanes, when there is other work to fetch than theirs.
const countLimit = time.Second

// lanes are those of the intake as one worker sees them. It serves them by turns: of those in which something may wait, the one goes first from which it
// has not taken for the longest time. So users share each worker job by job, and one who is alone has it all, in the order of publishing.
type lanes struct {
	mu      sync.Mutex
	turns   int
	served  [protocol.Lanes]int // the turn in which this worker took from the lane last, or passed it over
	pending [protocol.Lanes]int // jobs that were never delivered, as last counted
	unacked [protocol.Lanes]int // jobs at workers, some of which may come again
}

// laneSource is where the batch jobs of a lane are fetched.
func laneSource(model string, lane int) source {
	return sourceOf(protocol.RolePrefill, model, protocol.Lane(lane))
}

func laneSources(model string) (list []source) {
	for lane := range protocol.Lanes {
		list = append(list, laneSource(model, lane))
	}
	return list
}

// lane is that of a source of batch jobs of the intake; -1 for any other.
func (s source) lane() int {
	_, _, token, _ := protocol.ModelOfConsumer(s.consumer)
	if class, lane, _ := protocol.SplitToken(token); s.stream == StreamIntake && class == jobs.Batch {
		return lane
	}
	return -1
}

// serve notes that the source had its turn.
func (l *lanes) serve(s source) {
	if n := s.lane(); n >= 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.turns++
		l.served[n] = l.turns
	}
}

// counted takes what the consumers of the lanes say, and adds up the jobs that were never delivered.
func (l *lanes) counted(infos []jetstream.ConsumerInfo) (waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range protocol.Lanes {
		l.pending[n], l.unacked[n] = int(infos[n].NumPending), infos[n].NumAckPending
		waiting += l.pending[n]
	}
	return waiting
}

// order lists the lanes in the order of their turns: first those in which something may wait.
func (l *lanes) order() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	order := make([]int, protocol.Lanes)
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(l.emptyLocked(a), l.emptyLocked(b)), cmp.Compare(l.served[a], l.served[b]))
	})
	return order
}

// emptyLocked is 1 for a lane in which nothing was when it was counted, and else 0. The lock must be held.
func (l *lanes) emptyLocked(n int) int {
	if l.pending[n]+l.unacked[n] > 0 {
		return 0
	}
	return 1
}

// quiet is how many of the sources at the end of a list are lanes in which nothing was when they were counted.
func (l *lanes) quiet(list []source) (quiet int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Backward(list) {
		if n := s.lane(); n < 0 || l.emptyLocked(n) == 0 {
			break
		}
		quiet++
	}
	return quiet
}

// waiting is what was counted last.
func (l *lanes) waiting() (sum int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pending := range l.pending {
		sum += pending
	}
	return sum
}
