package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"tandem/test/rig/history"
)

// The streams of docs/PROTOCOL.md.
const (
	intake  = "INTAKE"
	relay   = "RELAY"
	results = "RESULTS"
	letters = "DLQ"
)

// The ends of a job, by the status of its result.
const (
	succeeded = "succeeded"
	failed    = "failed"
	cancelled = "cancelled"
	expired   = "expired"
)

// The ways of a job: as plans, and as methods of results.
const (
	disaggregated = "disaggregated" // also of a job that names no plan
	auto          = "auto"
)

// invalidRequest is the error code of a job that could not be read.
const invalidRequest = "invalid_request"

// terms are what every record of a job repeats from the job.
type terms struct {
	User     string `json:"user"`
	Batch    string `json:"batch"`
	CustomID string `json:"custom_id"`
	Model    string `json:"model"`
}

// outcome is what a caller is told, and the stream holds.
type outcome struct {
	Status string `json:"status"`
	Text   string `json:"text"`
	Error  struct {
		Code string `json:"code"`
	} `json:"error"`
}

// final reports whether it is the end of a job, and not some other record.
func (o outcome) final() bool {
	switch o.Status {
	case succeeded, failed, cancelled, expired:
		return true
	}
	return false
}

// record is as much of a job, hand-over, result or dead letter as the judge looks at. What cannot be read is empty.
type record struct {
	ID    string `json:"id"`
	JobID string `json:"job_id"`
	terms
	outcome
	Options struct {
		Temperature *float64 `json:"temperature"`
	} `json:"options"`
	Plan     string `json:"plan"`   // of a job
	Method   string `json:"method"` // of a result, as the next
	Attempts struct {
		Prefill int `json:"prefill"`
		Decode  int `json:"decode"`
	} `json:"attempts"`
	Usage struct {
		HandedOver int `json:"handed_over"` // tokens
	} `json:"usage"`
	Job *record `json:"job"` // of a hand-over and a dead letter
}

func read(data json.RawMessage) *record {
	r := new(record)
	_ = json.Unmarshal(data, r) // as far as it goes: rubbish says nothing, and so differs from what it should say
	return r
}

// greedy reports whether the job has only one right text.
func (r *record) greedy() bool { return r.Options.Temperature != nil && *r.Options.Temperature == 0 }

// differs names the first field in which the record of an event is not of the job that was submitted, and is empty if there is none.
func (r *record) differs(e *history.Event, asked *record) string {
	id, says := r.JobID, r.terms
	switch {
	case e.Kind == history.Told || e.Stream == results:
		if r.Status == failed && r.Error.Code == invalidRequest {
			// Whoever cannot read a job knows its owner at best.
			says.Model = asked.Model
			if says.CustomID == "" {
				says.CustomID = asked.CustomID
			}
		}
	case e.Stream == intake:
		if r.terms == asked.terms && r.ID == asked.ID { // equal though it may be rubbish
			return ""
		}
		id = r.ID
	case e.Stream == letters && r.Job == nil: // of a job that could not be read
		id, says = e.Job, asked.terms
		if r.User != "" {
			says.User = r.User
		}
		if r.Batch != "" {
			says.Batch = r.Batch
		}
	case e.Stream == relay || e.Stream == letters:
		if r.Job == nil {
			return "job"
		}
		id, says = r.Job.ID, r.Job.terms
	default:
		return "" // no stream of docs/PROTOCOL.md
	}
	switch {
	case id != e.Job:
		return "job id"
	case says.User != asked.User:
		return "user"
	case says.Batch != asked.Batch:
		return "batch"
	case says.CustomID != asked.CustomID:
		return "custom_id"
	case says.Model != asked.Model:
		return "model"
	}
	return ""
}

// hash is what is shown in a text's stead.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:12]
}
