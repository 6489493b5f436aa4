package protocol

import (
	"time"

	"tandem/jobs"
)

// Running is one job that a worker is at, in its presence record.
type Running struct {
	EndsSeconds  float64 `json:"ends_seconds"`            // until its slot is free, as far as the worker can tell; of one that waits for a slot, until its KV state is there
	FirstSeconds float64 `json:"first_seconds,omitempty"` // until its answer begins; 0 if that goes on
	HandsOver    bool    `json:"hands_over,omitempty"`    // it goes on at a decode machine then
	Relayed      bool    `json:"relayed,omitempty"`       // it was handed over to this worker
	Ahead        bool    `json:"ahead,omitempty"`         // it waits for a slot; or it needs none here any more, is being published, and will need one at decode
	Prefix       string  `json:"prefix,omitempty"`        // which shared prefix its slot's cache holds then, as the presence names those that the engine holds already
	Expected     bool    `json:"expected,omitempty"`      // the worker has chosen to fetch it
	Place        Place   `json:"place,omitzero"`          // of one that is expected: as long as nobody has fetched it, it is among those that wait
}

// Place is where a job waits in the intake.
type Place struct {
	Lane     int    `json:"lane"`
	Sequence uint64 `json:"sequence"` // in the stream
}

// Backlog is the work that waits for the workers of a model at one moment.
type Backlog struct {
	Head   *jobs.Job // the next job of the intake; nil if none waits
	Intake int       // jobs that wait there, with that one
	Relay  int       // jobs that wait for a decode worker and that none has yet

	Place   Place         // of Head, unless it was fetched
	Fetched [Lanes]uint64 // the stream's sequence of what was fetched last, of each lane
}

// Has reports whether the job of a place is among those that wait, as far as can be told.
func (b *Backlog) Has(p Place) bool {
	return p.Lane < 0 || p.Lane >= Lanes || p.Sequence == 0 || p.Sequence > b.Fetched[p.Lane]
}

// Choice is what a worker with a free slot does about a backlog.
type Choice struct {
	Take  bool          // the next job of the intake
	Why   string        // for the decision of its result
	Leave time.Duration // how long the job may be left to others, who know better, before something must be wrong
	Again time.Duration // when to look again, if nothing happens before; 0 is never
}
