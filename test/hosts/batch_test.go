package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/rig/host"
)

// batch is jobs that the submitter on the grader's host was given.
type batch struct {
	s         *system
	out       string
	prompts   []string
	predict   int // tokens of the first text; the others are short
	submitter *host.Process
}

// short is how many tokens a text has that nobody needs to catch.
const short = 16

// submit starts a batch of n jobs, of which the first has a text of so many tokens.
func (s *system) submit(name string, n, predict int) *batch {
	s.Helper()
	b := &batch{s: s, out: filepath.Join(s.dir(s.grader), name), predict: predict}
	var lines strings.Builder
	for i := range n {
		b.prompts = append(b.prompts, prompt(i))
		fmt.Fprintf(&lines, `{"custom_id":"%s-%02d","model":%q,"prompt":%q,"options":{"temperature":0,"num_predict":%d}}`+"\n", name, i, model, b.prompts[i], b.tokens(i))
	}
	file := b.out + ".jsonl"
	s.done(os.WriteFile(file, []byte(lines.String()), 0o644))
	b.submitter = s.start(s.grader, s.programs.tandem.Path("submitter"), "batch", file, "--plan", "disaggregated", "--out", b.out, "--batch", name)
	return b
}

// tokens is how long the text of a job is.
func (b *batch) tokens(i int) int {
	if i == 0 {
		return b.predict
	}
	return short
}

// prompt is about 650 tokens, with a beginning of its own.
func prompt(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has handed in:\n", strings.Repeat(string(rune('A'+i)), 3))
	for line := range 36 {
		fmt.Fprintf(&b, "own%d_%d <- sum(price[%d] * quantity[%d])\n", i, line, line, line+i)
	}
	return b.String()
}

// results waits until n results of the batch are stored, and returns them by their jobs' custom ids.
func (b *batch) results(n int) map[string]*jobs.Result {
	b.s.Helper()
	var found map[string]*jobs.Result
	b.s.eventually(fmt.Sprintf("%d jobs have results", n), func() error {
		found = b.stored()
		if len(found) < n {
			return fmt.Errorf("%d have", len(found))
		}
		return nil
	})
	return found
}

// stored are the results that the stream holds now. A second one of any job fails the test.
func (b *batch) stored() map[string]*jobs.Result {
	b.s.Helper()
	stream, err := b.s.js.Stream(b.s.ctx, queue.StreamResults)
	if err != nil {
		b.s.Fatal(err)
	}
	found := map[string]*jobs.Result{}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(b.s.ctx, seq)
		if err != nil {
			b.s.Fatalf("read result %d: %v", seq, err)
		}
		r, err := jobs.Decode[jobs.Result](msg.Data)
		if err != nil {
			b.s.Fatal(err)
		}
		if r.Batch != filepath.Base(b.out) {
			continue
		}
		if found[r.CustomID] != nil {
			b.s.Fatalf("job %s has two results", r.CustomID)
		}
		found[r.CustomID] = r
	}
	return found
}

// finish waits until the submitter has ended well, and checks that every job of the batch succeeded once, with the text that the engine
// gives when asked directly, and that the submitter was told so. It returns the results in the order of the jobs, and how long it waited.
func (b *batch) finish() ([]*jobs.Result, time.Duration) {
	b.s.Helper()
	began := time.Now()
	select {
	case <-b.submitter.Exited():
	case <-time.After(limit):
		b.s.Fatalf("the submitter does not end; %d of %d jobs have results", len(b.stored()), len(b.prompts))
	}
	took := time.Since(began)
	if code := b.submitter.Code(); code != 0 {
		b.s.Errorf("the submitter ended with exit code %d", code)
	}
	list := make([]*jobs.Result, len(b.prompts))
	stored := b.stored()
	for i, p := range b.prompts {
		id := fmt.Sprintf("%s-%02d", filepath.Base(b.out), i)
		r := stored[id]
		if r == nil || r.Status != jobs.Succeeded {
			b.s.Fatalf("job %s: result %+v; want that it succeeded", id, r)
		}
		if right := b.s.programs.right.texts(b.s.T, p, b.tokens(i)); !slices.Contains(right, r.Text) {
			b.s.Errorf("job %s, by %s: text %q; the engine says %q", id, r.Decision, r.Text, right)
		}
		told, err := os.ReadFile(filepath.Join(b.out, id+".json"))
		if err != nil {
			b.s.Fatal(err)
		}
		if have, err := jobs.Decode[jobs.Result](told); err != nil || have.JobID != r.JobID || have.Text != r.Text || have.Status != r.Status {
			b.s.Errorf("job %s: the grader was told something else than the stream says (%v): %s", id, err, told)
		}
		list[i] = r
	}
	return list, took
}

// once waits until nothing is left to do, and checks that so many jobs were ever accepted and so many results ever stored.
func (s *system) once(n int) {
	s.Helper()
	for name, want := range map[string]int{queue.StreamIntake: n, queue.StreamResults: n, queue.StreamDLQ: 0} {
		if have := int(s.state(name).LastSeq); have != want {
			s.Errorf("%s has stored %d records, want %d", name, have, want)
		}
	}
	for _, name := range []string{queue.StreamIntake, queue.StreamRelay} {
		s.eventually("nothing is left in "+name, func() error {
			if left := s.state(name).Msgs; left > 0 {
				return fmt.Errorf("%d messages are", left)
			}
			return nil
		})
	}
}

// state is what a stream holds and has ever held.
func (s *system) state(stream string) jetstream.StreamState {
	s.Helper()
	info, err := s.js.Stream(s.ctx, stream)
	if err != nil {
		s.Fatal(err)
	}
	return info.CachedInfo().State
}

// held waits until workers have at least n messages of a stream in hand: a decode worker fetches one ahead.
func (s *system) held(stream string, n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("workers hold %d messages of %s", n, stream), func() error {
		info, err := s.js.Stream(s.ctx, stream)
		if err != nil {
			return err
		}
		have := 0
		for c := range info.ListConsumers(s.ctx).Info() {
			have += c.NumAckPending
		}
		if have < n {
			return fmt.Errorf("they hold %d", have)
		}
		return nil
	})
}

// reference is an engine that says what is right. One may ask at a time.
type reference struct {
	url   string
	mu    sync.Mutex
	known map[string][]string
}

// texts are what the engine answers to a prompt: one that it computes from the beginning, and one that it finds in its cache but for the
// last token, as after a hand-over. They may differ in the last digits, and so in a word.
func (r *reference) texts(t *testing.T, prompt string, predict int) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(predict, prompt)
	if r.known[key] == nil {
		for _, cached := range []bool{false, true} {
			r.known[key] = append(r.known[key], r.ask(t, prompt, predict, cached))
		}
	}
	return r.known[key]
}

func (r *reference) ask(t *testing.T, prompt string, predict int, cached bool) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"messages": []map[string]string{{"role": "user", "content": prompt}}, "temperature": 0, "n_predict": predict, "id_slot": 0, "cache_prompt": cached,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: limit}
	resp, err := client.Post(r.url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("ask the engine itself: %v", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK || len(answer.Choices) != 1 {
		t.Fatalf("ask the engine itself: %s, %+v (%v)", resp.Status, answer, err)
	}
	return answer.Choices[0].Message.Content
}
