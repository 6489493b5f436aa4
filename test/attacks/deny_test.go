package attacks

import (
	"fmt"
	"strings"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
)

const (
	flood   = 1_000   // subscriptions
	filling = 1 << 20 // bytes
)

var denying = []attack{
	{"end another's running job: ctl.cancel", func(a *attacker) func() bool {
		id := a.running.ID
		a.publish(protocol.CancelSubject(alice, id), nil)
		return func() bool { return !a.prefill.active(id) }
	}, want(denied, shared, shared, denied), false},
	{"control: cancel another's job, or batch", func(a *attacker) func() bool {
		j := a.waiting()
		a.controls("cancel", alice, ids(j))
		a.controls("cancel", alice, ofBatch(j))
		return func() bool { return !a.waits(j) }
	}, want(denied, denied, denied, asks), false},
	{"control: expire another's job", func(a *attacker) func() bool {
		j := a.waiting(late)
		a.controls("expire", alice, ids(j))
		return func() bool { return !a.waits(j) }
	}, want(denied, denied, denied, asks), false},
	{"control: purge another's batch", func(a *attacker) func() bool {
		j := a.finished()
		a.controls("purge", alice, ofBatch(j))
		return func() bool { return !a.has(queue.StreamResults, a.reply(j)) }
	}, want(denied, denied, denied, asks), false},
	{"control: drop another's dead letter", func(a *attacker) func() bool {
		j := a.failed()
		a.controls("drop", alice, ids(j))
		return func() bool { return !a.has(queue.StreamDLQ, a.letter(j)) }
	}, want(denied, denied, denied, asks), false},
	{"control: cancel, expire, purge and drop what is another's in one's own name", func(a *attacker) func() bool {
		j, f, l := a.waiting(late), a.finished(), a.failed()
		for _, verb := range []string{"cancel", "expire", "purge", "drop"} {
			for _, what := range []any{map[string]any{"user": alice, "jobs": []string{j.ID}}, ids(l), ofBatch(j)} {
				a.controls(verb, mallory, what)
			}
		}
		return func() bool {
			return !a.waits(j) || !a.has(queue.StreamResults, a.reply(f)) || !a.has(queue.StreamDLQ, a.letter(l))
		}
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"control: cancel, purge and drop with * and > for job and batch", func(a *attacker) func() bool {
		j, f, l := a.waiting(), a.finished(), a.failed()
		for _, name := range []string{"*", ">"} {
			for _, verb := range []string{"cancel", "drop"} {
				a.controls(verb, mallory, map[string][]string{"jobs": {name}})
			}
			for _, verb := range []string{"cancel", "purge"} {
				a.controls(verb, mallory, map[string]string{"batch": name})
			}
		}
		return func() bool {
			return !a.waits(j) || !a.has(queue.StreamResults, a.reply(f)) || !a.has(queue.StreamDLQ, a.letter(l))
		}
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"control: cancel with * for user and verb", func(a *attacker) func() bool {
		j := a.waiting()
		for _, subject := range []string{"control.cancel.*", "control.*.*", "control.*." + alice, "control.>"} {
			a.ask(subject, encode(ids(j)))
		}
		return func() bool { return !a.waits(j) }
	}, want(denied, denied, denied, noEffect).with(noEffect, noEffect), false}, // nobody listens at a wildcard that is published to
	{"control: cancel as the operator: operator.cancel", func(a *attacker) func() bool {
		j := a.waiting()
		a.operates("cancel", ids(j))
		return func() bool { return !a.waits(j) }
	}, want(denied, denied, denied, denied), false},
	{"control: purge and drop as the operator", func(a *attacker) func() bool {
		f, l := a.finished(), a.failed()
		a.operates("drop", ids(l))
		a.operates("purge", ofBatch(f))
		return func() bool { return !a.has(queue.StreamResults, a.reply(f)) || !a.has(queue.StreamDLQ, a.letter(l)) }
	}, want(denied, denied, denied, denied), false},
	{"have another's job cancelled later: kept.<victim>", func(a *attacker) func() bool {
		j := a.waiting()
		a.stores("kept."+alice+".job."+j.ID, nil)
		a.stores("kept."+alice+".batch."+tok(j.Batch), nil)
		return func() bool { return !a.waits(j) }
	}, want(denied, denied, denied, asks), false},
	{"have another's job cancelled later: kept.<self>, kept.*, kept.>", func(a *attacker) func() bool {
		j := a.waiting()
		for _, subject := range []string{mallory + ".job." + j.ID, mallory + ".batch." + tok(j.Batch), "*.job." + j.ID, "*.*." + j.ID, ">"} {
			a.stores("kept."+subject, nil)
		}
		return func() bool { return !a.waits(j) }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"purge another's result: STREAM.PURGE", func(a *attacker) func() bool {
		j := a.finished()
		a.api("STREAM.PURGE.RESULTS", `{"filter":"`+a.reply(j)+`"}`)
		return func() bool { return !a.has(queue.StreamResults, a.reply(j)) }
	}, want(denied, serves, serves, denied), false},
	{"purge another's job from the intake: STREAM.PURGE", func(a *attacker) func() bool {
		j := a.waiting()
		a.api("STREAM.PURGE.INTAKE", `{"filter":"`+protocol.AnyJobFilter(jobs.StagePrefill, "", j.ID)+`"}`)
		return func() bool { return !a.waits(j) }
	}, want(denied, serves, serves, denied), false},
	{"purge the presences of workers: STREAM.PURGE", func(a *attacker) func() bool {
		before := a.stream("KV_workers").State.FirstSeq
		a.api("STREAM.PURGE.KV_workers", `{"filter":"$KV.workers.none"}`)
		a.api("STREAM.PURGE.KV_workers", "")
		return func() bool {
			info := a.stream("KV_workers")
			return info.State.FirstSeq > before && a.answered(`"purged"`)
		}
	}, want(denied, denied, denied, denied), false},
	{"purge the presences of all models: Nats-Rollup: all at one's own", func(a *attacker) func() bool {
		key := "$KV.workers.decode." + protocol.KeyToken(a.foreign()) + "." + jobs.NewID()
		if _, err := a.js.Publish(a.t.Context(), key, []byte("{}")); err != nil {
			a.t.Fatal(err)
		}
		role := a.role
		if role == "" {
			role = protocol.RolePrefill
		}
		a.put("$KV.workers."+string(role)+"."+protocol.KeyToken(a.model)+".mine", []byte("{}"), "Nats-Rollup", "all")
		return func() bool { return !a.has("KV_workers", key) }
	}, want(denied, noEffect, noEffect, denied).with(noEffect, noEffect), false},
	{"erase the presence of a worker", func(a *attacker) func() bool {
		key := "$KV.workers.prefill." + protocol.KeyToken(model) + "." + jobs.NewID()
		if _, err := a.js.Publish(a.t.Context(), key, []byte(a.mark)); err != nil {
			a.t.Fatal(err)
		}
		a.put(key, nil, "KV-Operation", "DEL")
		return func() bool { return !a.holds("KV_workers", key, a.mark) }
	}, want(denied, own, denied, denied), false},
	{"a push consumer that publishes anywhere", func(a *attacker) func() bool {
		j := a.finished()
		subject := protocol.TokensSubject(alice, batch, jobs.NewID())
		hears := a.listens(subject)
		a.api("CONSUMER.CREATE.RESULTS", `{"stream_name":"RESULTS","config":{"deliver_subject":"`+subject+`","ack_policy":"none","deliver_policy":"all","filter_subject":"`+a.reply(j)+`"}}`)
		return func() bool { return hears.hears(a.secret) }
	}, want(denied, denied, denied, denied), false},
	{"create a stream", func(a *attacker) func() bool {
		name := "X" + a.mark[len(a.mark)-12:]
		a.api("STREAM.CREATE."+name, `{"name":"`+name+`","subjects":["`+name+`.>"],"storage":"memory","retention":"limits"}`)
		return func() bool { return a.stream(name) != nil }
	}, want(denied, denied, denied, denied), false},
	{"create a stream that takes what workers are asked", func(a *attacker) func() bool {
		name := "Y" + a.mark[len(a.mark)-12:]
		a.api("STREAM.CREATE."+name, `{"name":"`+name+`","subjects":["control.*.nobody"],"storage":"memory","retention":"limits"}`)
		return func() bool { return a.stream(name) != nil }
	}, want(denied, denied, denied, denied), false},
	{"have a leader step down: STREAM.LEADER.STEPDOWN", func(a *attacker) func() bool {
		a.api("STREAM.LEADER.STEPDOWN.INTAKE", "")
		return func() bool { return a.answered(`"success":true`) }
	}, want(denied, denied, denied, denied).with(noEffect, noEffect), false}, // there is one server
	{"have the server reload, or end another's connection: $SYS", func(a *attacker) func() bool {
		id := a.nc.ConnectedServerId()
		a.ask("$SYS.REQ.SERVER."+id+".RELOAD", nil)
		client, err := a.alice.GetClientID()
		if err != nil {
			a.t.Fatal(err)
		}
		a.ask("$SYS.REQ.SERVER."+id+".KICK", fmt.Appendf(nil, `{"cid":%d}`, client))
		return func() bool { return !a.alice.IsConnected() || a.answered(`"server"`) }
	}, want(denied, denied, denied, denied).with(denied, denied), false}, // nobody in that account is asked
	{"fill the intake in one's own name", func(a *attacker) func() bool {
		return a.fills(queue.StreamIntake, func(int) string { return protocol.SubjectOf(newJob(mallory, model), jobs.StagePrefill) })
	}, want(own, denied, denied, own), false},
	{"fill CONTROL with large messages in one's own name", func(a *attacker) func() bool {
		seq := a.stream(queue.StreamControl).State.LastSeq
		a.stores(fmt.Sprintf("kept.%s.job.%s", mallory, jobs.NewID()), make([]byte, filling))
		return func() bool { return a.stream(queue.StreamControl).State.LastSeq > seq }
	}, want(noEffect, denied, denied, noEffect).with(noEffect, noEffect), false},
	{"have a cancel kept in one's own name", func(a *attacker) func() bool {
		seq := a.stream(queue.StreamControl).State.LastSeq
		a.stores(fmt.Sprintf("kept.%s.job.%s", mallory, jobs.NewID()), nil)
		return func() bool { return a.stream(queue.StreamControl).State.LastSeq > seq }
	}, want(own, denied, denied, own), false},
	{"fill the dead letters", func(a *attacker) func() bool {
		return a.fills(queue.StreamDLQ, func(int) string { return protocol.DLQSubject(jobs.StagePrefill, a.model, alice, jobs.NewID()) })
	}, want(denied, own, own, denied), false},
	{"fill the relay with hops that nobody reads", func(a *attacker) func() bool {
		return a.fills(queue.StreamRelay, func(int) string { return "jobs.fallback." + tok(a.model) + ".none.u." + jobs.NewID() })
	}, want(denied, own, own, denied), false},
	{"fill the results", func(a *attacker) func() bool {
		return a.fills(queue.StreamResults, func(int) string { return protocol.ResultSubject(alice, batch, jobs.NewID()) })
	}, want(denied, shared, shared, denied), false},
	{"fill the bucket of workers", func(a *attacker) func() bool {
		role := a.role
		if role == "" {
			role = protocol.RolePrefill
		}
		return a.fills("KV_workers", func(int) string {
			return "$KV.workers." + string(role) + "." + protocol.KeyToken(a.model) + "." + jobs.NewID()
		})
	}, want(denied, own, own, denied), false},
	{"fill a bucket of one's own name", func(a *attacker) func() bool {
		return a.fills("KV_workers", func(n int) string { return fmt.Sprintf("$KV.workers.mine.%d", n) })
	}, want(denied, denied, denied, denied), false},
	{"a thousand subscriptions", func(a *attacker) func() bool {
		for n := range flood {
			if _, err := a.nc.SubscribeSync(fmt.Sprintf("%s.%d.*", a.nc.NewInbox(), n)); err != nil {
				break
			}
		}
		a.through++
		if err := a.nc.FlushTimeout(enough); err != nil {
			a.through--
		}
		return func() bool { return !strings.Contains(a.finds(a.running), a.running.ID) }
	}, want(noEffect, noEffect, noEffect, noEffect).with(noEffect, noEffect), false},
	{"delete a waiting job: STREAM.MSG.DELETE", func(a *attacker) func() bool {
		j := a.waiting()
		a.api("STREAM.MSG.DELETE.INTAKE", fmt.Sprintf(`{"seq":%d}`, a.get(queue.StreamIntake, protocol.SubjectOf(j, jobs.StagePrefill)).Sequence))
		return func() bool { return !a.waits(j) }
	}, want(denied, denied, denied, denied), false},
	{"delete a stream", func(a *attacker) func() bool {
		name := a.decoy("DECOY3")
		a.api("STREAM.DELETE."+name, "")
		return func() bool { return a.stream(name) == nil }
	}, want(denied, denied, denied, denied), false},

	// What follows takes the ground from under the workers.
	{"keep results for a second only: STREAM.UPDATE", func(a *attacker) func() bool {
		config := a.stream(queue.StreamResults).Config
		was := config.MaxAge
		config.MaxAge = 1e9
		config.Duplicates = 1e9
		a.api("STREAM.UPDATE.RESULTS", string(encode(config)))
		return func() bool { return a.stream(queue.StreamResults).Config.MaxAge != was }
	}, want(denied, denied, denied, denied), true},
	{"delete the workers' consumer", func(a *attacker) func() bool {
		name := protocol.ConsumerName(protocol.RolePrefill, model, jobs.Batch)
		a.api("CONSUMER.DELETE.INTAKE."+name, "")
		return func() bool {
			_, err := a.js.Consumer(a.t.Context(), queue.StreamIntake, name)
			return err != nil
		}
	}, want(denied, denied, denied, denied), true},
	{"pause the workers' consumer", func(a *attacker) func() bool {
		name := protocol.ConsumerName(protocol.RolePrefill, other, jobs.Batch)
		a.api("CONSUMER.PAUSE.INTAKE."+name, `{"pause_until":"2100-01-01T00:00:00Z"}`)
		return func() bool {
			c, err := a.js.Consumer(a.t.Context(), queue.StreamIntake, name)
			return err == nil && c.CachedInfo().Paused
		}
	}, want(denied, denied, denied, denied), true},
	{"delete the stream RESULTS", func(a *attacker) func() bool {
		a.api("STREAM.DELETE.RESULTS", "")
		return func() bool { return a.stream(queue.StreamResults) == nil }
	}, want(denied, denied, denied, denied), true},
	{"delete the stream INTAKE with all jobs", func(a *attacker) func() bool {
		a.api("STREAM.DELETE.INTAKE", "")
		return func() bool { return a.stream(queue.StreamIntake) == nil }
	}, want(denied, denied, denied, denied), true},
}

// late gives a job a deadline that has passed.
func late(j *jobs.Job) { j.Deadline = soon() }

// answered reports whether an answer has a text in it.
func (a *attacker) answered(text string) bool { return a.learntOf(text)() }

// fills publishes a bounded number of large messages.
func (a *attacker) fills(stream string, subject func(n int) string) func() bool {
	before := a.stored(stream)
	for n := range 2 {
		a.put(subject(n), make([]byte, filling))
	}
	return func() bool { return a.stored(stream) >= before+filling }
}
