package submitter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"tandem/jobs"
)

// Limits of a batch file. A prompt of [jobs.MaxBody] may grow sixfold when each character is escaped.
const (
	maxLine = 6*jobs.MaxBody + jobs.MaxFormat + 1<<20
	maxJobs = 100_000
)

// A lineError says which line of a batch file is wrong, and why.
type lineError struct {
	Line int // from 1
	Err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *lineError) Unwrap() error { return e.Err }

// readJobs reads a batch file, one job a line, each filled in from base. What is wrong with a line
// comes as a *lineError, and reading goes on; any other error ends it.
func readJobs(r io.Reader, base jobs.Job) iter.Seq2[*jobs.Job, error] {
	return func(yield func(*jobs.Job, error) bool) {
		first := map[string]int{} // line of a custom id's file name, in lower case: file systems may ignore case
		count := 0
		for n, text := range readLines(r) {
			j, err := (*jobs.Job)(nil), text.err
			if err == nil {
				if len(bytes.TrimSpace(text.data)) == 0 {
					continue
				}
				j, err = parseJob(text.data, base)
			}
			if err == nil {
				key := strings.ToLower(resultFile(j.CustomID))
				if before := first[key]; before > 0 {
					err = jobs.Errorf(jobs.CodeInvalid, "custom_id %q is the same as that of line %d, upper and lower case apart; give each job its own", j.CustomID, before)
				} else {
					first[key] = n
				}
			}
			if count++; count > maxJobs {
				yield(nil, jobs.Errorf(jobs.CodeInvalid, "the file has more than %d jobs; split it", maxJobs))
				return
			}
			switch {
			case err == nil:
				if !yield(j, nil) {
					return
				}
			case errors.Is(err, errRead):
				yield(nil, err)
				return
			default:
				if !yield(nil, &lineError{Line: n, Err: err}) {
					return
				}
			}
		}
	}
}

// errRead marks an error of the file itself.
var errRead = errors.New("read batch file")

type lineText struct {
	data []byte // valid until the next line
	err  error
}

// readLines returns the lines of r with their numbers, from 1, never holding more than one of them.
func readLines(r io.Reader) iter.Seq2[int, lineText] {
	return func(yield func(int, lineText) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var line []byte
		for n := 1; ; n++ {
			line = line[:0]
			length := 0
			var err error
			for {
				var part []byte
				part, err = in.ReadSlice('\n')
				if length += len(part); length <= maxLine {
					line = append(line, part...)
				}
				if !errors.Is(err, bufio.ErrBufferFull) {
					break
				}
			}
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff")) // what some editors put before UTF-8
			}
			text := lineText{data: line}
			switch {
			case err != nil && !errors.Is(err, io.EOF):
				text.err = fmt.Errorf("%w: line %d: %w", errRead, n, err)
			case length > maxLine:
				text.err = jobs.Errorf(jobs.CodeInvalid, "the line is %d bytes long; %d are allowed", length, maxLine)
			}
			if length > 0 && !yield(n, text) || err != nil {
				return
			}
		}
	}
}

// parseJob reads one line of a batch file. Errors name field, value and remedy.
func parseJob(data []byte, base jobs.Job) (*jobs.Job, error) {
	if err := jobs.CheckJSON(data); err != nil {
		return nil, err
	}
	j := base
	j.ID = jobs.NewID()
	fields := map[string]any{
		"custom_id": &j.CustomID, "model": &j.Model, "system": &j.System, "prompt": &j.Prompt,
		"messages": &j.Messages, "suffix": &j.Suffix, "raw": &j.Raw, "embed": &j.Embed, "tools": &j.Tools, "tool_choice": &j.ToolChoice, "format": &j.Format, "think": &j.Think, "options": &j.Options,
		"logprobs": &j.Logprobs, "top_logprobs": &j.TopLogprobs,
		"plan": &j.Plan, "shared_prefix": &j.SharedPrefix, "labels": &j.Labels,
	}
	if err := readFields(data, fields); err != nil {
		return nil, err
	}
	if err := checkNested(&j); err != nil {
		return nil, err
	}
	if j.CustomID == "" {
		return nil, jobs.Errorf(jobs.CodeInvalid, "custom_id is missing; give each job a name of its own, such as \"student-01\": its result file is called so")
	}
	if n := len(resultFile(j.CustomID)); n > maxFileName {
		return nil, jobs.Errorf(jobs.CodeInvalid, "custom_id makes a file name of %d bytes; %d are allowed: shorten it", n, maxFileName)
	}
	return &j, finishJob(&j)
}

// finishJob brings the model's name into its canonical form and checks the whole job.
func finishJob(j *jobs.Job) error {
	model, err := jobs.CanonicalModel(j.Model)
	if err != nil {
		return err
	}
	j.Model = model
	return j.Validate()
}

// readFields fills the fields, by name, from a JSON object that [jobs.CheckJSON] took.
func readFields(data []byte, fields map[string]any) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return typeError("the line", err)
	}
	if object == nil {
		return jobs.Errorf(jobs.CodeInvalid, "the line is null; want a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		to, ok := fields[name]
		if !ok {
			return unknownField("", name, slices.Sorted(maps.Keys(fields)))
		}
		if err := json.Unmarshal(object[name], to); err != nil {
			return typeError(name, err)
		}
	}
	return nil
}

// checkNested refuses fields that the job's codec would keep for a newer version: here they are slips.
func checkNested(j *jobs.Job) error {
	for name := range j.Options.Extra {
		return unknownField("options.", name, jsonNames(j.Options))
	}
	if j.Embed != nil {
		for name := range j.Embed.Extra {
			return unknownField("embed.", name, jsonNames(*j.Embed))
		}
	}
	for i, m := range j.Messages {
		for name := range m.Extra {
			return unknownField(fmt.Sprintf("messages[%d].", i), name, jsonNames(m))
		}
		for n, call := range m.ToolCalls {
			for name := range call.Extra {
				return unknownField(fmt.Sprintf("messages[%d].tool_calls[%d].", i, n), name, jsonNames(call))
			}
		}
	}
	return nil
}

// typeError makes a JSON error of the field one that a person can act on.
func typeError(field string, err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field != "" {
			field += "." + e.Field
		}
		return jobs.Errorf(jobs.CodeInvalid, "%s is a JSON %.60s; want %s", field, e.Value, jobs.JSONKind(e.Type))
	}
	if e, ok := errors.AsType[*jobs.Error](err); ok { // of an object that names its own fields
		return jobs.Errorf(jobs.CodeInvalid, "%s.%s", field, e.Message)
	}
	return jobs.Errorf(jobs.CodeInvalid, "%s: %w", field, err)
}

func unknownField(prefix, name string, known []string) error {
	if near := nearest(name, known); near != "" {
		return jobs.Errorf(jobs.CodeInvalid, "field %.60q is unknown; did you mean %q?", prefix+name, prefix+near)
	}
	return jobs.Errorf(jobs.CodeInvalid, "field %.60q is unknown; known are %s", prefix+name, strings.Join(known, ", "))
}

// jsonNames lists the names that the fields of a struct have in JSON.
func jsonNames(v any) []string {
	var names []string
	for f := range reflect.TypeOf(v).Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// longestSlip is the longest name that may be a known one misspelt.
const longestSlip = 60

// nearest returns the known name that takes the fewest edits to reach, "" if none is near.
func nearest(name string, known []string) string {
	if len(name) > longestSlip {
		return ""
	}
	best, least := "", len(name)/3+2
	for _, k := range known {
		if d := distance(strings.ToLower(name), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two names, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for k := range len(b) {
			change := diagonal
			if a[i] != b[k] {
				change++
			}
			diagonal = row[k+1]
			row[k+1] = min(change, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}
