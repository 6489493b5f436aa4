package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tandem/internal/access"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/rig/host"
	"tandem/test/rig/netns"
)

const model = "qwen3-coder:30b"

// limit is how long anything that a scenario waits for may take on a busy machine.
const limit = 60 * time.Second

// programs are what all scenarios run.
type programs struct {
	tandem *host.Programs
	llama  string // llama-server
	model  string // its GGUF file
	right  *reference
}

// userOf are the users that the programs of each host run as, by number: nobody needs an account. A host's folder is its user's alone, as in deploy/.
var userOf = map[string]int{"mac": 61001, "dgx": 61002, "mac2": 61003, "grader": 61004}

// system is Tandem on four hosts: the queue on mac, prefill on dgx, decode on mac2, and the grader. Each has a user of its own, and a key with the rights
// that its programs need; all speak TLS.
type system struct {
	*testing.T
	ctx                     context.Context
	programs                programs
	home                    string
	access                  access.Folder
	mac, dgx, mac2, grader  *netns.Host
	prefillEngine, decoding *host.Process
	js                      jetstream.JetStream // to look only: whatever is done is done by a program
}

func newSystem(t *testing.T, p programs) *system {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	t.Cleanup(cancel)
	n, err := netns.New(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &system{T: t, ctx: ctx, programs: p, home: shared(t)}
	for name, h := range map[string]**netns.Host{"mac": &s.mac, "dgx": &s.dgx, "mac2": &s.mac2, "grader": &s.grader} {
		if *h, err = n.Host(ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Mkdir(s.dir(*h), 0o700), os.Chown(s.dir(*h), userOf[name], userOf[name])); err != nil {
			t.Fatal(err)
		}
	}
	s.secure()
	s.startNATS()
	s.prefillEngine, s.decoding = s.engine(s.dgx), s.engine(s.mac2)
	s.worker(s.dgx, protocol.RolePrefill, "--handover-listen", s.dgx.Addr()+":8100")
	s.worker(s.mac2, protocol.RoleDecode, "--handover-allow", "198.18.0.0/24")
	for _, h := range []*netns.Host{s.dgx, s.mac2} {
		s.eventually("the worker on "+h.Name()+" hands over states", func() error {
			if w := s.presence(h); w == nil || w.State != queue.StateReady || w.Fingerprint == nil || w.Fingerprint.Model == "" {
				return fmt.Errorf("it says %+v", w)
			}
			return nil
		})
	}
	return s
}

// shared is a temporary folder in which every user may go where a path leads.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// secure makes the keys and rights of the installation, and gives each host its own key.
func (s *system) secure() {
	s.Helper()
	s.access = access.Folder(filepath.Join(s.dir(s.mac), "access"))
	s.done(s.access.Create([]string{s.mac.Addr()}, []string{model}))
	s.done(s.access.AddGrader("grader", filepath.Join(s.home, "grader.nk")))
	for h, key := range map[*netns.Host]string{
		s.dgx: s.access.Worker(protocol.RolePrefill, model), s.mac2: s.access.Worker(protocol.RoleDecode, model), s.grader: filepath.Join(s.home, "grader.nk"),
	} {
		s.done(os.Rename(key, filepath.Join(s.dir(h), "key.nk")))
	}
	for _, h := range []*netns.Host{s.mac, s.dgx, s.mac2, s.grader} {
		ca, err := os.ReadFile(s.access.CA())
		s.done(err)
		s.done(os.WriteFile(filepath.Join(s.dir(h), "ca.pem"), ca, 0o600))
		s.done(filepath.WalkDir(s.dir(h), func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, userOf[h.Name()], userOf[h.Name()]))
		}))
	}
}

// dir is a host's own folder.
func (s *system) dir(h *netns.Host) string { return filepath.Join(s.home, h.Name()) }

// start starts a program on a host, with an environment of nothing but what it needs there.
func (s *system) start(h *netns.Host, program string, args ...string) *host.Process {
	s.Helper()
	name, id := filepath.Base(program), strconv.Itoa(userOf[h.Name()])
	as := []string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs"}
	if program == s.programs.llama { // likewise
		as = append(as, "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
	}
	p, err := host.Start(host.Spec{
		Name: name + " on " + h.Name(), Program: program, Args: args, Dir: s.dir(h),
		Wrap: append(h.Wrap(), as...),
		Env: []string{
			"HOME=" + s.dir(h), "TANDEM_NATS=" + s.natsURL(), "TANDEM_LOG_FORMAT=json",
			"TANDEM_NKEY=" + filepath.Join(s.dir(h), "key.nk"), "TANDEM_TLS_CA=" + filepath.Join(s.dir(h), "ca.pem"),
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		p.Kill()
		if strings.Contains(p.Output(), "panic:") {
			s.Errorf("%s has panicked", p.Name())
		}
		if s.Failed() {
			s.Logf("%s printed:\n%s", p.Name(), p.Output())
		}
	})
	return p
}

func (s *system) natsURL() string { return "tls://" + s.mac.Addr() + ":4222" }

// startNATS starts the server, as its configuration in deploy/nats has it, and connects to it as the operator on its own host, which no fault cuts off.
func (s *system) startNATS() {
	s.Helper()
	config := filepath.Join(s.dir(s.mac), "nats.conf")
	text := fmt.Sprintf("server_name: tandem\nlisten: %s:4222\nmax_payload: 8MB\njetstream { store_dir: %q, sync_interval: always, max_file_store: 50GB }\ninclude access/security.conf\n",
		s.mac.Addr(), filepath.Join(s.dir(s.mac), "store"))
	s.done(os.WriteFile(config, []byte(text), 0o644))
	server := s.start(s.mac, s.programs.tandem.Path("nats-server"), "-c", config)
	if err := server.Says(s.ctx, "Server is ready"); err != nil {
		s.Fatal(err)
	}
	key, err := nats.NkeyOptionFromSeed(s.access.Operator())
	s.done(err)
	nc, err := nats.Connect(s.natsURL(), nats.SetCustomDialer(from{s.ctx, s.mac}), nats.RootCAs(s.access.CA()), key)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(nc.Close)
	if s.js, err = jetstream.New(nc); err != nil {
		s.Fatal(err)
	}
	init := s.start(s.mac, s.programs.tandem.Path("submitter"), "--nkey", s.access.Operator(), "--user", "operator", "admin", "init", "--model", model)
	select {
	case <-init.Exited():
	case <-s.ctx.Done():
		s.Fatal("submitter admin init does not end")
	}
}

// from lets NATS' client connect from a host.
type from struct {
	ctx  context.Context
	host *netns.Host
}

func (f from) Dial(network, addr string) (net.Conn, error) { return f.host.Dial(f.ctx, network, addr) }

const enginePort = 8080 // of 127.0.0.1, which each host has its own of

// engine starts a llama-server on a host and waits until it has loaded the model.
func (s *system) engine(h *netns.Host) *host.Process {
	s.Helper()
	s.done(errors.Join(os.Mkdir(s.slotDir(h), 0o700), os.Chown(s.slotDir(h), userOf[h.Name()], userOf[h.Name()])))
	p := s.start(h, s.programs.llama, "--model", s.programs.model, "--alias", model, "--host", "127.0.0.1", "--port", strconv.Itoa(enginePort),
		"-c", "4096", "-np", "1", "-t", "1", "-fa", "on", "--no-kv-unified", "--no-cache-idle-slots", "--slots", "--jinja", "--slot-save-path", s.slotDir(h))
	s.eventually("llama-server on "+h.Name()+" has loaded the model", func() error { return s.get(h, "/health", nil) })
	return p
}

func (s *system) slotDir(h *netns.Host) string { return filepath.Join(s.dir(h), "slots") }

// get asks the engine of a host.
func (s *system) get(h *netns.Host, path string, answer any) error {
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", enginePort, path), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// generated is how many tokens the engine of a host has generated of the text that it is at, 0 if it is at none.
func (s *system) generated(h *netns.Host) (tokens int) {
	s.Helper()
	var slots []struct {
		Processing bool `json:"is_processing"`
		Next       []struct {
			Decoded int `json:"n_decoded"`
		} `json:"next_token"`
	}
	if err := s.get(h, "/slots", &slots); err != nil {
		s.Fatalf("slots of the engine on %s: %v", h.Name(), err)
	}
	for _, slot := range slots {
		for _, next := range slot.Next {
			if slot.Processing {
				tokens += next.Decoded
			}
		}
	}
	return tokens
}

// worker starts a worker beside the engine of its host.
func (s *system) worker(h *netns.Host, role jobs.Stage, more ...string) {
	s.Helper()
	s.start(h, s.programs.tandem.Path(string(role)+"-worker"), slices.Concat([]string{
		"--model", model, "--engine", "llamacpp", "--engine-url", fmt.Sprintf("http://127.0.0.1:%d", enginePort), "--slot-dir", s.slotDir(h),
		"--num-ctx", "4096", "--threads", "1", "--http", h.Addr() + ":8000", "--machine", h.Name(),
	}, more)...)
}

// presence is what the worker of a host says of itself, nil if it is not present.
func (s *system) presence(h *netns.Host) *queue.Presence {
	s.Helper()
	bucket, err := s.js.KeyValue(s.ctx, queue.BucketWorkers)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil // its first worker makes it
	}
	if err != nil {
		s.Fatal(err)
	}
	keys, err := bucket.ListKeys(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	var found *queue.Presence
	for key := range keys.Keys() {
		entry, err := bucket.Get(s.ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // it has just gone
		}
		var p queue.Presence
		if err == nil {
			err = json.Unmarshal(entry.Value(), &p)
		}
		if err != nil {
			s.Fatal(err)
		}
		if p.Machine == h.Name() {
			found = &p
		}
	}
	return found
}

// gone waits until the presence of the worker of a host has expired, and returns how long that took.
func (s *system) gone(h *netns.Host) time.Duration {
	s.Helper()
	return s.eventually("the presence of "+h.Name()+" expires", func() error {
		if p := s.presence(h); p != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// back waits until it is there again.
func (s *system) back(h *netns.Host) time.Duration {
	s.Helper()
	return s.eventually("the worker on "+h.Name()+" is back", func() error {
		if p := s.presence(h); p == nil || p.State != queue.StateReady {
			return fmt.Errorf("it says %+v", p)
		}
		return nil
	})
}

// eventually asks until there is no error, and returns how long that took.
func (s *system) eventually(what string, check func() error) time.Duration {
	s.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return time.Since(began)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Fatalf("did not happen: %s: %v", what, err)
		}
	}
}

// done fails the test if a fault could not be made or fixed.
func (s *system) done(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
