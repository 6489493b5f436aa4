package attacks

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

// Where a worker's key is for all models, JetStream's subjects do not say more: STREAM.MSG.GET, STREAM.INFO, results.*.*.*.
var reading = []attack{
	{"read another's result: STREAM.MSG.GET", func(a *attacker) func() bool {
		return a.lastOf(queue.StreamResults, a.reply(a.finished()))
	}, want(denied, serves, serves, asks), false},
	{"read another's result: DIRECT.GET, subject in the body", func(a *attacker) func() bool {
		a.api("DIRECT.GET.RESULTS", `{"last_by_subj":"`+a.reply(a.finished())+`"}`)
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"read another's result: DIRECT.GET.RESULTS.<subject>", func(a *attacker) func() bool {
		a.api("DIRECT.GET.RESULTS."+a.reply(a.finished()), "")
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"read another's result: DIRECT.GET.RESULTS.results.> and with * for the user", func(a *attacker) func() bool {
		j := a.finished()
		a.api("DIRECT.GET.RESULTS.results.>", "")
		a.api("DIRECT.GET.RESULTS.results.*.*."+j.ID, "")
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"read another's result: by the graders' result.<user>", func(a *attacker) func() bool {
		j := a.finished()
		a.ask(strings.Replace(a.reply(j), "results.", "result.", 1), nil)
		return a.learnt
	}, want(denied, denied, denied, denied).with(denied, denied), false}, // a name that only graders have
	{"read another's result: by result.* and result.>", func(a *attacker) func() bool {
		j := a.finished()
		for _, subject := range []string{"result.*.*." + j.ID, "result.*." + tok(j.Batch) + "." + j.ID, "result.>", "result.*.>", "result." + mallory + ".>"} {
			a.ask(subject, nil)
		}
		return a.learnt
	}, want(denied, denied, denied, denied).with(denied, denied), false},
	{"read another's result: by one's own result.<user> with wildcards for batch and job", func(a *attacker) func() bool {
		j := a.finished()
		for _, subject := range []string{"*." + j.ID, "*.*", tok(j.Batch) + "." + j.ID} {
			a.ask("result."+mallory+"."+subject, nil)
		}
		return a.learnt
	}, want(noEffect, denied, denied, denied).with(denied, denied), false},
	{"read results: a push consumer", func(a *attacker) func() bool {
		a.finished()
		inbox := a.mailbox()
		a.api("CONSUMER.CREATE.RESULTS", `{"stream_name":"RESULTS","config":{"deliver_subject":"`+inbox+`","ack_policy":"none","deliver_policy":"all"}}`)
		return a.learnt
	}, want(denied, denied, denied, denied), false},
	{"read results: a pull consumer, even on one's own only", func(a *attacker) func() bool {
		return a.consumes(queue.StreamResults, "results."+mallory+".>", "results.>")
	}, want(denied, denied, denied, denied), false},
	{"read results: a stream that copies RESULTS", func(a *attacker) func() bool {
		name := "COPY" + a.mark[len(a.mark)-12:]
		a.api("STREAM.CREATE."+name, `{"name":"`+name+`","sources":[{"name":"RESULTS"}],"storage":"memory","retention":"limits"}`)
		return func() bool { return a.stream(name) != nil }
	}, want(denied, denied, denied, denied), false},
	{"read results: a snapshot", func(a *attacker) func() bool {
		a.finished()
		inbox := a.mailbox()
		a.api("STREAM.SNAPSHOT.RESULTS", `{"deliver_subject":"`+inbox+`","no_consumers":true,"chunk_size":1024}`)
		return func() bool {
			return a.foundOut(func(h heard) bool { return h.subject == inbox && len(h.data) > 0 })
		}
	}, want(denied, denied, denied, denied), false},
	{"hear results: results.> and narrower", func(a *attacker) func() bool {
		a.hear("results.>", "results.*.*.*", "results."+alice+".>", "results.*."+a.secret+".*")
		a.finished()
		return a.learnt
	}, want(denied, serves, serves, asks), false},
	{"hear results: results.<self>.* with wildcards", func(a *attacker) func() bool {
		a.hear("results."+mallory+".*.*", "results."+mallory+".>")
		a.finished()
		return a.learnt
	}, want(noEffect, noEffect, noEffect, noEffect).with(noEffect, noEffect), false},
	{"hear pieces of text: tokens.> and narrower", func(a *attacker) func() bool {
		a.hear("tokens.>", "tokens.*.*.*", "tokens."+alice+".>")
		a.emits()
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"hear what becomes of another's jobs: events.> and narrower", func(a *attacker) func() bool {
		a.hear("events.>", "events.*.*.*", "events."+alice+".*.*", "events.workers.*")
		a.emits()
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"read a waiting prompt: STREAM.MSG.GET", func(a *attacker) func() bool {
		return a.lastOf(queue.StreamIntake, protocol.SubjectOf(a.waiting(), jobs.StagePrefill))
	}, want(denied, serves, serves, asks), false},
	{"read a waiting prompt of a model that the key is not for", func(a *attacker) func() bool {
		return a.lastOf(queue.StreamIntake, protocol.SubjectOf(a.waitingFor(a.foreign()), jobs.StagePrefill))
	}, want(denied, shared, shared, asks), false},
	{"read a waiting prompt: DIRECT.GET", func(a *attacker) func() bool {
		j := a.waiting()
		a.api("DIRECT.GET.INTAKE."+protocol.SubjectOf(j, jobs.StagePrefill), "")
		a.api("DIRECT.GET.INTAKE", `{"last_by_subj":"`+protocol.SubjectOf(j, jobs.StagePrefill)+`"}`)
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"hear prompts: jobs.>", func(a *attacker) func() bool {
		a.hear("jobs.>", "jobs.prefill.*.*.*.*", "jobs.prefill.*.*."+alice+".*")
		a.waiting()
		return a.learnt
	}, want(denied, denied, denied, denied), false},
	{"hear prompts of a model that the key is not for: its inboxes, its subjects", func(a *attacker) func() bool {
		m := a.foreign()
		a.hear("jobs.prefill."+tok(m)+".*.*.*", "_INBOX.tandem-prefill."+tok(m)+".>", "_INBOX.tandem-decode."+tok(m)+".>")
		a.waitingFor(m)
		return a.learnt
	}, want(denied, denied, denied, denied), false},
	{"hear hand-overs and what opens their KV states: jobs.decode.>", func(a *attacker) func() bool {
		a.hear("jobs.decode.>", "jobs.decode.*.*.*", "jobs.fallback.>")
		a.handed()
		return a.learntOf(a.secret[:40])
	}, want(denied, denied, denied, denied), false},
	{"read a hand-over and what opens its KV state: STREAM.MSG.GET", func(a *attacker) func() bool {
		a.lastOf(queue.StreamRelay, hop(a.handed()))
		return a.learntOf(a.secret[:40])
	}, want(denied, serves, shared, asks), false},
	{"hear what is delivered to workers: _INBOX.>", func(a *attacker) func() bool {
		a.hear("_INBOX.>", "_INBOX.*.>", "_INBOX.tandem-decode.>")
		a.handed()
		return a.learntOf(a.secret[:40])
	}, want(denied, denied, denied, denied), false},
	{"hear another's answers: _INBOX.<victim>.>", func(a *attacker) func() bool {
		a.hear("_INBOX."+alice+".>", "_INBOX.*.*", "_INBOX."+alice+".*")
		a.asks()
		return a.learnt
	}, want(denied, denied, denied, denied).with(noEffect, open), false}, // the operator is in another account
	{"hear the operator's answers: _INBOX.operator.>", func(a *attacker) func() bool {
		if a.inbox != "operator" { // who hears its own
			a.hear("_INBOX.operator.>")
		}
		j := a.finished()
		a.get(queue.StreamResults, a.reply(j))
		return a.learntOf(j.ID)
	}, want(denied, denied, denied, denied).with(denied, open), false},
	{"hear everything: > and *", func(a *attacker) func() bool {
		a.hear(">", "*", "*.>", "*.*.*.*")
		a.finished()
		a.emits()
		return a.learnt
	}, want(denied, denied, denied, denied), false},
	{"hear what others ask of workers: control.*.*", func(a *attacker) func() bool {
		a.hear("control.*.*", "control.*."+alice, "control.>")
		a.asks()
		return a.learnt
	}, want(denied, serves, serves, denied), false},
	{"hear what workers are at: ctl.worker.> and of the model", func(a *attacker) func() bool {
		a.hear("ctl.worker.>", "ctl.worker.*."+protocol.KeyToken(model)+".*")
		if err := a.peer.Publish("ctl.worker.decode."+protocol.KeyToken(model)+"."+jobs.NewID(), []byte(a.secret)); err != nil {
			a.t.Fatal(err)
		}
		return a.learnt
	}, want(denied, own, denied, denied), false},
	{"read who the workers are, and their addresses: the bucket", func(a *attacker) func() bool {
		a.api("DIRECT.GET.KV_workers", `{"seq":1,"next_by_subj":"$KV.workers.>"}`)
		return a.learntOf(`"machine"`)
	}, want(denied, serves, serves, asks), false},
	{"read what doctor measured of hand-overs: the bucket", func(a *attacker) func() bool {
		a.api("DIRECT.GET.KV_handover_trials", `{"seq":1,"next_by_subj":"$KV.handover_trials.>"}`)
		return a.learntOf(`"lengths"`)
	}, want(denied, denied, denied, asks), false},
	{"read the names of streams", func(a *attacker) func() bool {
		a.api("STREAM.NAMES", "")
		a.api("STREAM.LIST", "")
		return a.learntOf(`INTAKE`)
	}, want(denied, denied, denied, denied), false},
	{"read who has which batch: subjects of RESULTS", func(a *attacker) func() bool {
		a.finished()
		a.api("STREAM.INFO.RESULTS", `{"subjects_filter":">"}`)
		return a.learnt
	}, want(denied, serves, serves, asks), false},
	{"read the server's state: $SYS", func(a *attacker) func() bool {
		for _, what := range []string{"SERVER.PING", "SERVER.PING.CONNZ", "SERVER." + a.nc.ConnectedServerId() + ".VARZ", "ACCOUNT.PIPELINE.CONNZ"} {
			a.ask("$SYS.REQ."+what, nil)
		}
		a.hear("$SYS.>", "$SYS.ACCOUNT.*.CONNECT")
		return a.learntOf("server_id")
	}, want(denied, denied, denied, denied), false}, // the operator sees its own account's connections
	{"read which services there are: $SRV", func(a *attacker) func() bool {
		for _, what := range []string{"PING", "INFO.tandem-control", "STATS"} {
			a.ask("$SRV."+what, nil)
		}
		return a.learntOf("tandem-control")
	}, want(denied, denied, denied, denied), false},
	{"read another's dead letter: STREAM.MSG.GET", func(a *attacker) func() bool {
		return a.lastOf(queue.StreamDLQ, a.letter(a.failed()))
	}, want(denied, serves, serves, asks), false},
	{"hear dead letters: dlq.>", func(a *attacker) func() bool {
		a.hear("dlq.>", "dlq.*.*.*.*")
		a.failed()
		return a.learnt
	}, want(denied, denied, denied, denied), false},
	{"control: another's letters", func(a *attacker) func() bool {
		a.failed()
		a.controls("letters", alice, ids())
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"control: another's letter", func(a *attacker) func() bool {
		a.controls("letter", alice, ids(a.failed()))
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"control: find another's job", func(a *attacker) func() bool {
		a.controls("find", alice, ids(a.waiting()))
		return a.learnt
	}, want(denied, denied, denied, asks), false},
	{"control: the jobs of another's batch", func(a *attacker) func() bool {
		j := a.waiting()
		a.controls("jobs", alice, ofBatch(j))
		return a.learntOf(j.ID)
	}, want(denied, denied, denied, asks), false},
	{"control: inspect and room as another", func(a *attacker) func() bool {
		a.controls("inspect", alice, ids())
		a.controls("room", alice, ids())
		return a.learntOf(`"streams"`)
	}, want(denied, denied, denied, asks), false},
	{"control: read another's jobs and letters in one's own name", func(a *attacker) func() bool {
		j, l := a.waiting(), a.failed()
		a.controls("find", mallory, ids(j))
		a.controls("jobs", mallory, ofBatch(j))
		a.controls("letter", mallory, ids(l))
		a.controls("letters", mallory, map[string]any{"user": alice, "letters": map[string]string{"user": alice}})
		return a.learnt
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"control: * and > in the place of the user, the verb, the job, the batch", func(a *attacker) func() bool {
		j := a.waiting()
		a.failed()
		for _, subject := range []string{"find.*", "find.>", "*." + alice, "*.*", ">", "letters.*"} {
			a.ask("control."+subject, encode(ids(j)))
		}
		for _, id := range []string{"*", ">", "*." + j.ID, alice + "." + j.ID} {
			a.controls("find", mallory, map[string][]string{"jobs": {id}})
			a.controls("letter", mallory, map[string][]string{"jobs": {id}})
			a.controls("jobs", mallory, map[string]string{"batch": id})
		}
		return a.learnt
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"control: read as the operator: operator.find, letters, letter, jobs, inspect", func(a *attacker) func() bool {
		j, l := a.waiting(), a.failed()
		a.operates("find", ids(j))
		a.operates("letters", ids())
		a.operates("letter", ids(l))
		a.operates("jobs", ofBatch(j))
		a.operates("inspect", ids())
		return a.learnt
	}, want(denied, denied, denied, denied), false},
	{"have a waiting job delivered: MSG.NEXT on the workers' consumer", func(a *attacker) func() bool {
		j := a.waiting()
		inbox := a.mailbox()
		a.publishTo("$JS.API.CONSUMER.MSG.NEXT.INTAKE."+protocol.ConsumerName(protocol.RolePrefill, model, protocol.TokenOf(j)), inbox, []byte(`{"batch":1000,"no_wait":true}`))
		return a.learnt
	}, want(denied, own, denied, denied), false},
	{"have jobs delivered by a consumer of one's own", func(a *attacker) func() bool {
		j := newJob(alice, "fresh:1b", func(j *jobs.Job) { j.Prompt = a.secret })
		if _, err := a.js.Publish(a.t.Context(), protocol.SubjectOf(j, jobs.StagePrefill), encode(j)); err != nil {
			a.t.Fatal(err)
		}
		return a.consumes(queue.StreamIntake, "jobs.prefill.fresh:1b.>")
	}, want(denied, denied, denied, denied), false},
	{"have the kept cancels delivered: MSG.NEXT on CONTROL", func(a *attacker) func() bool {
		inbox := a.mailbox()
		for range 40 { // before it is there: workers wait for it as well
			a.publishTo("$JS.API.CONSUMER.MSG.NEXT.CONTROL.kept", inbox, []byte(`{"batch":1,"expires":2000000000}`))
		}
		for n := range 4 {
			if _, err := a.js.Publish(a.t.Context(), fmt.Sprintf("kept.%s.batch.%s%d", alice, a.secret, n), nil); err != nil {
				a.t.Fatal(err)
			}
		}
		return a.learnt
	}, want(denied, serves, serves, denied), false},
}

func tok(name string) string { return jobs.EncodeToken(name) }

// ids is a request about jobs.
func ids(list ...*jobs.Job) map[string][]string {
	r := map[string][]string{"jobs": {}}
	for _, j := range list {
		r["jobs"] = append(r["jobs"], j.ID)
	}
	return r
}

func ofBatch(j *jobs.Job) map[string]string { return map[string]string{"batch": j.Batch} }

// consumes makes a pull consumer for each filter and takes what it has.
func (a *attacker) consumes(stream string, filters ...string) func() bool {
	for n, filter := range filters {
		name := fmt.Sprintf("mine%d", n)
		a.api("CONSUMER.CREATE."+stream+"."+name+"."+filter, fmt.Sprintf(
			`{"stream_name":%q,"action":"create","config":{"name":%q,"filter_subject":%q,"ack_policy":"explicit","deliver_policy":"all","inactive_threshold":2000000000}}`, stream, name, filter))
		a.api("CONSUMER.MSG.NEXT."+stream+"."+name, `{"batch":1,"no_wait":true}`)
		defer func() { _ = a.js.DeleteConsumer(a.t.Context(), stream, name) }()
	}
	return func() bool {
		return a.foundOut(func(h heard) bool { return strings.Contains(string(h.data), `"v":1`) })
	}
}

// answers is a service that the attacker runs.
func (a *attacker) answers(subject string, answer []byte) {
	a.did(func() error {
		_, err := a.nc.Subscribe(subject, func(msg *nats.Msg) { _ = msg.Respond(answer) })
		return err
	})
}

// soon is a moment that has passed when a job with it as deadline is in the intake.
func soon() time.Time { return time.Now().Add(-time.Minute) }
