package pipeline

import (
	"context"
	"encoding/json"
	"time"

	"tandem/internal/engine"
	"tandem/jobs"
)

const (
	roomBeside  = 256 << 10              // bytes of a result that are not embeddings
	longestText = 200 * time.Millisecond // that an engine may be silent for each text, beside what its length takes
)

// embed is Generate of a job that asks for embeddings.
func (s *Stage) embed(ctx context.Context, req engine.Request, _ engine.Emit) (engine.Completion, error) {
	e, can := s.engine.(engine.Embedder)
	if !can {
		return engine.Completion{}, jobs.Errorf(jobs.CodeEngineRefused, "embed: a worker with the engine %s makes no embeddings; ask a model that is on Ollama, or on a server of the OpenAI API that has them", s.about().Engine)
	}
	c, err := e.Embed(ctx, req)
	if err != nil {
		return engine.Completion{}, err
	}
	if data, err := json.Marshal(c.Embeddings); err != nil || len(data) > jobs.MaxRecord-roomBeside {
		return engine.Completion{}, engine.ErrTooManyEmbeddings
	}
	return c, nil
}
