package app

import (
	"bytes"
	"io"
	"testing"

	"github.com/alecthomas/kong"

	"tandem/jobs"
)

// A configuration file, whatever is in it, sets the flags that it names to what it says, or is refused as a whole.
func FuzzYAMLFile(f *testing.F) {
	for _, s := range []string{
		"model: m\nslots: 2\nallow: [a, b]\n", "model: \"\\u001b[31m\"\n", "modle: m\n", "slots: 1e400\n", "slots: [1]\n", "model: {a: b}\n", "a: &a [*a]\n",
		"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nallow: *c\n", "model: m\nmodel: n\n", "- x\n", "null\n", "? [a]\n: b\n", "\xff", "model: !!binary x\n", "---\nmodel: a\n---\nmodel: b\n", "1: 2\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		from, err := YAMLFile(bytes.NewReader(data))
		if err != nil {
			if jobs.CodeOf(err) != jobs.CodeInvalid {
				t.Errorf("%v is of code %s, want %s", err, jobs.CodeOf(err), jobs.CodeInvalid)
			}
			return
		}
		var g struct {
			Model string
			Slots int
			Allow []string
		}
		parser, err := kong.New(&g, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}), kong.Resolvers(from))
		if err != nil {
			return // kong asks the resolver whether it knows all keys
		}
		if _, err := parser.Parse(nil); err != nil {
			return
		}
		if n := len(g.Model) + len(g.Allow); n > 100*len(data)+1000 {
			t.Errorf("%d bytes make settings of %d", len(data), n)
		}
	})
}
