package submitter

import (
	"tandem/client/admin"
	"tandem/internal/access"
	"tandem/internal/batchstats"
	"tandem/internal/forecast"
	"tandem/internal/grader"
	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/jobs"
)

// outputs are what the commands print with --json, one value a line; those that are not listed print none. A command that fails prints a [failure].
// docs/schemas/submitter.schema.json is made of it.
var outputs = map[string][]any{
	"admin grader add":  {graderAdded{}},
	"admin grader list": {[]access.Grader{}},
	"admin init":        {initialized{}},
	"admin secure":      {madeFolder{}},
	"await":             {jobs.Result{}, batchstats.Report{}},
	"batch":             {batchstats.Report{}, forecast.Estimate{}},
	"calibrate":         {grader.Agreement{}, grader.Probed{}},
	"cancel":            {jobs.Cancellation{}, []jobs.Cancellation{}},
	"dev":               {devServer{}, devEngines{}},
	"dlq drop":          {dropped{}},
	"dlq list":          {admin.Letter{}},
	"dlq replay":        {replayed{}},
	"dlq show":          {admin.Letter{}},
	"doctor":            {findings{}},
	"explain":           {explained{}, explainedTable{}, forecast.Estimate{}},
	"grade":             {report.Class{}, plan{}, report.SelfCheck{}},
	"purge":             {admin.Purged{}},
	"rubric check":      {report.SelfCheck{}},
	"release":           {grader.Released{}},
	"result":            {jobs.Result{}},
	"review":            {grader.ToDecide{}, report.Student{}, overrides.Line{}, []overrides.Line{}},
	"status":            {status{}},
	"submit":            {jobs.Result{}, jobs.Chunk{}, submitted{}},
	"together":          {report.Totals{}},
	"version":           {version{}},
}

// failure is why a command failed.
type failure struct {
	Error      jobs.ErrorInfo `json:"error"`
	JobID      string         `json:"job_id,omitempty"` // that lives on
	RetryAfter float64        `json:"retry_after_seconds,omitempty"`
}

// submitted is a job that nobody waits for here.
type submitted struct {
	JobID string `json:"job_id"`
}

// status is the state of the installation.
type status struct {
	Degraded bool    `json:"degraded"` // something is missing or down
	Faults   []fault `json:"faults"`
	*admin.Overview
}

// findings are what the doctor found.
type findings struct {
	Findings []finding `json:"findings"`
}

// replayed is a dead letter whose job is run again.
type replayed struct {
	JobID    string `json:"job_id"`    // of the new job
	ReplayOf string `json:"replay_of"` // of the old one
	Again    bool   `json:"again"`     // it was replayed before
}

// dropped is a dead letter that was removed.
type dropped struct {
	Dropped string `json:"dropped"` // id of the job
}

// initialized are the streams and consumers that were changed, or would be.
type initialized struct {
	DryRun  bool           `json:"dry_run"`
	Changes []admin.Change `json:"changes"`
}

// graderAdded is a new grader's key.
type graderAdded struct {
	Name  string `json:"name"`
	File  string `json:"file"`   // the key
	TLSCA string `json:"tls_ca"` // file of the certificate authority, to be copied, too
}

// madeFolder is a folder of keys, certificates and configuration.
type madeFolder struct {
	Folder string     `json:"folder"`
	Files  []madeFile `json:"files"`
}

// devServer is how a local system is reached.
type devServer struct {
	NATS     string            `json:"nats"`               // URL
	TLSCA    string            `json:"tls_ca,omitempty"`   // this and the rest with --secure only
	Operator string            `json:"operator,omitempty"` // file of the key
	Graders  map[string]string `json:"graders,omitempty"`  // files of keys, by user
}

// devEngines are engines without a system around them.
type devEngines struct {
	Prefill       string `json:"prefill"` // URL
	PrefillRunDir string `json:"prefill_run_dir"`
	Decode        string `json:"decode"` // URL
	DecodeRunDir  string `json:"decode_run_dir"`
}

// version is that of the program.
type version struct {
	Version string `json:"version"`
}
