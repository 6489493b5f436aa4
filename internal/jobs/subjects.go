package jobs

import (
	"fmt"
	"strings"
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

// HeaderUser names the user of a dead letter, as one token; it has none if the user is not known.
const HeaderUser = "Tandem-User"

// JobSubject is where a job waits for decode or fallback: jobs.<stage>.<model>.<class>.<job>.
func JobSubject(stage Stage, model string, class Class, jobID string) string {
	return "jobs." + string(stage) + "." + EncodeToken(model) + "." + string(class) + "." + jobID
}

// IntakeSubject is where a user's job waits for prefill: jobs.prefill.<model>.<class>.<user>.<job>. Class may be that of a [Lane]. The user stands in it, so that rights can be given for it.
func IntakeSubject(model string, class Class, user, jobID string) string {
	return JobSubject(StagePrefill, model, class, EncodeToken(user)+"."+jobID)
}

// JobFilter matches all jobs of a stage, model and class token.
func JobFilter(stage Stage, model string, class Class) string {
	if stage == StagePrefill {
		return JobSubject(stage, model, class, "*.*")
	}
	return JobSubject(stage, model, class, "*")
}

// AnyJobFilter matches one job at a stage, whatever its model, class and user.
func AnyJobFilter(stage Stage, jobID string) string {
	if stage == StagePrefill {
		jobID = "*." + jobID
	}
	return "jobs." + string(stage) + ".*.*." + jobID
}

// ResultSubject is where the terminal record of a job is published.
func ResultSubject(user, batch, jobID string) string {
	return "results." + EncodeToken(user) + "." + EncodeToken(batch) + "." + jobID
}

// BatchResults matches the results of a batch.
func BatchResults(user, batch string) string { return ResultSubject(user, batch, "*") }

// TokensSubject is where the text of a job is published while it is generated.
func TokensSubject(user, batch, jobID string) string {
	return "tokens." + EncodeToken(user) + "." + EncodeToken(batch) + "." + jobID
}

// DLQSubject is where the dead letter of a job is kept.
func DLQSubject(stage Stage, model, jobID string) string {
	return "dlq." + string(stage) + "." + EncodeToken(model) + "." + jobID
}

// CancelSubject is the broadcast that ends a running job.
func CancelSubject(jobID string) string { return "ctl.cancel." + jobID }

// ConsumerName is the durable that all workers of a role, model and class token share. Decode and
// fallback share the decode one.
func ConsumerName(role Stage, model string, class Class) string {
	return string(role) + "_" + EncodeToken(model) + "_" + string(class)
}

// ModelOfConsumer reads the model and the class token back from a [ConsumerName]; ok is false for a consumer that is not ours.
func ModelOfConsumer(name string) (role Stage, model string, token Class, ok bool) {
	r, rest, found := strings.Cut(name, "_")
	i := strings.LastIndexByte(rest, '_')
	if !found || i < 0 {
		return "", "", "", false
	}
	m, err := DecodeToken(rest[:i])
	role, token = Stage(r), Class(rest[i+1:])
	_, lane, known := token.Split()
	return role, m, token, err == nil && m != "" && known && (role == RolePrefill || role == RoleDecode && lane == 0)
}

// Address is what a job's subject says.
type Address struct {
	Stage Stage
	Model string
	Class Class
	Lane  int    // of a batch job in the intake
	User  string // of a job in the intake
	JobID string
}

// ParseJobSubject reads a subject that [JobSubject] or [IntakeSubject] wrote.
func ParseJobSubject(subject string) (Address, error) {
	p := strings.Split(subject, ".")
	intake := len(p) == 6 && p[1] == string(StagePrefill)
	if p[0] != "jobs" || !intake && (len(p) != 5 || p[1] == string(StagePrefill)) {
		return Address{}, fmt.Errorf("parse subject %.200q: want jobs.<stage>.<model>.<class>.<job>, with the user before the job in the intake", subject)
	}
	class, lane, known := Class(p[3]).Split()
	a := Address{Stage: Stage(p[1]), Class: class, Lane: lane, JobID: p[len(p)-1]}
	var err error
	if intake {
		if a.User, err = DecodeToken(p[4]); err != nil {
			return Address{}, fmt.Errorf("parse subject %.200q: %w", subject, err)
		}
		if a.User == "" {
			return Address{}, fmt.Errorf("parse subject %.200q: no user", subject)
		}
	}
	if a.Model, err = DecodeToken(p[2]); err != nil {
		return Address{}, fmt.Errorf("parse subject %.200q: %w", subject, err)
	}
	if a.Model == "" {
		return Address{}, fmt.Errorf("parse subject %.200q: no model", subject)
	}
	if a.Stage != StagePrefill && a.Stage != StageDecode && a.Stage != StageFallback {
		return Address{}, fmt.Errorf("parse subject %.200q: unknown stage %.60q", subject, p[1])
	}
	if !known || lane > 0 && a.Stage != StagePrefill {
		return Address{}, fmt.Errorf("parse subject %.200q: unknown class %.60q", subject, p[3])
	}
	if err := checkID("job id", a.JobID); err != nil {
		return Address{}, fmt.Errorf("parse subject %.200q: %w", subject, err)
	}
	return a, nil
}
