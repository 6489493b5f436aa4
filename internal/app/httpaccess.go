package app

import (
	"net"
	"os"
	"strings"

	"tandem/jobs"
)

// minToken is how many characters a token must have.
const minToken = 16

// ReadToken reads the token of workers' HTTP APIs; it is empty if no file is named.
func ReadToken(file string) (string, error) {
	return readSecret("http-token-file", file, minToken)
}

// readSecret reads a secret of at least so many characters from the file of a setting; it is empty if no file is named.
func readSecret(setting, file string, least int) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", jobs.Errorf(jobs.CodeInvalid, "%s: %w", setting, err)
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < least || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", jobs.Errorf(jobs.CodeInvalid, "%s: %s holds no secret; want one line of at least %d letters, digits or signs, as openssl rand -hex 32 writes", setting, file, least)
	}
	return secret, nil
}

// httpHosts are the names under which a worker's HTTP API may be asked: what the flags say, and the machine's own.
func (f *WorkerFlags) httpHosts() []string {
	hosts := append([]string{f.Machine}, f.HTTPHost...)
	if host, _, err := net.SplitHostPort(f.HTTP); err == nil {
		hosts = append(hosts, host)
	}
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		hosts = append(hosts, name, short, short+".local") // the last one by multicast DNS, as Macs have it
	}
	return hosts
}
