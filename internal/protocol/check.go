package protocol

// Check is what an engine predicts after some short prompts that are the same everywhere, each computed by the engine itself with nothing
// in its cache. It tells apart engines that compute something else, though nothing that they say of themselves does: a state's first
// prediction is made from that state on both sides. It stands in a worker's presence record, not in a job.
type Check struct {
	Prompts     string            `json:"prompts"`         // which these are: a part of the hash of their texts
	Start       string            `json:"start,omitempty"` // of the engine that was checked: another one at each start, if it says so
	Predictions []map[int]float64 `json:"predictions"`     // after each prompt the likeliest tokens, with the natural logarithms of their probabilities
	Cached      float64           `json:"cached"`          // distance to those that the engine makes with the prompt but its last token in the cache, median
	Far         int               `json:"far,omitempty"`   // prompts after which these two are more than 0.25 apart
	Single      float64           `json:"single"`          // likewise with the prompt computed token by token, where the others are computed in batches
}
