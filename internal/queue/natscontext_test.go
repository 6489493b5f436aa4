package queue

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
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

func TestConnectContext(t *testing.T) {
	public, seedFile, _ := userKey(t)
	s := natstest.Start(t, natsembed.Options{Users: []natsembed.User{{Name: "grader", Password: "right"}, {NKey: public}}})
	save(t, map[string]map[string]string{
		"password": {"url": s.URL(), "user": "grader", "password": "right", "inbox_prefix": "_INBOX.mine"},
		"nkey":     {"url": s.URL(), "nkey": seedFile},
		"wrong":    {"url": s.URL(), "user": "grader", "password": "s3cret"},
		"domain":   {"url": s.URL(), "user": "grader", "password": "right", "jetstream_domain": "leaf"},
		"no key":   {"url": s.URL(), "nkey": filepath.Join(t.TempDir(), "missing")},
	})
	connects(t, Config{Context: "nkey"})
	if inbox := connects(t, Config{Context: "password"}).nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX.mine.") {
		t.Errorf("inbox = %q, want the context's", inbox)
	}
	refusedWith(t, Config{Context: "wrong"}, jobs.CodeNATS, "refuses the credentials", "nats context show wrong")
	refusedWith(t, Config{Context: "domain"}, jobs.CodeInvalid, "nats-context domain", "not supported")
	refusedWith(t, Config{Context: "no key"}, jobs.CodeInvalid, "nats-context no key", "missing")
	refusedWith(t, Config{Context: "other"}, jobs.CodeInvalid, "nats-context is other", "known are: domain, nkey, no key, password, wrong")
	refusedWith(t, Config{Context: "../nkey"}, jobs.CodeInvalid, "nats-context")
	for setting, cfg := range map[string]Config{"nats": {URL: "nats://u:s3cret@h"}, "creds": {Creds: "f"}, "nkey": {NKey: "f"}, "tls-ca": {TLSCA: "f"}} {
		cfg.Context = "nkey"
		refusedWith(t, cfg, jobs.CodeInvalid, "nats-context is nkey, and "+setting+" is set, too")
	}
	save(t, nil)
	refusedWith(t, Config{Context: "other"}, jobs.CodeInvalid, "none", "nats context add")
}
