package queue

import (
	"context"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Relayed says which of these jobs of a model still have a decode message: those are true in the answer. It is one
// question to the server, or one for each 100,000 jobs that wait at decode.
func (c *Conn) Relayed(ctx context.Context, model string, ids []string) (map[string]bool, error) {
	stream, err := c.stream(ctx, StreamRelay)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(protocol.JobFilter(jobs.StageDecode, model, "*")))
	if err != nil {
		return nil, c.failed(ctx, err, "look for decode messages in stream %s", StreamRelay)
	}
	relayed := map[string]bool{}
	for subject := range info.State.Subjects {
		if id := subject[strings.LastIndexByte(subject, '.')+1:]; slices.Contains(ids, id) {
			relayed[id] = true
		}
	}
	return relayed, nil
}
