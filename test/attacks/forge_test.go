package attacks

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

var forging = []attack{
	{"submit a job in another's name", func(a *attacker) func() bool {
		j := newJob(alice, model, a.marked)
		a.stores(protocol.SubjectOf(j, jobs.StagePrefill), encode(j))
		return func() bool { return a.has(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)) }
	}, want(denied, denied, denied, asks), false},
	{"submit with * or > for the user", func(a *attacker) func() bool {
		j := newJob(alice, model, a.marked)
		before := a.stream(queue.StreamIntake).State.LastSeq
		for _, user := range []string{"*", ">", "*." + alice, alice + "." + mallory} {
			a.stores("jobs.prefill."+jobs.EncodeToken(model)+"."+string(protocol.TokenOf(j))+"."+user+"."+j.ID, encode(j))
		}
		return func() bool { return a.stream(queue.StreamIntake).State.LastSeq > before }
	}, want(denied, denied, denied, asks), false},
	{"submit under one's own name a job that names another", func(a *attacker) func() bool {
		a.free()
		j := newJob(alice, model, a.marked)
		a.stores(protocol.JobSubject(jobs.StagePrefill, model, jobs.Batch, mallory, j.ID), encode(j))
		return func() bool { return a.prefill.of(j.ID) != nil || a.has(queue.StreamResults, a.reply(j)) }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"submit with another's job id, and cancel that", func(a *attacker) func() bool {
		j := a.waiting()
		mine := newJob(mallory, model, func(m *jobs.Job) { m.ID = j.ID })
		a.stores(protocol.SubjectOf(mine, jobs.StagePrefill), encode(mine))
		a.controls("cancel", mallory, ids(j))
		return func() bool { return !a.waits(j) }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"submit with the Nats-Msg-Id that another's job will have", func(a *attacker) func() bool {
		j := newJob(alice, model, a.marked)
		mine := newJob(mallory, model, a.marked)
		a.stores(protocol.SubjectOf(mine, jobs.StagePrefill), encode(mine), "Nats-Msg-Id", alice+"."+j.ID+".prefill")
		a.submit(a.alice, j)
		return func() bool { return !a.has(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)) }
	}, want(knows, denied, denied, knows).with(knows, knows), false},
	{"submit with Nats-Rollup: all", func(a *attacker) func() bool {
		j, mine := a.waiting(), newJob(mallory, model, a.marked)
		a.stores(protocol.SubjectOf(mine, jobs.StagePrefill), encode(mine), "Nats-Rollup", "all")
		return func() bool { return !a.waits(j) }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false}, // INTAKE takes no roll-ups, from nobody
	{"submit with Nats-Expected-… of another's message and stream", func(a *attacker) func() bool {
		j, mine := a.waiting(), newJob(mallory, model, a.marked)
		at := fmt.Sprint(a.get(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)).Sequence)
		a.stores(protocol.SubjectOf(mine, jobs.StagePrefill), encode(mine), "Nats-Expected-Stream", queue.StreamResults)
		a.stores(protocol.SubjectOf(mine, jobs.StagePrefill), encode(mine), "Nats-Expected-Last-Subject-Sequence", at, "Nats-Expected-Last-Subject-Sequence-Subject", protocol.SubjectOf(j, jobs.StagePrefill))
		a.stores(protocol.SubjectOf(mine, jobs.StagePrefill), encode(mine), "Nats-Expected-Last-Sequence", "1")
		return func() bool { return !a.waits(j) }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"submit for a model that there is not", func(a *attacker) func() bool {
		return a.submits("nonsense:1b", string(jobs.Batch))
	}, want(noEffect, denied, denied, denied), false},
	{"submit for a class that there is not", func(a *attacker) func() bool {
		return a.submits(model, "nonsense")
	}, want(noEffect, denied, denied, denied), false},
	{"submit into another's lane", func(a *attacker) func() bool {
		a.free()
		j := newJob(mallory, model, a.marked)
		lane := protocol.Lane((protocol.LaneOf(mallory) + 1) % protocol.Lanes)
		if lane == jobs.Batch { // which is for all
			lane = protocol.Lane(1 + protocol.LaneOf(mallory)%(protocol.Lanes-1))
		}
		a.stores(protocol.JobSubject(jobs.StagePrefill, model, lane, mallory, j.ID), encode(j))
		return func() bool { return a.prefill.of(j.ID) != nil }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"submit more than a message may hold", func(a *attacker) func() bool {
		j := newJob(mallory, model)
		a.stores(protocol.SubjectOf(j, jobs.StagePrefill), make([]byte, 8<<20+1))
		return func() bool { return a.has(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)) }
	}, want(denied, denied, denied, denied).with(denied, denied), false},
	{"have a worker write into another's inbox: Tandem-Reply-To", func(a *attacker) func() bool {
		a.free()
		hears := a.listens("_INBOX." + alice + ".known")
		j := newJob(mallory, model, a.marked)
		a.stores(protocol.SubjectOf(j, jobs.StagePrefill), encode(j), protocol.HeaderReplyTo, "_INBOX."+alice+".known")
		return func() bool { return hears.hears(j.ID) }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, open), false}, // only in one account is a copy delivered
	{"a result of another's waiting job", func(a *attacker) func() bool {
		j := a.waiting()
		a.stores(a.reply(j), a.result(j, jobs.Succeeded))
		return func() bool { return a.holds(queue.StreamResults, a.reply(j), a.mark) }
	}, want(denied, shared, shared, denied), false},
	{"a cancelled result for another's waiting job", func(a *attacker) func() bool {
		j := a.waiting()
		a.stores(a.reply(j), a.result(j, jobs.Cancelled))
		return func() bool { return a.holds(queue.StreamResults, a.reply(j), a.mark) }
	}, want(denied, shared, shared, denied), false},
	{"a result in the place of one that is there", func(a *attacker) func() bool {
		j := a.finished()
		a.stores(a.reply(j), a.result(j, jobs.Succeeded))
		return func() bool { return a.holds(queue.StreamResults, a.reply(j), a.mark) }
	}, want(denied, noEffect, noEffect, denied).with(noEffect, noEffect), false}, // the first is kept
	{"pieces of another's text", func(a *attacker) func() bool {
		subject := protocol.TokensSubject(alice, batch, jobs.NewID())
		hears := a.listens(subject)
		a.publish(subject, []byte(a.mark))
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, shared, shared, denied), false},
	{"a message into another's inbox", func(a *attacker) func() bool {
		hears := a.listens("_INBOX." + alice + ".known")
		a.publish("_INBOX."+alice+".known", []byte(a.mark))
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, denied, denied, denied).with(noEffect, open), false}, // the operator's account is another one
	{"a message into a worker's inbox", func(a *attacker) func() bool {
		hears := a.listensAt(a.peer, "_INBOX.tandem-decode."+tok(model)+".known")
		a.publish("_INBOX.tandem-decode."+tok(model)+".known", []byte(a.mark))
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, denied, denied, denied), false},
	{"an answer at another's results.<victim>, by the reply of a request", func(a *attacker) func() bool {
		subject := protocol.ResultSubject(alice, batch, jobs.NewID())
		hears := a.listens(subject)
		a.lures(subject, a.mark)
		return func() bool { return hears.hears("") || a.has(queue.StreamResults, subject) }
	}, want(unkept, reply, reply, reply), false},
	{"an answer stored at another's results.<victim>, by the reply of a request", func(a *attacker) func() bool {
		subject := protocol.ResultSubject(alice, batch, jobs.NewID())
		a.lures(subject, a.mark)
		return func() bool { return a.has(queue.StreamResults, subject) }
	}, want(noEffect, reply, reply, reply), false},
	{"what becomes of another's job: events.<victim>", func(a *attacker) func() bool {
		subject := protocol.EventsSubject(alice, batch, jobs.NewID())
		hears := a.listens(subject)
		a.publish(subject, []byte(a.mark))
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, shared, shared, shared), false},
	{"an answer at another's tokens.<victim>, by the reply of a request", func(a *attacker) func() bool {
		subject := protocol.TokensSubject(alice, batch, jobs.NewID())
		hears := a.listens(subject)
		a.lures(subject, a.mark)
		return func() bool { return hears.hears("") }
	}, want(unkept, reply, reply, reply), false},
	{"an answer into another's inbox, by the reply of a request", func(a *attacker) func() bool {
		hears := a.listens("_INBOX." + alice + ".known")
		a.lures("_INBOX."+alice+".known", a.mark)
		return func() bool { return hears.hears("") }
	}, want(unkept, noEffect, noEffect, noEffect).with(noEffect, open), false}, // a name in it is random
	{"an answer into a worker's inbox, by the reply of a request", func(a *attacker) func() bool {
		hears := a.listensAt(a.peer, "_INBOX.tandem-decode."+tok(model)+".known")
		a.lures("_INBOX.tandem-decode."+tok(model)+".known", a.mark)
		return func() bool { return hears.hears("") }
	}, want(noEffect, knows, knows, knows), false},
	{"an answer into the intake in another's name, by the reply of a request", func(a *attacker) func() bool {
		j := newJob(alice, model)
		a.lures(protocol.SubjectOf(j, jobs.StagePrefill), string(encode(j)))
		return func() bool { return a.has(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)) }
	}, want(noEffect, reply, reply, reply), false},
	{"an answer as a hand-over of another model, by the reply of a request", func(a *attacker) func() bool {
		j := newJob(alice, a.foreign())
		a.lures(hop(j), string(encode(handover(j, "http://127.0.0.1:1/state/0", a.mark))))
		return func() bool { return a.decode.of(j.ID) != nil || a.has(queue.StreamRelay, hop(j)) }
	}, want(noEffect, reply, reply, reply), false},
	{"an answer as a kept cancel, by the reply of a request", func(a *attacker) func() bool {
		j := a.waiting()
		a.lures("kept."+alice+".job."+j.ID, "{}")
		return func() bool { return !a.waits(j) }
	}, want(noEffect, reply, reply, reply), false},
	{"an answer as a request to the workers: control.cancel.<victim>, by the reply of a request", func(a *attacker) func() bool {
		j := a.waiting()
		a.lures("control.cancel."+alice, string(encode(ids(j))))
		a.lures("operator.cancel", string(encode(ids(j))))
		return func() bool { return !a.waits(j) }
	}, want(noEffect, noEffect, noEffect, noEffect).with(noEffect, noEffect), false},
	{"an answer as a request to end what runs: ctl.cancel, by the reply of a request", func(a *attacker) func() bool {
		id := a.running.ID
		a.lures(protocol.CancelSubject(alice, id), "")
		return func() bool { return !a.prefill.active(id) }
	}, want(noEffect, shared, shared, shared), false},
	{"an answer as JetStream's STREAM.DELETE, by the reply of a request", func(a *attacker) func() bool {
		name := a.decoy("DECOY")
		a.lures("$JS.API.STREAM.DELETE."+name, "{}")
		return func() bool { return a.stream(name) == nil }
	}, want(noEffect, reply, reply, reply), false},
	{"an answer as JetStream's CONSUMER.CREATE on all prompts, by the reply of a request", func(a *attacker) func() bool {
		name := a.decoy("DECOY2", "decoy2.>")
		a.lures("$JS.API.CONSUMER.CREATE."+name, `{"stream_name":"`+name+`","config":{"deliver_subject":"results.x.y.z","ack_policy":"none"}}`)
		return func() bool { info := a.stream(name); return info != nil && info.State.Consumers > 0 }
	}, want(noEffect, reply, reply, reply), false},
	{"a delivery of another's job to subjects that graders hear: MSG.NEXT with that reply", func(a *attacker) func() bool {
		subject := protocol.TokensSubject(mallory, batch, jobs.NewID())
		hears := a.listensAt(a.mustConnect(a.site.key(a.credential(mallory)), mallory), subject)
		j := a.waiting()
		a.publishTo("$JS.API.CONSUMER.MSG.NEXT.INTAKE."+protocol.ConsumerName(protocol.RolePrefill, model, protocol.TokenOf(j)), subject, []byte(`{"batch":1000,"no_wait":true}`))
		return func() bool { return hears.hears(a.secret) }
	}, want(denied, reply, denied, denied), false},
	{"a hand-over to decode with a KV state of the attacker's", func(a *attacker) func() bool {
		j := newJob(alice, model, a.marked)
		a.publish(hop(j), encode(handover(j, "http://attacker.example/state/0", a.mark)))
		return func() bool {
			r := a.decode.of(j.ID)
			return r != nil && r.task.Handover != nil && strings.Contains(r.task.Handover.State.URL, "attacker")
		}
	}, want(denied, own, denied, denied), false},
	{"a job for fallback", func(a *attacker) func() bool {
		j := newJob(alice, model, a.marked)
		h := handover(j, "", "")
		h.Stage, h.Kind, h.State, h.Prefill = jobs.StageFallback, "", nil, nil
		a.publish(protocol.SubjectOf(j, jobs.StageFallback), encode(h))
		return func() bool { return a.decode.of(j.ID) != nil }
	}, want(denied, own, denied, denied), false},
	{"a hand-over of a model that the key is not for", func(a *attacker) func() bool {
		j := newJob(alice, a.foreign(), a.marked)
		a.publish(hop(j), encode(handover(j, "http://attacker.example/state/0", a.mark)))
		return func() bool { return a.decode.of(j.ID) != nil || a.has(queue.StreamRelay, hop(j)) }
	}, want(denied, denied, denied, denied), false},
	{"a hop that is barred before it comes: its Nats-Msg-Id at jobs.decode.ended", func(a *attacker) func() bool {
		j := newJob(alice, model, a.marked)
		id := alice + "." + j.ID
		a.publish("jobs.decode.ended."+id, nil, "Nats-Msg-Id", id+".decode")
		if a.through > 0 {
			poll(answerLimit, func() bool { return a.has(queue.StreamRelay, "jobs.decode.ended."+id) })
		}
		msg := &nats.Msg{Subject: hop(j), Data: encode(handover(j, "http://127.0.0.1:1/state/0", "t")), Header: nats.Header{"Nats-Msg-Id": {id + ".decode"}}}
		ack, err := a.js.PublishMsg(a.t.Context(), msg)
		return func() bool { return err == nil && ack.Duplicate }
	}, want(denied, shared, shared, denied), false},
	{"a dead letter of another's", func(a *attacker) func() bool {
		j := newJob(alice, model)
		a.publish(protocol.DLQSubject(jobs.StagePrefill, model, alice, j.ID), a.deadLetter(j))
		return func() bool { return a.has(queue.StreamDLQ, protocol.DLQSubject(jobs.StagePrefill, model, alice, j.ID)) }
	}, want(denied, own, denied, denied), false},
	{"a dead letter of a model that the key is not for", func(a *attacker) func() bool {
		m := a.foreign()
		j := newJob(alice, m)
		a.publish(protocol.DLQSubject(jobs.StageDecode, m, alice, j.ID), a.deadLetter(j))
		return func() bool { return a.has(queue.StreamDLQ, protocol.DLQSubject(jobs.StageDecode, m, alice, j.ID)) }
	}, want(denied, denied, denied, denied), false},
	{"the presence of a worker that there is not", func(a *attacker) func() bool {
		return a.presence(model, protocol.RolePrefill)
	}, want(denied, own, denied, denied), false},
	{"the presence of a worker of a model that the key is not for", func(a *attacker) func() bool {
		return a.presence(a.foreign(), protocol.RoleDecode)
	}, want(denied, denied, denied, denied), false},
	{"the presence of a worker of the other role", func(a *attacker) func() bool {
		role := protocol.RolePrefill
		if a.role == role {
			role = protocol.RoleDecode
		}
		return a.presence(a.model, role)
	}, want(denied, denied, denied, denied), false},
	{"what a worker is at: ctl.worker", func(a *attacker) func() bool {
		subject := "ctl.worker.prefill." + protocol.KeyToken(model) + "." + jobs.NewID()
		hears := a.listensAt(a.peer, subject)
		a.publish(subject, []byte(a.mark))
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, own, denied, denied), false},
	{"how often a job was handed back: $KV.handbacks", func(a *attacker) func() bool {
		subject := "$KV.handbacks." + alice + "." + a.waiting().ID + ".prefill"
		a.put(subject, []byte(`{"hand_backs":1000}`))
		return func() bool { return a.has("KV_handbacks", subject) }
	}, want(denied, shared, shared, denied), false},
	{"what doctor measured of a hand-over: $KV.handover_trials", func(a *attacker) func() bool {
		subject := "$KV.handover_trials.m.prefill." + jobs.NewID()
		a.put(subject, encode(queue.Trial{Model: "m", Prefill: "prefill", Decode: a.mark}))
		return func() bool { return a.has("KV_handover_trials", subject) }
	}, want(denied, denied, denied, denied), false},
	{"the acknowledgement of what another worker runs: $JS.ACK", func(a *attacker) func() bool {
		subject := protocol.SubjectOf(a.running, jobs.StagePrefill)
		seq := a.get(queue.StreamIntake, subject).Sequence
		consumer := protocol.ConsumerName(protocol.RolePrefill, model, jobs.Interactive)
		info, err := a.js.Consumer(a.t.Context(), queue.StreamIntake, consumer)
		if err != nil {
			a.t.Fatal(err)
		}
		at := info.CachedInfo().Delivered.Consumer
		for _, prefix := range []string{"$JS.ACK."} {
			a.publish(fmt.Sprintf("%sINTAKE.%s.1.%d.%d.1.0", prefix, consumer, seq, at), []byte("+ACK"))
		}
		return func() bool { return !a.has(queue.StreamIntake, subject) }
	}, want(denied, own, denied, denied), false},
	{"an answer in the place of the workers': control.*.*", func(a *attacker) func() bool {
		a.answers("control.*.*", []byte(`"`+a.mark+`"`))
		inbox := "_INBOX." + alice + ".known"
		hears := a.listens(inbox)
		for range 4 { // the workers answer, too, and the first counts
			if err := a.alice.PublishRequest("control.find."+alice, inbox, encode(ids(a.running))); err != nil {
				a.t.Fatal(err)
			}
			if a.through == 0 || poll(aMoment, func() bool { return hears.hears(a.mark) }) {
				break
			}
		}
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, serves, serves, denied), false},
	{"an answer in the place of a service: $SRV.PING", func(a *attacker) func() bool {
		a.answers("$SRV.PING", []byte(a.mark))
		inbox := a.root.NewInbox()
		hears := a.listensAt(a.root, inbox)
		if err := a.root.PublishRequest("$SRV.PING", inbox, nil); err != nil {
			a.t.Fatal(err)
		}
		return func() bool { return hears.hears(a.mark) }
	}, want(denied, serves, serves, denied), false},
}

// marked is a job that the attacker made.
func (a *attacker) marked(j *jobs.Job) { j.Prompt = a.mark }

func (a *attacker) result(j *jobs.Job, status jobs.Status) []byte {
	r := jobs.NewResult(j, status)
	r.Text, r.Method = a.mark, jobs.MethodLocal
	if status != jobs.Succeeded {
		r.Error = &jobs.ErrorInfo{Code: jobs.CodeInvalid, Message: a.mark}
	}
	return encode(r)
}

func (a *attacker) deadLetter(j *jobs.Job) []byte {
	return encode(queue.DeadLetter{V: 1, Stage: jobs.StagePrefill, Code: jobs.CodeInvalid, Message: a.mark, User: j.User, Batch: j.Batch, Job: *j})
}

// submits puts a job of one's own at a model and class.
func (a *attacker) submits(model, class string) func() bool {
	j := newJob(mallory, model, a.marked)
	subject := protocol.JobSubject(jobs.StagePrefill, model, jobs.Class(class), mallory, j.ID)
	a.stores(subject, encode(j))
	return func() bool { return a.has(queue.StreamIntake, subject) }
}

// presence says that a worker is there.
func (a *attacker) presence(model string, role jobs.Stage) func() bool {
	id := jobs.NewID()
	p := queue.Presence{Worker: id, Machine: "attacker", Role: role, Model: model, State: queue.StateDraining, StatesURL: "http://attacker.example"}
	a.put("$KV.workers."+string(role)+"."+protocol.KeyToken(model)+"."+id, encode(p))
	return func() bool {
		for _, w := range a.workers() {
			if w.Worker == id {
				return true
			}
		}
		return false
	}
}
