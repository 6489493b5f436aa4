package submitter

import (
	"context"
	"time"

	"tandem/internal/engine"
	"tandem/internal/ollama"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// GenerateDirect has an Ollama do a job all by itself. It is for when there is no pipeline, and the
// result says so.
func GenerateDirect(ctx context.Context, url string, j *jobs.Job) (*jobs.Result, error) {
	o, err := ollama.New(ollama.Options{URL: url, Model: j.Model})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	about, err := o.Describe(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	done, err := o.Generate(ctx, engine.RequestOf(j), func(jobs.Chunk) error { return nil })
	if err != nil {
		return nil, err
	}
	r := done.Result(j, about)
	r.Method, r.Decision = jobs.MethodDirect, "direct: the pipeline could not be reached, so one Ollama did both phases"
	r.Servers.Prefill = protocol.RedactURL(url)
	r.Servers.Decode = r.Servers.Prefill
	r.Timings.TotalSeconds = time.Since(start).Seconds()
	return r, nil
}
