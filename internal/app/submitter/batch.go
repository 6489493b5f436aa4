package submitter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tandem/client"
	"tandem/internal/app"
	"tandem/internal/queue"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// maxProblems is how many broken lines are told of one batch.
const maxProblems = 20

// batchCmd runs a file of jobs.
type batchCmd struct {
	File     string        `arg:"" placeholder:"FILE.jsonl" help:"One job a line, as JSON."`
	Out      string        `short:"o" placeholder:"DIR" help:"Folder for the results, one file per job, named by custom_id (required, but for --dry-run)."`
	DryRun   bool          `name:"dry-run" help:"Say when it would be done, by each plan and with one more machine; submit nothing."`
	Resume   bool          `help:"Go on with the batch that DIR holds."`
	SkipBad  bool          `name:"skip-bad" help:"Leave broken lines out instead of refusing the file."`
	Batch    string        `placeholder:"NAME" help:"Name of the batch (default: the file's name and a random end)."`
	Plan     jobs.Plan     `enum:",disaggregated,local,auto" default:"" placeholder:"PLAN" help:"Plan of jobs that name none: auto (default), what is fastest; disaggregated; or local."`
	Class    jobs.Class    `enum:"interactive,batch" default:"batch" placeholder:"CLASS" help:"interactive jobs run before batch ones (default ${default})."`
	Timeout  time.Duration `placeholder:"TIME" help:"How long to wait; the jobs live on (default: until all are done)."`
	Deadline time.Duration `placeholder:"TIME" help:"After this time from now no job must run any more."`
}

// Help describes the file.
func (batchCmd) Help() string {
	return `Each line is a JSON object with custom_id, model, and prompt or messages; and, if wanted, system, format ("json" or a schema), think, options, plan, shared_prefix and labels. The whole file is checked first, and refused if a line is broken. Exit code 0: all succeeded; 3: some did not; 5: --timeout passed.`
}

// Run submits what is not submitted yet and waits for what is not done yet.
func (c *batchCmd) Run(ctx context.Context, s *session) error {
	if err := checkTimes(c.Timeout, c.Deadline); err != nil {
		return err
	}
	switch {
	case c.Out == "" && !c.DryRun:
		return jobs.Errorf(jobs.CodeInvalid, "out is missing; name a folder for the results with --out DIR")
	case c.DryRun && s.Local:
		return jobs.Errorf(jobs.CodeInvalid, "--dry-run and --local are both set: a system that is started for this command has measured nothing")
	}
	list, skipped, err := c.read(s)
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.estimate(ctx, s, list)
	}
	dir, err := openResultDir(c.Out)
	if err != nil {
		return err
	}
	defer dir.close()
	if err := c.settle(list); err != nil {
		return err
	}
	if err := s.connect(ctx, models(list)...); err != nil {
		return err
	}
	c.setPlan(s, list)
	wait, cancel := s.waitLimit(ctx, c.Timeout)
	defer cancel()
	run := newRun(s, list[0].Batch, models(list), len(list))
	run.dir, run.foresees = dir, newForesight(list)
	s.sayFull(run.progress.say)
	err = c.submitAndAwait(wait, s, run, list)
	switch {
	case err == nil:
		return run.finish(skipped)
	case interrupted(ctx):
		err = app.ErrInterrupted
	case jobs.CodeOf(err) != jobs.CodeTimeout && jobs.CodeOf(err) != jobs.CodeDecodeMissing:
		return err
	}
	local := ""
	if s.Local {
		local = " --local"
	}
	return withHint(err, "%d of %d jobs are done; go on with: %s%s batch %s --out %s --resume", run.report.Jobs, len(list), name, local, c.File, c.Out)
}

// estimate says when the jobs would be done.
func (c *batchCmd) estimate(ctx context.Context, s *session, list []*jobs.Job) error {
	if err := s.connect(ctx, models(list)...); err != nil {
		return withHint(err, "by published figures of a DGX Spark and a Mac Studio: %s explain --published --batch %s", name, c.File)
	}
	c.setPlan(s, list)
	o, err := s.client.Inspect(ctx)
	if err != nil {
		return err
	}
	return s.printEstimate(estimateBatch(o, list))
}

// read reads and checks the whole file.
func (c *batchCmd) read(s *session) (list []*jobs.Job, skipped int, err error) {
	who, err := s.userName()
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, 0, jobs.Errorf(jobs.CodeInvalid, "open batch file: %w", err)
	}
	defer f.Close()
	now := time.Now().UTC()
	base := jobs.Job{V: jobs.Version, User: who, Batch: c.batchName(), Class: c.Class, SubmittedAt: now}
	if c.Deadline > 0 {
		base.Deadline = now.Add(c.Deadline)
	}
	var problems []*lineError
	for j, err := range readJobs(f, base) {
		if bad, ok := errors.AsType[*lineError](err); ok {
			problems = append(problems, bad)
		} else if err != nil {
			return nil, 0, err
		} else {
			list = append(list, j)
		}
	}
	for _, bad := range problems[:min(len(problems), maxProblems)] {
		fmt.Fprintf(s.err, "%s: %s\n", c.File, sanitize.Text(bad.Error()))
	}
	if more := len(problems) - maxProblems; more > 0 {
		fmt.Fprintf(s.err, "… and %d more\n", more)
	}
	switch {
	case len(problems) > 0 && !c.SkipBad:
		return nil, 0, withHint(jobs.Errorf(jobs.CodeInvalid, "%s has %d broken lines and %d good ones; nothing was submitted", c.File, len(problems), len(list)),
			"fix the broken ones, or leave them out with --skip-bad")
	case len(list) == 0:
		return nil, 0, jobs.Errorf(jobs.CodeInvalid, "%s has no job to submit", c.File)
	}
	return list, len(problems), nil
}

// batchName is --batch, or made from the file's name.
func (c *batchCmd) batchName() string {
	if c.Batch != "" {
		return c.Batch
	}
	base := strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File))
	return base + "-" + strings.ToLower(rand.Text()[:8])
}

// settle makes sure that a batch is begun or resumed as the user means it, and gives the jobs of a
// resumed one the ids that they have in its manifest.
func (c *batchCmd) settle(list []*jobs.Job) error {
	m, err := queue.ReadManifest(c.manifest())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // also with --resume: there is all of it to do
	case err != nil:
		return err
	case !c.Resume:
		return jobs.Errorf(jobs.CodeInvalid, "%s holds batch %q already; go on with it by --resume, or name another folder with --out", c.Out, m.Batch)
	case c.Batch != "" && c.Batch != m.Batch:
		return jobs.Errorf(jobs.CodeInvalid, "%s holds batch %q, and --batch says %q; leave --batch out", c.Out, m.Batch, c.Batch)
	}
	byName := map[string]string{}
	for _, e := range m.Jobs {
		byName[e.CustomID] = e.ID
	}
	for _, j := range list {
		j.Batch = m.Batch
		if id, ok := byName[j.CustomID]; ok { // what does not agree is refused by SubmitBatch
			j.ID = id
		}
	}
	return nil
}

func (c *batchCmd) manifest() string { return filepath.Join(c.Out, manifestFile) }

// setPlan gives jobs that name no plan the one of the command line, or of the local system.
func (c *batchCmd) setPlan(s *session, list []*jobs.Job) {
	for _, j := range list {
		if j.Plan == "" {
			j.Plan = s.classPlan(c.Plan)
		}
	}
}

// submitAndAwait submits what there is no result of, and waits for it.
func (c *batchCmd) submitAndAwait(ctx context.Context, s *session, run *run, list []*jobs.Job) error {
	var have []string
	for _, j := range list {
		r, err := run.dir.read(j.CustomID, j.ID)
		if err != nil {
			return err
		}
		if r != nil && r.Status == jobs.Succeeded {
			run.had(r)
			have = append(have, j.ID)
		}
	}
	return run.await(ctx, s.client.RunBatch(ctx, client.Batch{Manifest: c.manifest(), Jobs: list, Have: have}))
}

// models lists the models of the jobs, each once.
func models(list []*jobs.Job) []string {
	seen := map[string]bool{}
	for _, j := range list {
		seen[j.Model] = true
	}
	return slices.Sorted(maps.Keys(seen))
}
