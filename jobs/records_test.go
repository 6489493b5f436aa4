package jobs

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each file under testdata has every field of a record, and an unknown field in every object. It holds
// the form on the wire still: what was written last year must be read next year.
func TestRecordsSurvive(t *testing.T) {
	t.Run("job", survives[Job]("job.v1.json", "Messages", "Suffix", "Raw", "Embed"))
	t.Run("handover", survives[Handover]("handover.v1.json"))
	t.Run("result", survives[Result]("result.v1.json"))
	t.Run("chunk", survives[Chunk]("chunk.v1.json"))
	t.Run("event", survives[Event]("event.v1.json"))
}

func survives[T any, P interface {
	*T
	record
	open
}](file string, unset ...string) func(*testing.T) {
	return func(t *testing.T) {
		before := golden(t, file)
		v, err := Decode[T, P](before)
		if err != nil {
			t.Fatal(err)
		}
		for f, value := range reflect.ValueOf(v).Elem().Fields() {
			if want := slices.Contains(unset, f.Name); value.IsZero() != want {
				t.Errorf("field %s was set = %t, want %t", f.Name, want, !want)
			}
		}
		after, err := Encode(P(v))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(numbers(t, before), numbers(t, after)); diff != "" {
			t.Errorf("a hop changed the record (-before +after):\n%s", diff)
		}
		if bytes.Contains(after, []byte(`\u003c`)) {
			t.Error("a hop escaped <, which would let a prompt full of code grow beyond the limit")
		}
	}
}

// Every object of the contract must keep what it does not know.
func TestEveryObjectIsOpen(t *testing.T) {
	seen := map[reflect.Type]bool{} // a type may hold itself
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch {
		case typ == reflect.TypeFor[time.Time]():
		case typ.Kind() == reflect.Slice, typ.Kind() == reflect.Pointer:
			walk(typ.Elem())
		case typ.Kind() == reflect.Struct && !seen[typ]:
			seen[typ] = true
			if _, ok := reflect.New(typ).Interface().(open); !ok {
				t.Errorf("%s loses unknown fields", typ)
			}
			for f := range typ.Fields() {
				walk(f.Type)
			}
		}
	}
	for _, root := range []any{Job{}, Handover{}, Result{}, Chunk{}, Event{}} {
		walk(reflect.TypeOf(root))
	}
}

func golden(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// numbers reads any JSON with its numbers as they were written.
func numbers(t *testing.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// change sets a field of a golden record, given as JSON, and returns the record.
func change(t *testing.T, file string, path []string, value string) []byte {
	t.Helper()
	root := numbers(t, golden(t, file))
	object := root.(map[string]any)
	for _, key := range path[:len(path)-1] {
		object = object[key].(map[string]any)
	}
	object[path[len(path)-1]] = json.RawMessage(value)
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
