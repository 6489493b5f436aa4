package jobs

import (
	"encoding/json"
	"strings"
	"unicode"
)

// Limits of the records, in bytes of JSON. A server that takes them needs max_payload 8 MiB.
const (
	MaxJob    = 6 << 20        // of a job, which must fit into the records that hold it
	MaxRecord = 8<<20 - 64<<10 // of any other record, leaving room for headers
)

// jobRoom is how much less deep a job may be nested than the records that hold it.
const jobRoom = 8

// record is what travels by itself: each kind knows whether it is valid.
type record interface {
	json.Marshaler
	validate() error
}

// Decode reads one record strictly: invalid UTF-8, duplicate keys, wrong types, an unknown
// version, over-long fields and trailing data are errors of code [CodeInvalid] that name the field.
// A field that is null counts as absent; unknown fields are kept in Extra.
func Decode[T any, P interface {
	*T
	record
	open
}](data []byte) (*T, error) {
	v := P(new(T))
	size, depth := limits(v)
	if err := checkSize(data, size); err != nil {
		return nil, err
	}
	members, err := scan(data, depth)
	if err != nil {
		return nil, err
	}
	if members == nil {
		return nil, Errorf(CodeInvalid, "the record is no JSON object")
	}
	if err := checkVersion(members); err != nil {
		return nil, err
	}
	if err := fill(v, members); err != nil {
		return nil, err
	}
	if err := v.validate(); err != nil {
		return nil, err
	}
	return (*T)(v), nil
}

// Encode validates a record and writes it as JSON that [Decode] takes.
func Encode(v record) ([]byte, error) {
	if err := v.validate(); err != nil {
		return nil, err
	}
	data, err := v.MarshalJSON()
	if err != nil {
		return nil, Errorf(CodeInvalid, "encode %T: %w", v, err)
	}
	size, _ := limits(v)
	if err := checkSize(data, size); err != nil {
		return nil, err
	}
	return data, nil
}

func limits(v record) (size, depth int) {
	if _, ok := v.(*Job); ok {
		return MaxJob, maxDepth - jobRoom
	}
	return MaxRecord, maxDepth
}

func checkSize(data []byte, limit int) error {
	if len(data) > limit {
		return Errorf(CodeInvalid, "the record is %d bytes long as JSON; %d are allowed", len(data), limit)
	}
	return nil
}

// checkVersion comes before everything else, since another version may mean anything by its fields.
func checkVersion(members map[string]json.RawMessage) error {
	switch v := string(members["v"]); v {
	case "1":
		return nil
	case "", "null":
		return Errorf(CodeInvalid, "v is missing; this program writes and reads version %d", Version)
	default:
		shown := strings.Map(func(r rune) rune { // it may be a text, of anything
			if unprintable(r) {
				return unicode.ReplacementChar
			}
			return r
		}, v)
		return Errorf(CodeInvalid, "v is %.20s; this program reads version %d: upgrade the older side", shown, Version)
	}
}
