package engine

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"tandem/jobs"
)

// Embedder is implemented by engines that have embeddings.
type Embedder interface {
	// Embed makes a vector of each text of the request's Embed: the completion's Embeddings, in their order, which [CheckEmbeddings] takes.
	Embed(ctx context.Context, req Request) (Completion, error)
}

// Generates reports whether the model generates text, as far as the engine says. One that makes embeddings only does not.
func (d Description) Generates() bool {
	return d.Capabilities == nil || slices.Contains(d.Capabilities, jobs.CanComplete)
}

// mostEmbedded is how many bytes are read of an answer with embeddings. No result could hold as many, however a server writes numbers.
const mostEmbedded = 4 * jobs.MaxRecord

// ErrTooManyEmbeddings is embeddings that no result could hold.
var ErrTooManyEmbeddings error = jobs.Errorf(jobs.CodeInvalid, "the embeddings are more than the %d bytes of a result: ask for those of fewer texts at once, or for fewer dimensions", jobs.MaxRecord)

// ErrNoEmbeddings is an answer that is none.
var ErrNoEmbeddings error = jobs.Errorf(jobs.CodeEngineFailed, "the answer is not what was asked for: a vector for each text, all of one length")

// ReadEmbeddings reads an answer in JSON into a value.
func ReadEmbeddings(body io.Reader, into any) error {
	data, err := io.ReadAll(io.LimitReader(body, mostEmbedded+1))
	switch {
	case err != nil:
		return err
	case len(data) > mostEmbedded:
		return ErrTooManyEmbeddings
	case json.Unmarshal(data, into) != nil:
		return ErrNoEmbeddings
	}
	return nil
}

// CheckEmbeddings checks what a server made of a request.
func CheckEmbeddings(vectors [][]float32, asked *jobs.Embed) error {
	if len(vectors) != len(asked.Input) || slices.ContainsFunc(vectors, func(v []float32) bool { return len(v) == 0 || len(v) != len(vectors[0]) }) {
		return ErrNoEmbeddings
	}
	if n := len(vectors[0]); asked.Dimensions > 0 && n > asked.Dimensions {
		return jobs.Errorf(jobs.CodeEngineRefused, "embed.dimensions is %d, and the server cannot have fewer than %d with this model: leave it out", asked.Dimensions, n)
	}
	return nil
}
