package protocol

import "tandem/jobs"

// What OpenTelemetry's conventions for generative AI call what a job asks for, and who answers.
const (
	OpChat   = "chat"
	OpText   = "text_completion"
	OpEmbed  = "embeddings"
	Provider = "tandem"
)

// OperationOf is what a job asks for, in their words.
func OperationOf(j *jobs.Job) string {
	switch {
	case j.Embed != nil:
		return OpEmbed
	case len(j.Messages) > 0:
		return OpChat
	}
	return OpText
}
