// Package access makes what a NATS server needs so that nobody gets more than is due: a certificate authority and a certificate, a key for
// each identity, and the configuration with their rights.
//
// There are three accounts. SYS may have the server read its configuration again. PIPELINE owns the streams: the operator may do all in it,
// the workers of each role and model what they are for. GRADERS has no JetStream: each user puts jobs into the intake, sees and hears
// results, and has jobs cancelled, all under the user's own name, which is a token of each subject.
//
// A worker's rights hold who goes by them, and not a thief of the key: JetStream sends an answer to whatever subject a request names, which no
// permission covers. A grader's hold anybody, since an answer to another account ends there. Workers cannot have an account without JetStream
// as long as they withdraw pulls: over accounts NATS does not see that a pull is withdrawn, and sends a job to nobody.
//
// Only public keys stand in the configuration. A key is never written over.
package access

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"tandem/internal/atomicfile"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// Folder is the folder that [Create] makes, by its absolute path. The server's configuration names the files in it by that path.
type Folder string

// Config is the file that the server's configuration includes.
func (f Folder) Config() string { return f.file("security.conf") }

// CA is the PEM file of the authority by which clients know the server.
func (f Folder) CA() string { return f.file("ca.pem") }

// Operator is the key file of the operator.
func (f Folder) Operator() string { return f.file("operator.nk") }

// Gateway is the key file of the gateway, which submits jobs for any user.
func (f Folder) Gateway() string { return f.file("gateway.nk") }

// GatewayInbox is the prefix, after _INBOX., of the inboxes that the gateway's key may use.
const GatewayInbox = "gateway"

// Worker is the key file of all workers of a role and model.
func (f Folder) Worker(role jobs.Stage, model string) string {
	return f.file(string(role) + "-" + jobs.EncodeToken(model) + keyExt)
}

const keyExt = ".nk"

// Exists reports whether there is a configuration in the folder.
func (f Folder) Exists() bool {
	_, err := os.Stat(f.Config())
	return err == nil
}

// WorkerInbox is the prefix, after _INBOX., of the inboxes that a worker's key may use.
func WorkerInbox(role jobs.Stage, model string) string {
	return "tandem-" + string(role) + "." + jobs.EncodeToken(model)
}

func (f Folder) sys() string          { return f.file("sys.nk") }
func (f Folder) graders() string      { return f.file("graders.conf") }
func (f Folder) certificate() string  { return f.file("server.pem") }
func (f Folder) key() string          { return f.file("server-key.pem") }
func (f Folder) authorityKey() string { return f.file("ca-key.pem") }

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// Create makes the folder with all that a server needs that is reached at the addresses, IP addresses or host names, and serves the models.
// There are no graders yet: [Folder.AddGrader]. To a folder that it made before it adds the addresses and models: all keys that are there
// stay, and the server's certificate as long as it is good. The server knows of the change when it has read its configuration again:
// [Folder.Reload].
func (f Folder) Create(addresses, models []string) (err error) {
	if models, err = canonical(models); err != nil {
		return err
	}
	if err := checkAddresses(addresses); err != nil {
		return err
	}
	err = os.Mkdir(string(f), 0o700)
	switch {
	case err == nil:
		defer func() {
			if err != nil {
				_ = os.RemoveAll(string(f)) // nobody has any of it yet
			}
		}()
		if err := writeNew(f.graders(), encodeGraders(nil)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return jobs.Errorf(jobs.CodeInvalid, "make folder: %w", err)
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := f.readGraders(); err != nil {
		return err // another folder than ours
	}
	served, err := f.models()
	if err != nil {
		return err
	}
	models = slices.Compact(slices.Sorted(slices.Values(slices.Concat(models, served))))
	if err := f.certify(addresses); err != nil {
		return err
	}
	public := map[string]string{} // by file
	for _, file := range append(f.workers(models), f.sys(), f.Operator(), f.Gateway()) {
		if public[file], err = haveKey(file); err != nil {
			return err
		}
	}
	users := []user{gateway(public[f.Gateway()], models)}
	for _, model := range models {
		for _, role := range roles {
			users = append(users, worker(public[f.Worker(role, model)], role, model))
		}
	}
	return atomicfile.Replace(f.Config(), f.configuration(public[f.sys()], public[f.Operator()], users, models), 0o600)
}

var roles = []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode}

// workers are the key files of the workers of these models.
func (f Folder) workers(models []string) (files []string) {
	for _, model := range models {
		for _, role := range roles {
			files = append(files, f.Worker(role, model))
		}
	}
	return files
}

// models are those whose workers there are keys for.
func (f Folder) models() (models []string, err error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, f.missing(err)
	}
	for _, e := range entries {
		for _, role := range roles {
			token, of := strings.CutPrefix(e.Name(), string(role)+"-")
			token, key := strings.CutSuffix(token, keyExt)
			if model, err := jobs.DecodeToken(token); of && key && err == nil && CredentialUser(f.file(e.Name())) == "" {
				models = append(models, model)
			}
		}
	}
	return models, nil
}

func canonical(models []string) ([]string, error) {
	if len(models) == 0 {
		return nil, jobs.Errorf(jobs.CodeInvalid, "no model; name each that workers serve, since their rights are for one model")
	}
	all := make([]string, len(models))
	for i, m := range models {
		var err error
		if all[i], err = jobs.CanonicalModel(m); err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

var hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

func checkAddresses(addresses []string) error {
	if len(addresses) == 0 {
		return jobs.Errorf(jobs.CodeInvalid, "no address; name each under which clients reach the server, since its certificate is for these only")
	}
	for _, a := range addresses {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Zone() == "" {
			continue
		}
		if len(a) > 253 || !hostName.MatchString(a) {
			return jobs.Errorf(jobs.CodeInvalid, "address is %.100q; want an IP address or a host name, without a scheme, port or zone", a)
		}
	}
	return nil
}

// haveKey returns the public key of a key file, which is made if there is none.
func haveKey(file string) (public string, err error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(file, "")
	}
	if err != nil {
		return "", jobs.Errorf(jobs.CodeInvalid, "read key: %w", err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", jobs.Errorf(jobs.CodeInvalid, "%s holds no key: %w; put it back, or remove it to have another one made", file, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// createKey makes an nkey and writes its seed after the head, without a line's end, to a new file. It returns the public key.
func createKey(file, head string) (public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return "", err
	}
	if public, err = pair.PublicKey(); err != nil {
		return "", err
	}
	return public, writeNew(file, append([]byte(head), seed...))
}

// writeNew writes a file that must not be there yet, readable by its owner only.
func writeNew(file string, data []byte) error {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return jobs.Errorf(jobs.CodeInvalid, "%s exists, and keys are never written over; name another file, or remove that one if nobody uses it", file)
	}
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "write: %w", err)
	}
	_, err = out.Write(data)
	return errors.Join(err, out.Sync(), out.Close())
}
