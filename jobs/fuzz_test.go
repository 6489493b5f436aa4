package jobs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
)

func FuzzDecodeJob(f *testing.F)      { fuzzDecode[Job](f, "job.v1.json") }
func FuzzDecodeHandover(f *testing.F) { fuzzDecode[Handover](f, "handover.v1.json") }
func FuzzDecodeResult(f *testing.F)   { fuzzDecode[Result](f, "result.v1.json") }
func FuzzDecodeChunk(f *testing.F)    { fuzzDecode[Chunk](f, "chunk.v1.json") }
func FuzzDecodeEvent(f *testing.F)    { fuzzDecode[Event](f, "event.v1.json") }

// What was decoded can be encoded, and from the second time on nothing changes any more.
func fuzzDecode[T any, P interface {
	*T
	record
	open
}](f *testing.F, file string) {
	full := golden(f, file)
	f.Add(full)
	f.Add(bytes.ReplaceAll(full, []byte(`"newer"`), []byte(`"Text"`)))
	f.Add(bytes.ReplaceAll(full, []byte(`1`), []byte(`null`)))
	f.Add(bytes.ReplaceAll(full, []byte(`"newer":`), []byte(`"\u006eewer":`)))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := Decode[T, P](data)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		once, err := Encode(P(first))
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		second, err := Decode[T, P](once)
		if err != nil {
			t.Fatalf("decode what was encoded: %v\n%s", err, once)
		}
		twice, err := Encode(P(second))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once, twice) {
			t.Errorf("a second hop changed the record:\n%s\n%s", once, twice)
		}
	})
}

// longestRefusal is more than any message needs that cuts what it quotes.
const longestRefusal = 600

// checkRefusal: who refuses a record says so in a few printable words, whatever the record holds.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeInvalid {
		t.Errorf("%v is of code %s; want %s", err, CodeOf(err), CodeInvalid)
	}
	said := err.Error()
	if len(said) > longestRefusal {
		t.Errorf("the refusal has %d bytes: %.200s", len(said), said)
	}
	if strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the refusal %q cannot be printed", said)
	}
}
