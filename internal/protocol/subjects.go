package protocol

import (
	"cmp"
	"fmt"
	"strings"

	"tandem/jobs"
)

// Subjects of the whole system. Every variable part is one encoded token.
const (
	SubjectIntake  = "jobs.prefill.>"
	SubjectDecode  = "jobs.decode.>"
	SubjectFall    = "jobs.fallback.>"
	SubjectResults = "results.>"
	SubjectDLQ     = "dlq.>"
)

// HeaderReplyTo names an inbox (under _INBOX.) that gets a copy of the job's result.
const HeaderReplyTo = "Tandem-Reply-To"

// NoUser is in the place of a user's token if the user is not known. No name is encoded so.
const NoUser = "="

// JobSubject is where a user's job waits for a stage: jobs.<stage>.<model>.<class>.<user>.<job>. In the intake, the stage prefill, class may be that of a
// [Lane]. The user stands in it, so that rights can be given for it, and since ids are made by clients, so that two users may have the same.
func JobSubject(stage jobs.Stage, model string, class jobs.Class, user, jobID string) string {
	return "jobs." + string(stage) + "." + jobs.EncodeToken(model) + "." + string(class) + "." + jobs.EncodeToken(user) + "." + jobID
}

// JobFilter matches all jobs of a stage, model and class token.
func JobFilter(stage jobs.Stage, model string, class jobs.Class) string {
	return "jobs." + string(stage) + "." + jobs.EncodeToken(model) + "." + string(class) + ".*.*"
}

// AnyJobFilter matches a user's job at a stage, or anybody's if user is empty, whatever its model and class.
func AnyJobFilter(stage jobs.Stage, user, jobID string) string {
	return "jobs." + string(stage) + ".*.*." + userFilter(user) + "." + jobID
}

func userFilter(user string) string {
	if user == "" {
		return "*"
	}
	return jobs.EncodeToken(user)
}

// ResultSubject is where the terminal record of a job is published.
func ResultSubject(user, batch, jobID string) string {
	return "results." + jobs.EncodeToken(user) + "." + jobs.EncodeToken(batch) + "." + jobID
}

// BatchResults matches the results of a batch.
func BatchResults(user, batch string) string { return ResultSubject(user, batch, "*") }

// TokensSubject is where the text of a job is published while it is generated.
func TokensSubject(user, batch, jobID string) string {
	return "tokens." + jobs.EncodeToken(user) + "." + jobs.EncodeToken(batch) + "." + jobID
}

// EventsSubject is where what happens to a job is published, not stored: events.<user>.<batch>.<job>. Batch and job may be the wildcard *.
func EventsSubject(user, batch, jobID string) string {
	return "events." + jobs.EncodeToken(user) + "." + batchToken(batch) + "." + jobID
}

// WorkerEventsSubject is where what happens to a worker is published: events.workers.<worker>.
func WorkerEventsSubject(worker string) string { return "events.workers." + jobs.EncodeToken(worker) }

// batchToken writes a batch as a token, but for the wildcard.
func batchToken(batch string) string {
	if batch == "*" {
		return batch
	}
	return jobs.EncodeToken(batch)
}

// DLQSubject is where the dead letter of a job is kept: dlq.<stage>.<model>.<user>.<job>. The user is = if none is known.
func DLQSubject(stage jobs.Stage, model, user, jobID string) string {
	return "dlq." + string(stage) + "." + jobs.EncodeToken(model) + "." + cmp.Or(jobs.EncodeToken(user), NoUser) + "." + jobID
}

// AnyLetterFilter matches the dead letter of a user's job, or of anybody's if user is empty, whatever its stage and model.
func AnyLetterFilter(user, jobID string) string {
	return "dlq.*.*." + userFilter(user) + "." + jobID
}

// CancelSubject is the broadcast that ends a user's running job.
func CancelSubject(user, jobID string) string {
	return "ctl.cancel." + jobs.EncodeToken(user) + "." + jobID
}

// ConsumerName is the durable that all workers of a role, model and class token share. Decode and
// fallback share the decode one.
func ConsumerName(role jobs.Stage, model string, class jobs.Class) string {
	return string(role) + "_" + jobs.EncodeToken(model) + "_" + string(class)
}

// ModelOfConsumer reads the model and the class token back from a [ConsumerName]; ok is false for a consumer that is not ours.
func ModelOfConsumer(name string) (role jobs.Stage, model string, token jobs.Class, ok bool) {
	r, rest, found := strings.Cut(name, "_")
	i := strings.LastIndexByte(rest, '_')
	if !found || i < 0 {
		return "", "", "", false
	}
	m, err := jobs.DecodeToken(rest[:i])
	role, token = jobs.Stage(r), jobs.Class(rest[i+1:])
	_, lane, known := SplitToken(token)
	return role, m, token, err == nil && m != "" && known && (role == RolePrefill || role == RoleDecode && lane == 0)
}

// Address is what a job's subject says.
type Address struct {
	Stage jobs.Stage
	Model string
	Class jobs.Class
	Lane  int // of a batch job in the intake
	User  string
	JobID string
}

// ParseJobSubject reads a subject that [JobSubject] wrote.
func ParseJobSubject(subject string) (Address, error) {
	p := strings.Split(subject, ".")
	if p[0] != "jobs" || len(p) != 6 {
		return Address{}, fmt.Errorf("parse subject %.200q: want jobs.<stage>.<model>.<class>.<user>.<job>", subject)
	}
	class, lane, known := SplitToken(jobs.Class(p[3]))
	model, err := jobs.DecodeToken(p[2])
	if err != nil {
		return Address{}, fmt.Errorf("parse subject %.200q: %w", subject, err)
	}
	user, err := jobs.DecodeToken(p[4])
	if err != nil {
		return Address{}, fmt.Errorf("parse subject %.200q: %w", subject, err)
	}
	if model == "" || user == "" {
		return Address{}, fmt.Errorf("parse subject %.200q: no model, or no user", subject)
	}
	a := Address{jobs.Stage(p[1]), model, class, lane, user, p[5]}
	if a.Stage != jobs.StagePrefill && a.Stage != jobs.StageDecode && a.Stage != jobs.StageFallback {
		return Address{}, fmt.Errorf("parse subject %.200q: unknown stage %.60q", subject, p[1])
	}
	if !known || lane > 0 && a.Stage != jobs.StagePrefill {
		return Address{}, fmt.Errorf("parse subject %.200q: unknown class %.60q", subject, p[3])
	}
	if err := jobs.CheckID("job id", a.JobID); err != nil {
		return Address{}, fmt.Errorf("parse subject %.200q: %w", subject, err)
	}
	return a, nil
}

// KeyToken writes any name as one token of a key in a bucket, where ':' is not allowed: letters, digits, '_' and '-' stay, any other byte becomes =XX.
func KeyToken(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
