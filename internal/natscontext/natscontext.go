// Package natscontext reads the contexts that the nats CLI saves: addresses of NATS servers with the credentials for them. It stands apart from the
// queue, since the library that it takes brings half of the server along.
package natscontext

import (
	"errors"
	"strings"

	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"

	"tandem/jobs"
)

// Load returns the address and the options, which hold its secrets, of the context with this name; of none if the name is empty. The settings, by name, are those that it
// stands in the place of: one that is set is an error of code invalid_request, as is a context that is unknown or cannot be used.
func Load(name string, settings map[string]string) (url string, opts []nats.Option, err error) {
	if name == "" {
		return "", nil, nil
	}
	for setting, value := range settings {
		if value != "" {
			return "", nil, jobs.Errorf(jobs.CodeInvalid, "nats-context is %s, and %s is set, too (by a flag, the environment or a configuration file); give one of them", name, setting)
		}
	}
	saved, err := natscontext.New(name, true)
	if errors.Is(err, natscontext.ErrNotFound) {
		known := strings.Join(natscontext.KnownContexts(), ", ")
		if known == "" {
			known = "none; nats context add NAME saves one"
		}
		return "", nil, jobs.Errorf(jobs.CodeInvalid, "nats-context is %s, which is unknown; known are: %s", name, known)
	}
	if err != nil {
		return "", nil, jobs.Errorf(jobs.CodeInvalid, "nats-context %s: %w", name, err)
	}
	if saved.JSDomain() != "" || saved.JSAPIPrefix() != "" {
		return "", nil, jobs.Errorf(jobs.CodeInvalid, "nats-context %s: it is for a JetStream domain or API prefix, which are not supported; use one for a user of the account that has the streams", name)
	}
	if opts, err = saved.NATSOptions(); err != nil {
		return "", nil, jobs.Errorf(jobs.CodeInvalid, "nats-context %s: %w", name, err)
	}
	return saved.ServerURL(), opts, nil
}
