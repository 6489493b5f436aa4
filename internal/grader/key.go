package grader

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"tandem/internal/grader/report"
	"tandem/jobs"
)

// keyOf is the hash, in hex, of all that an answer depends on but the model's file: two requests with one key ask the same. Each part is preceded by its length, so
// that no two lists of parts are hashed alike. The model's digest is compared apart, since it is not always known.
func keyOf(in report.Inputs, j *jobs.Job) (string, error) {
	options, err := json.Marshal(j.Options)
	if err != nil {
		return "", fmt.Errorf("encode options of a request: %w", err)
	}
	h := sha256.New()
	for _, part := range []string{
		in.Notebook, in.Rubric, in.Solution, in.Template,
		j.System, j.Prompt[:j.SharedPrefix], j.Prompt[j.SharedPrefix:], string(j.Format), string(j.Think), string(options), j.Model,
	} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sameModel reports whether two digests may be of one model file: one that is not known may be any.
func sameModel(a, b string) bool { return a == "" || b == "" || a == b }
