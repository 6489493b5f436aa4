// Package rig is the proof that nothing accepted is lost: it runs the real programs as processes, submits seeded random jobs, injects faults from a seeded
// schedule, records what passes on every wire, and has a checker that knows nothing of the code under test judge the record.
package rig
