package grader

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"tandem/internal/grader/ask"
	"tandem/internal/grader/check"
	"tandem/internal/grader/notebook"
	"tandem/internal/grader/outputs"
	"tandem/internal/grader/report"
	"tandem/internal/jobs"
)

// keyOf is the hash, in hex, of all that an answer depends on but the model's file: two requests with one key ask the same. The model's digest is compared
// apart, since it is not always known.
func keyOf(in report.Inputs, j *jobs.Job) (string, error) {
	options, err := json.Marshal(j.Options)
	if err != nil {
		return "", fmt.Errorf("encode options of a request: %w", err)
	}
	return hashParts(
		in.Notebook, in.Rubric, in.Solution, in.Template,
		j.System, j.Prompt[:j.SharedPrefix], j.Prompt[j.SharedPrefix:], string(j.Format), string(j.Think), string(options), j.Model,
	), nil
}

// promptsSHA256 is the hash, in hex, of the prompts about a notebook that holds nothing: of the templates, and of what they show of the assignment.
func promptsSHA256(b *ask.Builder) (string, error) {
	var parts []string
	for _, judge := range judges {
		p, err := b.Prompt(judge, ask.Subject{Notebook: &notebook.Notebook{}, Layer1: &check.Findings{}, Layer2: &outputs.Findings{}})
		if err != nil {
			return "", fmt.Errorf("make a %s prompt: %w", judge, err)
		}
		parts = append(parts, p.System, p.Shared, p.Own, string(p.Format))
	}
	return hashParts(parts...), nil
}

// hashParts is a SHA-256 in hex. Each part is preceded by its length, so that no two lists of parts are hashed alike.
func hashParts(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sameModel reports whether two digests may be of one model file: one that is not known may be any.
func sameModel(a, b string) bool { return a == "" || b == "" || a == b }
