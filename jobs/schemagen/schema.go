package main

import (
	"fmt"
	"reflect"
	"strings"

	"tandem/internal/schema"
	"tandem/jobs"
)

type object = schema.Object

// Patterns and shapes that occur more than once.
var (
	uuid = object{{"format", "uuid"}, {"pattern", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}
	name = object{{"minLength", 1}, {"maxLength", jobs.MaxName}}
	mark = object{{"maxLength", jobs.MaxMark}}
)

// limits are the rules that package jobs checks in code, by type and JSON name. JSON Schema counts
// characters where the code counts bytes, so a text that is not ASCII may pass here and fail there.
var limits = map[string]object{
	"Job.v": {{"const", jobs.Version}}, "Handover.v": {{"const", jobs.Version}}, "Result.v": {{"const", jobs.Version}}, "Chunk.v": {{"const", jobs.Version}}, "Event.v": {{"const", jobs.Version}},
	"Job.id": uuid, "Job.replay_of": uuid, "Result.job_id": uuid, "Chunk.job_id": uuid, "Result.replay_of": uuid,
	"Job.user": name, "Job.batch": name, "Result.user": name, "Result.batch": name,
	"Job.model":              {{"maxLength", jobs.MaxName}, {"pattern", "^[^ ]+:[^ /]+$"}},
	"Job.custom_id":          {{"maxLength", jobs.MaxName}},
	"Job.system":             {{"maxLength", jobs.MaxBody}},
	"Job.prompt":             {{"maxLength", jobs.MaxBody}},
	"Job.messages":           {{"maxItems", jobs.MaxMessages}},
	"Embed.input":            {{"minItems", 1}, {"maxItems", jobs.MaxInputs}},
	"Embed.input.*":          {{"minLength", 1}},
	"Embed.dimensions":       {{"minimum", 0}, {"maximum", jobs.MaxTokens}},
	"Job.tools":              {{"maxItems", jobs.MaxTools}},
	"Job.tools.*":            {{"type", "object"}},
	"Message.tool_calls":     {{"maxItems", jobs.MaxTools}},
	"ToolCall.name":          name,
	"ToolCall.arguments":     {{"type", "object"}},
	"Job.top_logprobs":       {{"minimum", 0}, {"maximum", jobs.MaxLogprobs}},
	"Job.format":             {{"anyOf", []any{object{{"const", "json"}}, object{{"type", "object"}}}}},
	"Job.shared_prefix":      {{"minimum", 0}},
	"Job.labels":             {{"maxProperties", jobs.MaxLabels}},
	"Job.labels.*":           {{"maxLength", jobs.MaxLabel}},
	"Options.temperature":    {{"minimum", 0}, {"maximum", 10}},
	"Options.num_predict":    {{"minimum", 1}, {"maximum", jobs.MaxTokens}},
	"Options.num_ctx":        {{"minimum", 1}, {"maximum", jobs.MaxTokens}},
	"Options.top_p":          {{"minimum", 0}, {"maximum", 1}},
	"Options.top_k":          {{"minimum", 0}, {"maximum", jobs.MaxTokens}},
	"Options.min_p":          {{"minimum", 0}, {"maximum", 1}},
	"Options.repeat_penalty": {{"minimum", 0}, {"maximum", 10}},
	"Options.stop":           {{"maxItems", jobs.MaxStops}},
	"Options.stop.*":         {{"minLength", 1}, {"maxLength", jobs.MaxLabel}},
	"Handover.context":       {{"maxItems", jobs.MaxTokens}},
	"State.url":              {{"maxLength", jobs.MaxURL}, {"pattern", "^https?://[^/]"}},
	"State.token":            {{"maxLength", jobs.MaxToken}, {"pattern", "^[!-~]+$"}},
	"State.bytes":            {{"minimum", 1}},
	"State.tokens":           {{"minimum", 1}, {"maximum", jobs.MaxTokens}},
	"State.prefix":           {{"minimum", 0}, {"maximum", jobs.MaxTokens}},
	"State.first":            {{"maxItems", jobs.MaxFirst}},
	"State.save_seconds":     {{"minimum", 0}},
	"TokenProb.id":           {{"minimum", 0}},
	"Fingerprint.model":      mark, "Fingerprint.build": mark, "Fingerprint.format": mark, "Fingerprint.cache_k": mark, "Fingerprint.cache_v": mark,
	"Fingerprint.layout": mark, "Fingerprint.positions": mark, "Fingerprint.streams": {{"minimum", 0}},
}

// rules are what the Go types of the records do not say. Error codes are an open list: a newer version may know more.
var rules = schema.Rules{
	Limits: limits,
	Fixed:  map[string]object{"Handover.stage": {{"enum", []jobs.Stage{jobs.StageDecode, jobs.StageFallback}}}},
	Optional: map[string]bool{ // workers always write them, but whoever cancels a job need not
		"Result.usage": true, "Result.timings": true, "Result.servers": true, "Result.attempts": true, "Result.provenance": true,
	},
	Required: map[string]bool{"Handover.job": true},
	Whole:    map[string]object{"Job": {{"oneOf", []any{object{{"required", []string{"prompt"}}}, object{{"required", []string{"messages"}}}, object{{"required", []string{"embed"}}}}}}},
	Open:     map[reflect.Type]bool{reflect.TypeFor[jobs.Code](): true},
	Explain:  true,
}

// schemas returns the schema of each record that travels by itself, by file name. root is the folder of the module.
func schemas(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[jobs.Job](), reflect.TypeFor[jobs.Handover](), reflect.TypeFor[jobs.Result](), reflect.TypeFor[jobs.Chunk](), reflect.TypeFor[jobs.Event](),
	} {
		file := fmt.Sprintf("%s.v%d.schema.json", strings.ToLower(t.Name()), jobs.Version)
		g := schema.NewGenerator("tandem", root, rules)
		body, err := g.Root(t)
		if err != nil {
			return nil, err
		}
		whole := append(object{{"$schema", schema.Dialect}, {"$id", file}, {"title", t.Name()}}, body...)
		if defs := g.Defs(); len(defs) > 0 {
			whole = append(whole, schema.Member{"$defs", defs})
		}
		if files[file], err = schema.Format(whole); err != nil {
			return nil, err
		}
	}
	return files, nil
}
