package app

import (
	"context"
	"errors"
	"os"
	"testing"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// checked is an engine that only says what it predicts.
type checked struct {
	engine.Engine
	check protocol.Check
	err   error
}

func (c *checked) Check(context.Context) (*protocol.Check, error) { return &c.check, c.err }

// A check holds for the engine that it was made of, also for a worker that starts again, and for no other.
func TestChecksAreKept(t *testing.T) {
	_, prompts := engine.CheckPrompts()
	flags := WorkerFlags{StateDir: t.TempDir()}
	about := func(start, build string) engine.Description {
		return engine.Description{KVTransfer: &engine.KVTransfer{Start: start, Fingerprint: jobs.Fingerprint{Build: build}}}
	}
	open := func() *checks {
		t.Helper()
		c, err := openChecks(protocol.RoleDecode, flags)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	has := func(c *checks, d engine.Description, want bool) {
		t.Helper()
		if check, why := c.current(d); (check != nil) != want || why != "" {
			t.Errorf("a check of %+v: %t, %q; want %t", d.KVTransfer, check != nil, why, want)
		}
	}
	renew := func(c *checks, start string) {
		t.Helper()
		e := &checked{check: protocol.Check{Prompts: prompts, Start: start, Predictions: []map[int]float64{{7: -0.1}}}}
		if err := c.renew(t.Context(), e, about(start, "b1").KVTransfer); err != nil {
			t.Fatal(err)
		}
		has(c, about(start, "b1"), true)
	}
	c := open()
	has(c, about("s1", "b1"), false)
	renew(c, "s1")
	has(c, about("s2", "b1"), false)
	has(c, about("s1", "b2"), false)
	has(c, engine.Description{}, false)
	has(open(), about("s1", "b1"), true)

	renew(c, "") // of an engine that does not say when it starts anew
	has(open(), about("", "b1"), false)

	if err := c.renew(t.Context(), &checked{err: errors.New("it is busy")}, about("s1", "b1").KVTransfer); err == nil || c.due() {
		t.Errorf("a check that failed: %v, and another one is due %t", err, c.due())
	}
	if check, why := c.current(about("s1", "b1")); check != nil || why != "its engine could not be checked: it is busy" {
		t.Errorf("after a check that failed: %v, %q", check, why)
	}
	if err := os.WriteFile(c.file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := openChecks(protocol.RoleDecode, flags); err == nil {
		t.Error("a broken file is not told of")
	} else {
		has(c, about("s1", "b1"), false)
	}
}
