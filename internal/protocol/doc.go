// Package protocol is what the parts of Tandem say to one another and nobody else needs: subjects and names of consumers, lanes, the task
// and outcome of one delivery, what a worker says of its speeds and its work, and what becomes of a job whose stage failed. The records that
// travel are in package jobs.
package protocol
