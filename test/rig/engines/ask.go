package engines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// maxAnswer bounds what is read of an engine's answer.
const maxAnswer = 64 << 20

// question is what an engine has to know of a job: the fields of docs/PROTOCOL.md.
type question struct {
	Model    string          `json:"model"`
	System   string          `json:"system"`
	Prompt   string          `json:"prompt"`
	Messages []turn          `json:"messages"`
	Format   json.RawMessage `json:"format"`
	Think    string          `json:"think"` // on, off or a level
	Options  map[string]any  `json:"options"`
}

type turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// samplingOptions are the options of a job that change its text. Others are the worker's affair.
var samplingOptions = [...]string{"num_predict", "temperature", "seed", "top_p", "top_k", "min_p", "repeat_penalty", "stop"}

func (s *server) read(job []byte) (question, error) {
	var q question
	if err := json.Unmarshal(job, &q); err != nil {
		return q, fmt.Errorf("ask engine %s: read job: %w", s.Name(), err)
	}
	if q.Prompt == "" && len(q.Messages) == 0 {
		return q, fmt.Errorf("ask engine %s: the job has neither prompt nor messages", s.Name())
	}
	return q, nil
}

// chat is the whole question as turns.
func (q question) chat() []turn {
	var turns []turn
	if q.System != "" {
		turns = append(turns, turn{"system", q.System})
	}
	if q.Prompt != "" {
		turns = append(turns, turn{"user", q.Prompt})
	}
	return append(turns, q.Messages...)
}

// distinct are the texts without repetition, in their order.
func distinct(texts []string) []string {
	var list []string
	for _, t := range texts {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

// call posts a body, or gets if there is none, and returns the answer if its status is 200.
func (s *server) call(ctx context.Context, path string, body any) ([]byte, error) {
	method, data := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode request for %s: %w", path, err)
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr()+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.500s", path, resp.Status, answer)
	}
	return answer, nil
}

// fetch is call for an answer in JSON.
func (s *server) fetch(ctx context.Context, path string, body, answer any) error {
	data, err := s.call(ctx, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	return nil
}
