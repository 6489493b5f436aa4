package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Pulling is done on the bare protocol: nats.go's Fetch cannot wait at several consumers at once,
// and what arrives after its context ended is lost until AckWait is over, at the job's expense.

const (
	pullExpires   = 30 * time.Second // the server forgets a waiting pull then
	pullHeartbeat = 2 * time.Second  // it says so often that it has not; a leader that dies says nothing more
	probeLimit    = 5 * time.Second  // for an answer to "anything there now?"
	flushLimit    = 2 * time.Second  // for the server to confirm that a pull is withdrawn
)

// source is a durable consumer to pull from.
type source struct{ stream, consumer string }

// sourceOf is the source of a role, model and class token.
func sourceOf(role jobs.Stage, model string, token jobs.Class) source {
	stream := StreamRelay
	if role == protocol.RolePrefill {
		stream = StreamIntake
	}
	return source{stream, protocol.ConsumerName(role, model, token)}
}

func (s source) String() string { return s.stream + "/" + s.consumer }

// arrival is a delivered message.
type arrival struct {
	msg   *nats.Msg
	from  source
	asked time.Time // when this worker began to ask for it
	at    time.Time // when it came
	why   string    // a decode worker took it from the intake, for the decision of its result
}

// goneError says that the server does not know the consumer.
type goneError struct{ source source }

func (e *goneError) Error() string { return fmt.Sprintf("pull from %s: no such consumer", e.source) }

// errWoken ends a wait because the reason for it may have changed.
var errWoken = errors.New("woken")

// puller asks consumers for one message at a time. It belongs to one goroutine. What the server
// delivers is never dropped: everything that arrives, however late, comes out of next or withdraw.
type puller struct {
	nc      *nats.Conn
	inbox   string             // probes are answered at inbox.<number>
	probes  *nats.Subscription // of all of them
	probed  int                // number of the last one
	probing *pull              // the one that was not answered yet
	waiting map[source]*pull   // those that wait at the server if they are open
	msgs    chan *nats.Msg     // whatever the server sends to any of them
	ready   []arrival          // arrived, not yet handed out
	status  chan nats.Status
}

// pull is one request for one message.
type pull struct {
	from  source
	reply string             // where the answer goes
	sub   *nats.Subscription // its own, so that the server can be told that nobody listens any more; nil for a probe
	open  bool               // asked, and not answered yet
	asked time.Time
	heard time.Time
}

// isOpen reports whether w, which may be nil, waits for an answer.
func (w *pull) isOpen() bool { return w != nil && w.open }

func newPuller(nc *nats.Conn) (*puller, error) {
	p := &puller{
		nc: nc, inbox: nc.NewInbox(), waiting: map[source]*pull{},
		msgs: make(chan *nats.Msg, 256), status: nc.StatusChanged(nats.CONNECTED, nats.CLOSED),
	}
	var err error
	if p.probes, err = nc.ChanSubscribe(p.inbox+".*", p.msgs); err != nil {
		nc.RemoveStatusListener(p.status)
		return nil, fmt.Errorf("subscribe to answers of pulls: %w", err)
	}
	return p, nil
}

// close ends the puller and returns what had arrived.
func (p *puller) close() []arrival {
	late := p.withdraw(nil)
	for _, w := range p.waiting {
		_ = w.sub.Unsubscribe()
	}
	_ = p.probes.Unsubscribe()
	p.nc.RemoveStatusListener(p.status)
	return late
}

// next returns the next message, of the first source that has one, and waits at all of them while
// none has. Pulls at sources that did not deliver keep waiting at the server. So many sources at the end are thought to have nothing,
// and are not asked before the others were. It ends with errWoken when wake or moved is closed and with a *goneError when a consumer is missing.
func (p *puller) next(ctx context.Context, sources []source, quiet int, wake, moved <-chan struct{}) (arrival, error) {
	p.collect()
	if !slices.ContainsFunc(sources[len(sources)-quiet:], func(s source) bool { return !p.waiting[s].isOpen() }) {
		quiet = 0 // pulls wait there already
	}
	idle := slices.DeleteFunc(slices.Clone(sources[:len(sources)-quiet]), func(s source) bool { return p.waiting[s].isOpen() })
	for i, s := range idle {
		if len(p.ready) > 0 || quiet == 0 && i == len(idle)-1 {
			break // what waits at the others is empty, so the last one may as well wait, too
		}
		if err := p.probe(s); err != nil {
			return arrival{}, err
		}
	}
	tick := time.NewTicker(pullHeartbeat)
	defer tick.Stop()
	for {
		if len(p.ready) > 0 {
			a := p.ready[0]
			p.ready = p.ready[1:]
			return a, nil
		}
		for _, s := range sources {
			if !p.waiting[s].isOpen() {
				if err := p.wait(s); err != nil {
					return arrival{}, err
				}
			}
		}
		select {
		case m := <-p.msgs:
			if err := p.take(m); err != nil {
				return arrival{}, err
			}
		case now := <-tick.C:
			p.dropSilent(now)
		case status, ok := <-p.status:
			if err := p.connection(status, ok); err != nil {
				return arrival{}, err
			}
		case <-wake:
			return arrival{}, errWoken
		case <-moved:
			return arrival{}, errWoken
		case <-ctx.Done():
			return arrival{}, context.Cause(ctx)
		}
	}
}

// now returns the next message of a source if there is one, with whatever else has arrived, and does not wait.
func (p *puller) now(s source) ([]arrival, error) {
	p.collect()
	var err error
	if len(p.ready) == 0 {
		err = p.probe(s)
	}
	come := p.ready
	p.ready = nil
	return come, err
}

// look asks those of the sources at which no pull waits for a message that is there now, and returns what has come meanwhile.
func (p *puller) look(sources []source) []arrival {
	for _, s := range sources {
		if len(p.ready) == 0 && !p.waiting[s].isOpen() {
			_ = p.probe(s) // what is wrong with it, the next pull will notice again
		}
	}
	p.collect()
	come := p.ready
	p.ready = nil
	return come
}

// withdraw takes back the pulls that wait at sources not to be kept, and returns when the server has
// confirmed that nothing more will come of them, with everything that had arrived.
func (p *puller) withdraw(keep []source) []arrival {
	flush, connected := false, p.nc.IsConnected()
	for s, w := range p.waiting {
		if w.open && !slices.Contains(keep, s) {
			if connected {
				_ = w.sub.Drain() // fails only on a closed connection
			} else {
				_ = w.sub.Unsubscribe() // a drain would wait for the server
			}
			delete(p.waiting, s)
			flush = true
		}
	}
	if flush && connected {
		ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
		defer cancel()
		_ = p.nc.FlushWithContext(ctx) // without an answer there is no connection over which anything could come
	}
	p.collect()
	late := p.ready
	p.ready = nil
	return late
}

// arrived takes in one more message of the server, and returns the jobs that have come.
func (p *puller) arrived(m *nats.Msg) []arrival {
	_ = p.take(m) // a missing consumer will be noticed again by the next pull
	come := p.ready
	p.ready = nil
	return come
}

// collect takes in what has arrived so far.
func (p *puller) collect() {
	for {
		select {
		case m := <-p.msgs:
			_ = p.take(m) // a missing consumer will be noticed again by the next pull
		default:
			return
		}
	}
}

// probe asks a source for a message that is there now, and waits for the answer.
func (p *puller) probe(s source) error {
	if !p.nc.IsConnected() {
		return nil // next waits at the source until the connection is back
	}
	p.probed++
	p.probing = &pull{from: s, reply: p.inbox + "." + strconv.Itoa(p.probed)}
	defer func() { p.probing = nil }()
	if err := p.ask(p.probing, `{"batch":1,"no_wait":true}`); err != nil {
		return err
	}
	limit := time.NewTimer(probeLimit)
	defer limit.Stop()
	for p.probing != nil {
		select {
		case m := <-p.msgs:
			if err := p.take(m); err != nil {
				return err
			}
		case status, ok := <-p.status:
			if err := p.connection(status, ok); err != nil {
				return err
			}
		case <-limit.C:
			return nil // a late answer is taken all the same
		}
	}
	return nil
}

// wait leaves a request for one message at the server.
func (p *puller) wait(s source) error {
	w := p.waiting[s]
	if w == nil {
		sub, err := p.nc.ChanSubscribe(p.nc.NewInbox(), p.msgs)
		if err != nil {
			return fmt.Errorf("subscribe to pulls from %s: %w", s, err)
		}
		w = &pull{from: s, reply: sub.Subject, sub: sub}
		p.waiting[s] = w
	}
	return p.ask(w, fmt.Sprintf(`{"batch":1,"expires":%d,"idle_heartbeat":%d}`, pullExpires, pullHeartbeat))
}

func (p *puller) ask(w *pull, request string) error {
	now := time.Now()
	w.open, w.asked, w.heard = true, now, now
	if err := p.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+w.from.stream+"."+w.from.consumer, w.reply, []byte(request)); err != nil {
		return fmt.Errorf("pull from %s: %w", w.from, err)
	}
	return nil
}

// connection takes a change of the connection's status. After a new connect the server that knew
// our pulls may be gone, and them with it.
func (p *puller) connection(status nats.Status, ok bool) error {
	if !ok || status == nats.CLOSED {
		return nats.ErrConnectionClosed
	}
	p.probing = nil
	p.ready = p.withdraw(nil)
	return nil
}

// take sorts what the server sent: a message goes to ready, and it or a final status ends its pull.
func (p *puller) take(m *nats.Msg) error {
	now := time.Now()
	// Only the subject for its acknowledgement tells a job from a status: headers are the submitter's.
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		a := arrival{msg: m, asked: now, at: now}
		if meta, err := m.Metadata(); err == nil {
			a.from = source{meta.Stream, meta.Consumer}
		}
		if w := p.answered(m, a.from); w != nil {
			a.asked = w.asked
			p.done(w)
		}
		p.ready = append(p.ready, a)
		return nil
	}
	w := p.answered(m, source{})
	if w == nil {
		return nil // of a pull that was given up
	}
	w.heard = now
	status, text := m.Header.Get("Status"), m.Header.Get("Description")
	if status == "100" { // a heartbeat
		return nil
	}
	p.done(w)
	switch {
	case status == "404", status == "408": // nothing is there; the pull expired
		return nil
	case status == "503", strings.EqualFold(text, "consumer deleted"):
		return &goneError{w.from}
	}
	return fmt.Errorf("pull from %s: the server says %s %s", w.from, status, text)
}

// answered finds the pull that a message answers. A job comes with its own subject, a status with that
// of the answer.
func (p *puller) answered(m *nats.Msg, from source) *pull {
	if m.Sub == p.probes {
		if w := p.probing; w != nil && (w.from == from || w.reply == m.Subject) {
			return w
		}
		return nil
	}
	for _, w := range p.waiting {
		if w.sub == m.Sub {
			return w
		}
	}
	return nil
}

// done notes that the server has answered a pull.
func (p *puller) done(w *pull) {
	w.open = false
	if w == p.probing {
		p.probing = nil
	}
}

// dropSilent gives up pulls of which the server has not been heard for two heartbeats.
func (p *puller) dropSilent(now time.Time) {
	var heard []source
	for s, w := range p.waiting {
		if !w.open || now.Sub(w.heard) < 2*pullHeartbeat+time.Second {
			heard = append(heard, s)
		}
	}
	if len(heard) < len(p.waiting) {
		p.ready = p.withdraw(heard)
	}
}
