package jobs

import (
	"crypto/sha256"
	"strconv"
	"strings"
)

// Lanes is how many lanes the batch jobs of a model have in the intake. Workers serve lanes by turns, so that users share the machines.
const Lanes = 8

// LaneOf is the lane of a user's batch jobs: the first byte of the SHA-256 of the name, modulo [Lanes].
func LaneOf(user string) int { return int(sha256.Sum256([]byte(user))[0]) % Lanes }

// Lane is the class token of a lane in subjects and names of consumers: batch, which is that of programs that know no lanes, batch-1, … batch-7.
func Lane(n int) Class {
	if n == 0 {
		return Batch
	}
	return Batch + Class("-"+strconv.Itoa(n))
}

// Tokens lists the class tokens of the consumers of a role, in the order of [Classes]: for the intake, one for each lane.
func Tokens(role Stage) []Class {
	tokens := []Class{Interactive, Batch}
	if role == RolePrefill {
		for n := 1; n < Lanes; n++ {
			tokens = append(tokens, Lane(n))
		}
	}
	return tokens
}

// Split reads a class token; ok is false if there is none such.
func (c Class) Split() (class Class, lane int, ok bool) {
	if digits, is := strings.CutPrefix(string(c), string(Batch)+"-"); is {
		n, err := strconv.Atoi(digits)
		return Batch, n, err == nil && n > 0 && n < Lanes && Lane(n) == c
	}
	return c, 0, c == Interactive || c == Batch
}

// Token is the class token of the address.
func (a Address) Token() Class {
	if a.Class == Batch {
		return Lane(a.Lane)
	}
	return a.Class
}

// Token is the class token of the job in the intake: of a batch job, that of its user's lane.
func (j *Job) Token() Class { return Address{Class: j.Class, Lane: LaneOf(j.User)}.Token() }

// Subject is where the job waits for a stage.
func (j *Job) Subject(stage Stage) string {
	class := j.Class
	if stage == StagePrefill {
		class = j.Token()
	}
	return JobSubject(stage, j.Model, class, j.User, j.ID)
}
