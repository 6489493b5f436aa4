package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/pipeline"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// What prefill gives decode.
const (
	handoverAuto = "auto" // the KV state where both engines can, otherwise as context
	handoverNone = "none" // nothing but the job
)

// defaultBudget is of the disk space for KV states that wait.
const defaultBudget ByteSize = 32e9

// stateFormat is what formats of KV states are called.
var stateFormat = regexp.MustCompile(`^ggsq\.[0-9]{1,10}$`)

// completeHandover checks the settings of the hand-over and fills in what was not given.
func (f *WorkerFlags) completeHandover() error {
	switch f.Handover {
	case "":
		f.Handover = handoverAuto
	case handoverAuto, handoverNone:
	default:
		return jobs.Errorf(jobs.CodeInvalid, "handover is %q; want auto or none", f.Handover)
	}
	if f.HandoverListen == "" {
		f.HandoverListen = "127.0.0.1:0"
	}
	if _, _, err := net.SplitHostPort(f.HandoverListen); err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "handover-listen is %q; want host:port such as 192.168.1.10:8002", f.HandoverListen)
	}
	if (f.HandoverCert == "") != (f.HandoverKey == "") {
		return jobs.Errorf(jobs.CodeInvalid, "only one of handover-cert and handover-key is set; give both, or neither for plain HTTP")
	}
	for _, s := range f.HandoverUnread {
		if !stateFormat.MatchString(s) {
			return jobs.Errorf(jobs.CodeInvalid, "handover-unread has %.60q; want formats as the worker's log names them, such as ggsq.5", s)
		}
	}
	if f.HandoverBudget == 0 {
		f.HandoverBudget = defaultBudget
	}
	_, err := f.allowed()
	return err
}

// allowed are the addresses from which states may be fetched; none leaves it to the client.
func (f *WorkerFlags) allowed() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, s := range f.HandoverAllow {
		p, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, "handover-allow has %.60q; want networks such as 10.1.0.0/16, or addresses", s)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// statePrefix is what the names of a worker's state files begin with. They lie beside those of other workers: the dot
// ends the model's name, which has none there.
func statePrefix(role jobs.Stage, model string) string {
	token := strings.ReplaceAll(jobs.EncodeToken(model), ":", "=3A") // llama-server takes no colons
	if len(token) > 100 {
		token = fmt.Sprintf("%s=%x", token[:80], sha256.Sum256([]byte(model)))[:100]
	}
	return string(role) + "." + token + "."
}

// stoppedFile is where a decode worker keeps from which machines it takes no states.
func stoppedFile(f WorkerFlags) string { return filepath.Join(f.StateDir, "stopped-handovers.json") }

// sweep removes the states that an earlier run of this worker left. It reports whether it is known where they lie, which
// an engine says only when it can move states: not while it is busy, nor before the digest of a large model is computed.
func (w *Worker) sweep() bool {
	m := w.monitor.Health().Description.KVTransfer
	if m == nil {
		return false
	}
	n, err := handover.Sweep(m.Dir, m.Prefix, w.started)
	if err != nil {
		w.log.Warn("KV states of an earlier run cannot be removed", "err", err)
	}
	if n > 0 {
		w.log.Info("KV states of an earlier run were removed", "files", n)
	}
	return true
}

// keepSweeping sweeps as soon as the engine says where its states lie.
func (w *Worker) keepSweeping(ctx context.Context) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for !w.sweep() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// startHandover starts the worker's part in handing KV states over and sets it in c.
func (w *Worker) startHandover(ctx context.Context, c *pipeline.Config) error {
	c.Bare = w.flags.Handover == handoverNone
	if w.role == protocol.RoleDecode {
		return w.fetchStates(c)
	}
	if w.flags.Handover != handoverAuto {
		return nil
	}
	server, err := handover.Serve(ctx, handover.ServerConfig{
		Listen: w.flags.HandoverListen, URL: w.flags.HandoverURL, CertFile: w.flags.HandoverCert, KeyFile: w.flags.HandoverKey,
		Budget: int64(w.flags.HandoverBudget), Log: w.log,
		Alive: func(ctx context.Context, ids []string) (map[string]bool, error) {
			return w.conn.Relayed(ctx, w.flags.Model, ids)
		},
	})
	if err != nil {
		return err
	}
	w.onClose("serving KV states", func() error {
		if n, bytes := server.Held(); n > 0 {
			w.log.Warn("KV states that wait to be fetched are removed with the worker; the decode machine computes their prompts again", "states", n, "bytes", bytes)
		}
		return server.Close()
	})
	w.states = server
	c.Holder = server
	w.log.Info("KV states are offered", "url", server.URL(), "budget", int64(w.flags.HandoverBudget))
	return nil
}

// fetchStates prepares a decode worker.
func (w *Worker) fetchStates(c *pipeline.Config) error {
	allow, err := w.flags.allowed()
	if err != nil {
		return err
	}
	bases := int64(w.flags.HandoverBudget) / 4 // of it for rows of shared prefixes
	client, err := handover.NewClient(handover.ClientConfig{Allow: allow, CAFile: w.flags.HandoverCA, Server: w.offers, Bases: bases, Log: w.log})
	if err != nil {
		return err
	}
	w.onClose("fetching KV states", func() error { client.Close(); return nil })
	if w.pairs, err = pipeline.OpenPairs(stoppedFile(w.flags), w.log); err != nil {
		return err
	}
	c.Fetcher, c.Pairs, c.Differs, c.Engines, c.Strict = client, w.pairs, w.differs, w.engines, w.flags.HandoverStrict
	c.AheadBudget = int64(w.flags.HandoverBudget) - bases
	return nil
}

// offersLimit is how long the registration of a prefill worker is waited for whose KV state is here to be fetched.
const offersLimit = 200 * time.Millisecond

// offers says whether a prefill worker of the model has registered to offer KV states at an address, and the key of its certificate there. It may be gone since.
func (w *Worker) offers(ctx context.Context, base string) (key string, ok bool) {
	for end := time.Now().Add(offersLimit); ; {
		for _, p := range w.queue.Peers() {
			if u, err := url.Parse(p.StatesURL); err == nil && p.Role == protocol.RolePrefill && u.Host != "" {
				w.offered.Store(p.StatesURL, p.StatesKey)
				w.offered.Store(u.Scheme+"://"+u.Host, p.StatesKey) // as it is when it is dialled
			}
		}
		if key, ok := w.offered.Load(base); ok {
			return key.(string), true
		}
		if time.Now().After(end) {
			return "", false
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return "", false
		}
	}
}

// ready waits until the next state will have room, in a prefill worker: one for each request that runs, and this one; and
// until the engine can work and is checked.
func (w *Worker) ready(ctx context.Context) error {
	if w.states != nil {
		next := w.stage.NextState() * int64(w.slots.Busy()+1)
		if err := w.states.Room(ctx, min(next, int64(w.flags.HandoverBudget))); err != nil {
			return err
		}
	}
	if err := w.monitor.Ready(ctx); err != nil {
		return err
	}
	w.check(ctx) // of an engine that was started again
	return nil
}

// noState is why this worker moves no KV states; empty if it does.
func (w *Worker) noState(d engine.Description) string {
	switch {
	case w.role == protocol.RolePrefill && w.flags.Handover != handoverAuto:
		return "the prefill worker was started with --handover " + w.flags.Handover
	case d.KVTransfer == nil:
		return d.NoKVTransfer
	}
	return ""
}

// held is what waits to be fetched.
func (w *Worker) held() (states int, bytes int64) {
	if w.states == nil {
		return 0, 0
	}
	return w.states.Held()
}
