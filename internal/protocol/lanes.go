package protocol

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"tandem/jobs"
)

// Lanes is how many lanes the batch jobs of a model have in the intake. Workers serve lanes by turns, so that users share the machines.
const Lanes = 8

// LaneOf is the lane of a user's batch jobs: the first byte of the SHA-256 of the name, modulo [Lanes].
func LaneOf(user string) int { return int(sha256.Sum256([]byte(user))[0]) % Lanes }

// Lane is the class token of a lane in subjects and names of consumers: batch, which is that of programs that know no lanes, batch-1, … batch-7.
func Lane(n int) jobs.Class {
	if n == 0 {
		return jobs.Batch
	}
	return jobs.Batch + jobs.Class("-"+strconv.Itoa(n))
}

// Tokens lists the class tokens of the consumers of a role, in the order of [Classes]: for the intake, one for each lane.
func Tokens(role jobs.Stage) []jobs.Class {
	tokens := []jobs.Class{jobs.Interactive, jobs.Batch}
	if role == RolePrefill {
		for n := 1; n < Lanes; n++ {
			tokens = append(tokens, Lane(n))
		}
	}
	return tokens
}

// SplitToken reads a class token; ok is false if there is none such.
func SplitToken(c jobs.Class) (class jobs.Class, lane int, ok bool) {
	if digits, is := strings.CutPrefix(string(c), string(jobs.Batch)+"-"); is {
		n, err := strconv.Atoi(digits)
		return jobs.Batch, n, err == nil && n > 0 && n < Lanes && Lane(n) == c
	}
	return c, 0, c == jobs.Interactive || c == jobs.Batch
}

// Token is the class token of the address.
func (a Address) Token() jobs.Class {
	if a.Class == jobs.Batch {
		return Lane(a.Lane)
	}
	return a.Class
}

// TokenOf is the class token of the job in the intake: of a batch job, that of its user's lane.
func TokenOf(j *jobs.Job) jobs.Class { return Address{Class: j.Class, Lane: LaneOf(j.User)}.Token() }

// SubjectOf is where the job waits for a stage.
func SubjectOf(j *jobs.Job, stage jobs.Stage) string {
	class := j.Class
	if stage == jobs.StagePrefill {
		class = TokenOf(j)
	}
	return JobSubject(stage, j.Model, class, j.User, j.ID)
}
