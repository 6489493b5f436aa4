package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"tandem/internal/access"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// answerLimit is for an answer to a request that the server did not refuse.
const answerLimit = 3 * time.Second

// identity is somebody who attacks.
type identity struct {
	column string
	role   jobs.Stage // of a worker
	model  string     // likewise
	key    func(*site) string
	inbox  string
}

const (
	byNobody = iota
	byGrader
	byPrefill
	byDecode
	byGateway
	byOperator
	byAnybody // without keys, all are the same
	columns
)

var identities = [columns]identity{
	byNobody:   {column: "no key", inbox: mallory},
	byGrader:   {"another grader", "", "", func(s *site) string { return s.credential(mallory) }, mallory},
	byPrefill:  worker("prefill worker of the model", protocol.RolePrefill, model),
	byDecode:   worker("decode worker of another model", protocol.RoleDecode, other),
	byGateway:  {"gateway", "", "", func(s *site) string { return s.folder.Gateway() }, access.GatewayInbox},
	byOperator: {"operator", "", "", func(s *site) string { return s.folder.Operator() }, "operator"},
	byAnybody:  {column: "anybody, without keys", inbox: mallory},
}

func worker(column string, role jobs.Stage, model string) identity {
	return identity{column, role, model, func(s *site) string { return s.folder.Worker(role, model) }, access.WorkerInbox(role, model)}
}

// attacker makes one attack, over a connection of its own.
type attacker struct {
	identity
	*victim
	nc   *nats.Conn
	mark string // in all that it makes

	through int // requests and subscriptions that the server did not refuse

	mu    sync.Mutex
	heard []heard
}

type heard struct {
	subject string
	data    []byte
}

// attacker connects; it is nil if the server refuses that.
func (v *victim) attacker(who identity) (*attacker, error) {
	a := &attacker{identity: who, victim: v, mark: "forged-" + jobs.NewID()}
	if a.role == "" {
		a.model = model
	}
	var err error
	if who.key != nil {
		a.nc, err = v.connect(who.key(v.site), who.inbox)
		return a, err
	}
	if a.nc, err = v.connect("", who.inbox); err == nil || !errors.Is(err, nats.ErrAuthorization) || v.stranger {
		return a, err
	}
	v.stranger = true
	pair, err := nkeys.CreateUser() // a key that nobody gave
	if err != nil {
		return a, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return a, err
	}
	a.nc, err = v.connect("", who.inbox, nats.Nkey(public, pair.Sign))
	return a, err
}

// did does something that the server may refuse, and reports whether it did not.
func (a *attacker) did(do func() error) bool {
	before := a.nc.LastError()
	if err := do(); err != nil {
		return false // refused by the client already
	}
	if err := a.nc.FlushTimeout(enough); err != nil {
		return false // the server has ended the connection
	}
	if now := a.nc.LastError(); now != before && errors.Is(now, nats.ErrPermissionViolation) {
		return false
	}
	a.through++
	return true
}

func header(pairs []string) nats.Header {
	h := nats.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// publish publishes, with headers as pairs of name and value.
func (a *attacker) publish(subject string, data []byte, headers ...string) bool {
	return a.publishTo(subject, "", data, headers...)
}

// publishTo is publish with a subject for the answer.
func (a *attacker) publishTo(subject, reply string, data []byte, headers ...string) bool {
	return a.did(func() error {
		return a.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data, Header: header(headers)})
	})
}

// ask requests an answer; nil if it is refused or nobody answers.
func (a *attacker) ask(subject string, data []byte, headers ...string) *nats.Msg {
	inbox := a.nc.NewInbox()
	sub, err := a.nc.SubscribeSync(inbox)
	if err != nil {
		return nil
	}
	defer func() { _ = sub.Unsubscribe() }()
	if !a.publishTo(subject, inbox, data, headers...) {
		return nil
	}
	msg, err := sub.NextMsg(answerLimit)
	if errors.Is(err, nats.ErrNoResponders) { // nobody is there for it
		a.through--
	}
	if err != nil {
		return nil
	}
	a.remember(msg)
	return msg
}

// stores publishes to a stream, as a request, so that it is stored when it is answered.
func (a *attacker) stores(subject string, data []byte, headers ...string) {
	if a.role != "" || a.ask(subject, data, headers...) == nil {
		a.publish(subject, data, headers...) // of those whose answers go elsewhere
	}
}

// put writes a key of a bucket.
func (a *attacker) put(key string, data []byte, headers ...string) { a.stores(key, data, headers...) }

// api asks JetStream; nil if nobody answers.
func (a *attacker) api(call, body string) *nats.Msg { return a.ask("$JS.API."+call, []byte(body)) }

// hear listens; what comes is remembered.
func (a *attacker) hear(subjects ...string) {
	for _, subject := range subjects {
		a.did(func() error {
			_, err := a.nc.Subscribe(subject, a.remember)
			return err
		})
	}
}

// mailbox listens at an inbox of one's own, which is no attack.
func (a *attacker) mailbox() string {
	inbox := a.nc.NewInbox()
	if _, err := a.nc.Subscribe(inbox, a.remember); err != nil {
		a.t.Fatal(err)
	}
	return inbox
}

func (a *attacker) remember(msg *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = append(a.heard, heard{msg.Subject, bytes.Clone(msg.Data)})
}

// foundOut reports whether something was heard that satisfies ok.
func (a *attacker) foundOut(ok func(heard) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.heard, ok)
}

// learnt reports whether the attacker has got the victim's secret.
func (a *attacker) learnt() bool { return a.learntOf(a.secret)() }

// learntOf looks for a text, in a message of a stream, too.
func (a *attacker) learntOf(text string) func() bool {
	return func() bool {
		return a.foundOut(func(h heard) bool {
			if strings.Contains(h.subject, text) || bytes.Contains(h.data, []byte(text)) {
				return true
			}
			var answer struct{ Message struct{ Data []byte } }
			return json.Unmarshal(h.data, &answer) == nil && bytes.Contains(answer.Message.Data, []byte(text))
		})
	}
}

// lastOf reads the last message of a subject.
func (a *attacker) lastOf(stream, subject string) func() bool {
	a.api("STREAM.MSG.GET."+stream, `{"last_by_subj":"`+subject+`"}`)
	return a.learnt
}

// lures has the server, or a worker, answer requests that the attacker may make at a subject that it chose. What can be chosen of the
// answer is the text.
func (a *attacker) lures(subject, text string) {
	switch {
	case a.key != nil && a.role == "" && a.inbox == mallory:
		j := newJob(mallory, model)
		for request, body := range map[string]string{
			"result." + mallory + "." + batch + "." + jobs.NewID():                    "",
			protocol.SubjectOf(j, jobs.StagePrefill):                                  string(encode(j)),
			"model." + protocol.ConsumerName(protocol.RolePrefill, model, jobs.Batch): "",
			"control.find." + mallory:                                                 `{"jobs":["` + text + `"]}`,
			"control.inspect." + mallory:                                              "{}",
			"kept." + mallory + ".job." + jobs.NewID():                                "",
		} {
			a.publishTo(request, subject, []byte(body))
		}
	default:
		role := a.role
		if role == "" {
			role = protocol.RolePrefill
		}
		bait := "$KV.workers." + string(role) + "." + protocol.KeyToken(a.model) + "." + jobs.NewID()
		a.put(bait, []byte(text))
		poll(answerLimit, func() bool { return a.has("KV_workers", bait) })
		a.publishTo("$JS.API.DIRECT.GET.KV_workers."+bait, subject, nil)
		a.publishTo("$JS.API.STREAM.INFO.RESULTS", subject, nil)
	}
}

// foreign is a model that the attacker's key is not for, and its own.
func (a *attacker) foreign() string {
	if a.role != "" && a.model == other {
		return model
	}
	return other
}

// controls asks the workers.
func (a *attacker) controls(verb, user string, request any) {
	a.ask("control."+verb+"."+user, encode(request))
}

func (a *attacker) operates(verb string, request any) { a.ask("operator."+verb, encode(request)) }
