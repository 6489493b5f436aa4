package queue

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// readable reports a file that a setting names and that cannot be read. An empty name is no error.
func readable(setting, file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "%s: %w", setting, err)
	}
	return f.Close()
}

// connectError turns what nats.go says about a failed connection into what the user can do about it.
func (cfg Config) connectError(err error) error {
	where := protocol.RedactURL(cfg.URL)
	say := func(format string, args ...any) error {
		return &jobs.Error{Code: jobs.CodeNATS, Message: fmt.Sprintf("NATS at %s ", where) + fmt.Sprintf(format, args...), Err: err}
	}
	unknown, wrongHost := x509.UnknownAuthorityError{}, x509.HostnameError{}
	switch {
	case errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAccountAuthExpired):
		return say("refuses expired credentials; %s", cfg.credentials())
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthRevoked):
		return say("refuses the credentials; %s", cfg.credentials())
	case errors.Is(err, nats.ErrSecureConnRequired):
		return say("wants TLS; write the address as tls://…, and give --tls-ca if its certificate is your own")
	case errors.Is(err, nats.ErrSecureConnWanted):
		return say("has no TLS; write the address as nats://…, or switch TLS on in the server's configuration")
	case errors.As(err, &unknown):
		return say("shows a certificate of an unknown authority; give the authority's file with --tls-ca")
	case errors.As(err, &wrongHost):
		return say("shows a certificate for another name; use the name that it is for")
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return say("knows no nkeys; %s", cfg.credentials())
	}
	return say("cannot be reached; see that the server runs and that --nats (TANDEM_NATS) is its address")
}

// credentials says which setting to look at.
func (cfg Config) credentials() string {
	switch {
	case cfg.Context != "":
		return "check nats-context: nats context show " + cfg.Context
	case cfg.Creds != "":
		return "check creds: " + cfg.Creds
	case cfg.NKey != "":
		return "check nkey: " + cfg.NKey + ", and that the server lists its public key"
	case strings.Contains(cfg.URL, "@"):
		return "check the user and password in the address (xxxxx stands for one that is not shown)"
	}
	return "none were given: give --creds, --nkey, or user:password@ in the address"
}

// checkURL refuses addresses of which nats.go would take a part of a password for the name of a host, and look that up.
func checkURL(urls string) error {
	for i, s := range strings.Split(urls, ",") {
		scheme, hasUser := strings.Contains(s, "://"), strings.Contains(s, "@")
		if s = strings.TrimSpace(s); !scheme {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil || hasUser && (u.User == nil || !scheme && i > 0) {
			return jobs.Errorf(jobs.CodeInvalid, "nats: %s is no address; write it as nats://host:4222 or nats://user:password@host:4222, with a scheme at each of several, and in a password / as %%2F, @ as %%40, a comma as %%2C", protocol.RedactURL(urls))
		}
	}
	return nil
}
