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
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", jobs.Errorf(jobs.CodeInvalid, "http-token-file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", jobs.Errorf(jobs.CodeInvalid, "http-token-file: %s holds no token; want one line of at least %d letters, digits or signs, as openssl rand -hex 32 writes", file, minToken)
	}
	return token, nil
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
