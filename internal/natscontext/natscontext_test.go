package natscontext_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"tandem/internal/natscontext"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/queue"
	"tandem/jobs"
)

// save writes contexts as the nats CLI does, and makes their folder that of the test.
func save(t *testing.T, contexts map[string]map[string]string) {
	t.Helper()
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	dir := filepath.Join(config, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, settings := range contexts {
		data, err := json.Marshal(settings)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// connect connects as a command does that is given a context.
func connect(t *testing.T, name string, settings map[string]string) (*queue.Conn, error) {
	t.Helper()
	url, opts, err := natscontext.Load(name, settings)
	if err != nil {
		return nil, err
	}
	c, err := queue.Connect(t.Context(), queue.Config{URL: url, Options: opts, Context: name, Name: "tandem-test"})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func refused(t *testing.T, name string, settings map[string]string, code jobs.Code, texts ...string) {
	t.Helper()
	_, err := connect(t, name, settings)
	if err == nil || jobs.CodeOf(err) != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error = %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error = %q, which has a password", err)
	}
}

func TestContext(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	seedFile := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seedFile, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, natsembed.Options{Users: []natsembed.User{{Name: "grader", Password: "right"}, {NKey: public}}})
	save(t, map[string]map[string]string{
		"password": {"url": s.URL(), "user": "grader", "password": "right", "inbox_prefix": "_INBOX.mine"},
		"nkey":     {"url": s.URL(), "nkey": seedFile},
		"wrong":    {"url": s.URL(), "user": "grader", "password": "s3cret"},
		"domain":   {"url": s.URL(), "user": "grader", "password": "right", "jetstream_domain": "leaf"},
		"no key":   {"url": s.URL(), "nkey": filepath.Join(t.TempDir(), "missing")},
	})
	for _, name := range []string{"password", "nkey"} {
		if _, err := connect(t, name, nil); err != nil {
			t.Errorf("context %s: %v", name, err)
		}
	}
	_, opts, err := natscontext.Load("password", nil)
	if err != nil {
		t.Fatal(err)
	}
	all := nats.GetDefaultOptions()
	for _, o := range opts {
		if err := o(&all); err != nil {
			t.Fatal(err)
		}
	}
	if all.InboxPrefix != "_INBOX.mine" {
		t.Errorf("inboxes begin with %q, want the context's", all.InboxPrefix)
	}
	refused(t, "wrong", nil, jobs.CodeNATS, "refuses the credentials", "nats context show wrong")
	refused(t, "domain", nil, jobs.CodeInvalid, "nats-context domain", "not supported")
	refused(t, "no key", nil, jobs.CodeInvalid, "nats-context no key", "missing")
	refused(t, "other", nil, jobs.CodeInvalid, "nats-context is other", "known are: domain, nkey, no key, password, wrong")
	refused(t, "../nkey", nil, jobs.CodeInvalid, "nats-context")
	for _, setting := range []string{"nats", "creds", "nkey", "tls-ca"} {
		refused(t, "nkey", map[string]string{setting: "nats://u:s3cret@h"}, jobs.CodeInvalid, "nats-context is nkey, and "+setting+" is set, too")
	}
	save(t, nil)
	refused(t, "other", nil, jobs.CodeInvalid, "none", "nats context add")
}
