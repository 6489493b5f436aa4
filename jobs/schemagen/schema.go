package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"tandem/jobs"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(m.key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

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

// optional are fields that workers always write, but whoever cancels a job need not.
var optional = map[string]bool{
	"Result.usage": true, "Result.timings": true, "Result.servers": true, "Result.attempts": true, "Result.provenance": true,
}

// whole are rules about a record as a whole.
var whole = map[string]object{
	"Job": {{"oneOf", []any{object{{"required", []string{"prompt"}}}, object{{"required", []string{"messages"}}}}}},
}

// schemas returns the schema of each record that travels by itself, by file name. dir holds the source of package jobs.
func schemas(dir string) (map[string][]byte, error) {
	src, err := read(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[jobs.Job](), reflect.TypeFor[jobs.Handover](), reflect.TypeFor[jobs.Result](), reflect.TypeFor[jobs.Chunk](), reflect.TypeFor[jobs.Event](),
	} {
		file := fmt.Sprintf("%s.v%d.schema.json", strings.ToLower(t.Name()), jobs.Version)
		g := generator{src: src, seen: map[reflect.Type]bool{t: true}}
		body, err := g.structure(t)
		if err != nil {
			return nil, err
		}
		root := append(object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", file}, {"title", t.Name()}}, body...)
		if len(g.defs) > 0 {
			root = append(root, member{"$defs", g.defs})
		}
		data, err := json.MarshalIndent(root, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", file, err)
		}
		files[file] = append(unescape(data), '\n')
	}
	return files, nil
}

// unescape undoes what json.MarshalIndent does to <, > and & for the sake of HTML.
func unescape(data []byte) []byte {
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data)))
}

// generator builds one schema.
type generator struct {
	src  *source
	defs object
	seen map[reflect.Type]bool // structs that are in defs
}

// structure describes a struct as an object; unknown members are allowed, since they survive.
func (g *generator) structure(t reflect.Type) (object, error) {
	var properties object
	var required []string
	for f := range t.Fields() {
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		about, err := g.src.comment(t, f)
		if err != nil {
			return nil, err
		}
		shape, err := g.value(f.Type, t.Name()+"."+name)
		if err != nil {
			return nil, err
		}
		properties = append(properties, member{name, append(object{{"description", about}}, shape...)})
		if flags == "" && !optional[t.Name()+"."+name] {
			required = append(required, name)
		}
	}
	o := object{{"description", g.src.types[t.Name()]}, {"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	return append(o, whole[t.Name()]...), nil
}

// value describes the values of a type; at is the place that they have, as in limits.
func (g *generator) value(t reflect.Type, at string) (object, error) {
	limit := limits[at]
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{{"type", "string"}, {"format", "date-time"}}, nil
	case t == reflect.TypeFor[json.RawMessage]():
		return limit, nil
	case at == "Handover.stage":
		return object{{"enum", []jobs.Stage{jobs.StageDecode, jobs.StageFallback}}}, nil
	case g.src.values[t.Name()] != nil:
		return g.constants(t), nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), at)
	case reflect.Slice:
		return g.collection("array", "items", t.Elem(), at)
	case reflect.Map:
		return g.collection("object", "additionalProperties", t.Elem(), at)
	case reflect.Struct:
		ref := object{{"$ref", "#/$defs/" + t.Name()}}
		if g.seen[t] {
			return ref, nil
		}
		g.seen[t] = true
		body, err := g.structure(t)
		g.defs = append(g.defs, member{t.Name(), body})
		return ref, err
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number",
	}
	kind, ok := kinds[t.Kind()]
	if !ok {
		return nil, fmt.Errorf("%s is a %s, for which no schema is known", at, t)
	}
	return append(object{{"type", kind}}, limit...), nil
}

func (g *generator) collection(kind, key string, elem reflect.Type, at string) (object, error) {
	inner, err := g.value(elem, at+".*")
	return append(object{{"type", kind}, {key, inner}}, limits[at]...), err
}

// constants lists the values of a string type. Error codes are an open list: a newer version may know more.
func (g *generator) constants(t reflect.Type) object {
	var all []any
	for _, v := range g.src.values[t.Name()] {
		all = append(all, object{{"const", v.text}, {"description", v.comment}})
	}
	if t == reflect.TypeFor[jobs.Code]() {
		return object{{"type", "string"}, {"anyOf", append(all, object{{"description", "a code of a newer version"}})}}
	}
	return object{{"oneOf", all}}
}
