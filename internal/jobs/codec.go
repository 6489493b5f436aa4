package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Extra holds the fields of a record that this version does not know, so that they survive a hop.
type Extra map[string]json.RawMessage

// record is what travels: each knows whether it is valid.
type record interface{ validate() error }

// Decode reads one record strictly: invalid UTF-8, duplicate keys, wrong types, an unknown
// version, over-long fields and trailing data are errors of code [CodeInvalid] that name the field.
// Unknown fields are kept in Extra.
func Decode[T any, P interface {
	*T
	record
}](data []byte) (*T, error) {
	if err := CheckJSON(data); err != nil {
		return nil, err
	}
	var version struct {
		V *int `json:"v"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, typeError(err)
	}
	if version.V == nil {
		return nil, Errorf(CodeInvalid, "v is missing; this program writes and reads version %d", Version)
	}
	if *version.V != Version {
		return nil, Errorf(CodeInvalid, "v is %d; this program reads version %d: upgrade the older side", *version.V, Version)
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, typeError(err)
	}
	if err := P(v).validate(); err != nil {
		return nil, err
	}
	return v, nil
}

// Encode validates a record and writes it as JSON, at most [MaxRecord] bytes.
func Encode(v record) ([]byte, error) {
	if err := v.validate(); err != nil {
		return nil, err
	}
	data, err := marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if len(data) > MaxRecord {
		return nil, Errorf(CodeInvalid, "the record is %d bytes long; %d are allowed", len(data), MaxRecord)
	}
	return data, nil
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

// typeError makes a wrong type an error that names the field.
func typeError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Errorf(CodeInvalid, "%s is a JSON %s; want %s", cmp.Or(e.Field, "the record"), e.Value, e.Type)
	}
	return Errorf(CodeInvalid, "read JSON: %w", err)
}

// fieldsOf lists the JSON names of a struct's fields.
func fieldsOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// unmarshalOpen fills plain, a pointer to a struct type without methods, and returns the fields it
// has no place for. A field that differs from a known one only in case is an error: encoding/json
// would take it for the known one.
func unmarshalOpen(data []byte, plain any) (Extra, error) {
	var all Extra
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	known := fieldsOf(reflect.TypeOf(plain).Elem())
	for name := range all {
		if slices.Contains(known, name) {
			continue
		}
		if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
			return nil, Errorf(CodeInvalid, "field %q is unknown; did you mean %q?", name, known[i])
		}
	}
	if err := json.Unmarshal(data, plain); err != nil {
		return nil, err
	}
	for _, name := range known {
		delete(all, name)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// marshalOpen writes plain and appends the extra fields, in the order of their names.
func marshalOpen(plain any, extra Extra) ([]byte, error) {
	data, err := marshal(plain)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	rest, err := marshal(map[string]json.RawMessage(extra))
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(data, []byte("}"))
	if len(data) > 1 {
		data = append(data, ',')
	}
	return append(data, rest[1:]...), nil
}

// The records below share one way of keeping unknown fields. Each needs its own plain type,
// since a method set is what stops encoding/json from calling these methods again.

type (
	plainJob      Job
	plainMessage  Message
	plainOptions  Options
	plainHandover Handover
	plainPrefill  Prefill
	plainResult   Result
	plainChunk    Chunk
)

// UnmarshalJSON keeps unknown fields in Extra.
func (j *Job) UnmarshalJSON(data []byte) (err error) {
	j.Extra, err = unmarshalOpen(data, (*plainJob)(j))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (j Job) MarshalJSON() ([]byte, error) { return marshalOpen(plainJob(j), j.Extra) }

// UnmarshalJSON keeps unknown fields in Extra.
func (m *Message) UnmarshalJSON(data []byte) (err error) {
	m.Extra, err = unmarshalOpen(data, (*plainMessage)(m))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (m Message) MarshalJSON() ([]byte, error) { return marshalOpen(plainMessage(m), m.Extra) }

// UnmarshalJSON keeps unknown fields in Extra.
func (o *Options) UnmarshalJSON(data []byte) (err error) {
	o.Extra, err = unmarshalOpen(data, (*plainOptions)(o))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (o Options) MarshalJSON() ([]byte, error) { return marshalOpen(plainOptions(o), o.Extra) }

// UnmarshalJSON keeps unknown fields in Extra.
func (h *Handover) UnmarshalJSON(data []byte) (err error) {
	h.Extra, err = unmarshalOpen(data, (*plainHandover)(h))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (h Handover) MarshalJSON() ([]byte, error) { return marshalOpen(plainHandover(h), h.Extra) }

// UnmarshalJSON keeps unknown fields in Extra.
func (p *Prefill) UnmarshalJSON(data []byte) (err error) {
	p.Extra, err = unmarshalOpen(data, (*plainPrefill)(p))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (p Prefill) MarshalJSON() ([]byte, error) { return marshalOpen(plainPrefill(p), p.Extra) }

// UnmarshalJSON keeps unknown fields in Extra.
func (r *Result) UnmarshalJSON(data []byte) (err error) {
	r.Extra, err = unmarshalOpen(data, (*plainResult)(r))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (r Result) MarshalJSON() ([]byte, error) { return marshalOpen(plainResult(r), r.Extra) }

// UnmarshalJSON keeps unknown fields in Extra.
func (c *Chunk) UnmarshalJSON(data []byte) (err error) {
	c.Extra, err = unmarshalOpen(data, (*plainChunk)(c))
	return err
}

// MarshalJSON writes the fields of Extra too.
func (c Chunk) MarshalJSON() ([]byte, error) { return marshalOpen(plainChunk(c), c.Extra) }
