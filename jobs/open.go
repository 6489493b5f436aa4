package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Extra holds the fields of a record that this version does not know, so that they survive a hop.
type Extra map[string]json.RawMessage

// open is a struct that keeps unknown fields.
type open interface{ extra() *Extra }

// unmarshalOpen fills v from an object. As everywhere in encoding/json, null changes nothing.
func unmarshalOpen(data []byte, v open) error {
	if string(data) == "null" {
		return nil
	}
	members, err := scan(data, maxDepth)
	if err != nil {
		return err
	}
	if members == nil {
		return json.Unmarshal(data, new(struct{})) // the error that says what it is instead
	}
	return fill(v, members)
}

// fill sets the fields of v, a pointer to a struct, from the members of an object, which it uses up;
// what has no field goes to Extra. Names are exact, unlike those of encoding/json: one that differs
// from a field's only in case is an error.
func fill(v open, members map[string]json.RawMessage) error {
	var known []string
	for f, field := range reflect.ValueOf(v).Elem().Fields() {
		name := jsonName(f)
		if name == "" {
			continue
		}
		known = append(known, name)
		data, ok := members[name]
		delete(members, name)
		if !ok || string(data) == "null" {
			continue
		}
		if err := unmarshal(data, field.Addr().Interface()); err != nil {
			return named(name, err)
		}
	}
	var extra Extra
	for name, data := range members {
		if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
			return Errorf(CodeInvalid, "%s is unknown; did you mean %q?", name, known[i])
		}
		if extra == nil {
			extra = Extra{}
		}
		extra[name] = bytes.Clone(data)
	}
	*v.extra() = extra
	return nil
}

// unmarshal spares a value that reads itself the two passes that encoding/json would make first.
func unmarshal(data []byte, v any) error {
	if u, ok := v.(json.Unmarshaler); ok {
		return u.UnmarshalJSON(data)
	}
	return json.Unmarshal(data, v)
}

// named makes an error of a field's value one that names the field.
func named(field string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok { // of a record within the field
		return Errorf(CodeInvalid, "%s.%s", field, e.Message)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Errorf(CodeInvalid, "%s is a JSON %.60s; want %s", field, e.Value, JSONKind(e.Type))
	}
	return Errorf(CodeInvalid, "%s cannot be read; want a time such as %q", field, time.RFC3339)
}

// JSONKind says in words what JSON a Go type is read from, such as "a string".
func JSONKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number of 64 bits"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// marshalOpen writes plain, a struct without methods, and appends the extra fields in the order of their names.
func marshalOpen(plain any, extra Extra) ([]byte, error) {
	data, err := marshal(plain)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	for f := range reflect.TypeOf(plain).Fields() {
		if name := jsonName(f); name != "" && extra[name] != nil {
			return nil, Errorf(CodeInvalid, "%s is both a field and an extra field", name)
		}
	}
	rest, err := marshal(extra)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(data, []byte("}"))
	if len(data) > 1 {
		data = append(data, ',')
	}
	return append(data, rest[1:]...), nil
}

// marshal writes v without escaping <, > and &, which are common in code and would grow sixfold.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// jsonName is the name of a field in JSON, empty if it has none.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// The records, and the objects in them, that keep unknown fields. Each needs a type of its own
// without methods, or encoding/json would call MarshalJSON for ever.
type (
	plainJob            Job
	plainEmbed          Embed
	plainMessage        Message
	plainToolCall       ToolCall
	plainTokenLogprob   TokenLogprob
	plainOptions        Options
	plainFollowing      Following
	plainHandover       Handover
	plainPrefill        Prefill
	plainResult         Result
	plainErrorInfo      ErrorInfo
	plainUsage          Usage
	plainTimings        Timings
	plainServers        Servers
	plainAttempts       Attempts
	plainProvenance     Provenance
	plainState          State
	plainTokenProb      TokenProb
	plainFingerprint    Fingerprint
	plainHandoverReport HandoverReport
	plainChunk          Chunk
	plainEvent          Event
	plainMoment         Moment
)

func (j *Job) extra() *Extra { return &j.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (j *Job) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, j) }

// MarshalJSON writes the fields of Extra too.
func (j Job) MarshalJSON() ([]byte, error) { return marshalOpen(plainJob(j), j.Extra) }

func (e *Embed) extra() *Extra { return &e.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (e *Embed) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, e) }

// MarshalJSON writes the fields of Extra too.
func (e Embed) MarshalJSON() ([]byte, error) { return marshalOpen(plainEmbed(e), e.Extra) }

func (c *ToolCall) extra() *Extra { return &c.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (c *ToolCall) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, c) }

// MarshalJSON writes the fields of Extra too.
func (c ToolCall) MarshalJSON() ([]byte, error) { return marshalOpen(plainToolCall(c), c.Extra) }

func (t *TokenLogprob) extra() *Extra { return &t.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (t *TokenLogprob) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, t) }

// MarshalJSON writes the fields of Extra too.
func (t TokenLogprob) MarshalJSON() ([]byte, error) {
	return marshalOpen(plainTokenLogprob(t), t.Extra)
}

func (m *Message) extra() *Extra { return &m.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (m *Message) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, m) }

// MarshalJSON writes the fields of Extra too.
func (m Message) MarshalJSON() ([]byte, error) { return marshalOpen(plainMessage(m), m.Extra) }

func (o *Options) extra() *Extra { return &o.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (o *Options) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, o) }

// MarshalJSON writes the fields of Extra too.
func (o Options) MarshalJSON() ([]byte, error) { return marshalOpen(plainOptions(o), o.Extra) }

func (f *Following) extra() *Extra { return &f.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (f *Following) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, f) }

// MarshalJSON writes the fields of Extra too.
func (f Following) MarshalJSON() ([]byte, error) { return marshalOpen(plainFollowing(f), f.Extra) }

func (h *Handover) extra() *Extra { return &h.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (h *Handover) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, h) }

// MarshalJSON writes the fields of Extra too.
func (h Handover) MarshalJSON() ([]byte, error) { return marshalOpen(plainHandover(h), h.Extra) }

func (p *Prefill) extra() *Extra { return &p.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (p *Prefill) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, p) }

// MarshalJSON writes the fields of Extra too.
func (p Prefill) MarshalJSON() ([]byte, error) { return marshalOpen(plainPrefill(p), p.Extra) }

func (r *Result) extra() *Extra { return &r.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (r *Result) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, r) }

// MarshalJSON writes the fields of Extra too.
func (r Result) MarshalJSON() ([]byte, error) { return marshalOpen(plainResult(r), r.Extra) }

func (e *ErrorInfo) extra() *Extra { return &e.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (e *ErrorInfo) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, e) }

// MarshalJSON writes the fields of Extra too.
func (e ErrorInfo) MarshalJSON() ([]byte, error) { return marshalOpen(plainErrorInfo(e), e.Extra) }

func (u *Usage) extra() *Extra { return &u.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (u *Usage) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, u) }

// MarshalJSON writes the fields of Extra too.
func (u Usage) MarshalJSON() ([]byte, error) { return marshalOpen(plainUsage(u), u.Extra) }

func (t *Timings) extra() *Extra { return &t.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (t *Timings) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, t) }

// MarshalJSON writes the fields of Extra too.
func (t Timings) MarshalJSON() ([]byte, error) { return marshalOpen(plainTimings(t), t.Extra) }

func (s *Servers) extra() *Extra { return &s.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (s *Servers) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, s) }

// MarshalJSON writes the fields of Extra too.
func (s Servers) MarshalJSON() ([]byte, error) { return marshalOpen(plainServers(s), s.Extra) }

func (a *Attempts) extra() *Extra { return &a.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (a *Attempts) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, a) }

// MarshalJSON writes the fields of Extra too.
func (a Attempts) MarshalJSON() ([]byte, error) { return marshalOpen(plainAttempts(a), a.Extra) }

func (p *Provenance) extra() *Extra { return &p.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (p *Provenance) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, p) }

// MarshalJSON writes the fields of Extra too.
func (p Provenance) MarshalJSON() ([]byte, error) { return marshalOpen(plainProvenance(p), p.Extra) }

func (c *Chunk) extra() *Extra { return &c.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (c *Chunk) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, c) }

// MarshalJSON writes the fields of Extra too.
func (c Chunk) MarshalJSON() ([]byte, error) { return marshalOpen(plainChunk(c), c.Extra) }

func (s *State) extra() *Extra { return &s.Extra }

// UnmarshalJSON keeps unknown fields.
func (s *State) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, s) }

// MarshalJSON writes unknown fields back.
func (s State) MarshalJSON() ([]byte, error) { return marshalOpen(plainState(s), s.Extra) }

func (p *TokenProb) extra() *Extra { return &p.Extra }

// UnmarshalJSON keeps unknown fields.
func (p *TokenProb) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, p) }

// MarshalJSON writes unknown fields back.
func (p TokenProb) MarshalJSON() ([]byte, error) { return marshalOpen(plainTokenProb(p), p.Extra) }

func (f *Fingerprint) extra() *Extra { return &f.Extra }

// UnmarshalJSON keeps unknown fields.
func (f *Fingerprint) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, f) }

// MarshalJSON writes unknown fields back.
func (f Fingerprint) MarshalJSON() ([]byte, error) { return marshalOpen(plainFingerprint(f), f.Extra) }

func (r *HandoverReport) extra() *Extra { return &r.Extra }

// UnmarshalJSON keeps unknown fields.
func (r *HandoverReport) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, r) }

// MarshalJSON writes unknown fields back.
func (r HandoverReport) MarshalJSON() ([]byte, error) {
	return marshalOpen(plainHandoverReport(r), r.Extra)
}

func (e *Event) extra() *Extra { return &e.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (e *Event) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, e) }

// MarshalJSON writes the fields of Extra too.
func (e Event) MarshalJSON() ([]byte, error) { return marshalOpen(plainEvent(e), e.Extra) }

func (m *Moment) extra() *Extra { return &m.Extra }

// UnmarshalJSON keeps unknown fields in Extra.
func (m *Moment) UnmarshalJSON(data []byte) error { return unmarshalOpen(data, m) }

// MarshalJSON writes the fields of Extra too.
func (m Moment) MarshalJSON() ([]byte, error) { return marshalOpen(plainMoment(m), m.Extra) }
