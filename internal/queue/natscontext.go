package queue

import (
	"errors"
	"strings"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"

	"tandem/jobs"
)

// DefaultURL is where NATS is if nobody says otherwise.
const DefaultURL = "nats://127.0.0.1:4222"

// address fills in the server's address. The options are those of the context, if there is one; they hold its secrets.
func (cfg *Config) address() ([]nats.Option, error) {
	if cfg.Context == "" {
		if cfg.URL == "" {
			cfg.URL = DefaultURL
		}
		return nil, nil
	}
	for setting, value := range map[string]string{"nats": cfg.URL, "creds": cfg.Creds, "nkey": cfg.NKey, "tls-ca": cfg.TLSCA} {
		if value != "" {
			return nil, jobs.Errorf(jobs.CodeInvalid, "nats-context is %s, and %s is set, too (by a flag, the environment or a configuration file); give one of them", cfg.Context, setting)
		}
	}
	saved, err := natscontext.New(cfg.Context, true)
	if errors.Is(err, natscontext.ErrNotFound) {
		known := strings.Join(natscontext.KnownContexts(), ", ")
		if known == "" {
			known = "none; nats context add NAME saves one"
		}
		return nil, jobs.Errorf(jobs.CodeInvalid, "nats-context is %s, which is unknown; known are: %s", cfg.Context, known)
	}
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "nats-context %s: %w", cfg.Context, err)
	}
	if saved.JSDomain() != "" || saved.JSAPIPrefix() != "" {
		return nil, jobs.Errorf(jobs.CodeInvalid, "nats-context %s: it is for a JetStream domain or API prefix, which are not supported; use one for a user of the account that has the streams", cfg.Context)
	}
	opts, err := saved.NATSOptions()
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "nats-context %s: %w", cfg.Context, err)
	}
	cfg.URL = saved.ServerURL()
	return opts, nil
}
