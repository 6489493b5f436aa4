package check_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tandem/test/rig/check"
	"tandem/test/rig/history"
)

// The tests tell histories by these words. Each is an event of job "a", or of the job that of says.

func ev(kind history.Kind, process string) history.Event {
	return history.Event{Kind: kind, Process: process, Job: "a"}
}

func of(job string, events ...history.Event) []history.Event {
	for i := range events {
		events[i].Job = job
	}
	return events
}

func noted(note string, e history.Event) history.Event { e.Note = note; return e }

func again(e history.Event) history.Event { e.Again = true; return e }

func with(record string, e history.Event) history.Event {
	e.Record = json.RawMessage(record)
	return e
}

const (
	job     = `{"v":1,"id":"a","user":"u","batch":"b","custom_id":"c","class":"batch","model":"m:1","prompt":"SECRET","options":{"temperature":0}}`
	warm    = `{"v":1,"id":"a","user":"u","batch":"b","custom_id":"c","class":"batch","model":"m:1","prompt":"SECRET","options":{"temperature":0.7,"seed":1}}`
	hop     = `{"v":1,"stage":"decode","job":` + job + `}`
	letter  = `{"v":1,"stage":"decode","code":"attempts_exhausted","user":"u","batch":"b","job":` + job + `}`
	unread  = `{"v":1,"stage":"prefill","code":"invalid_request","user":"u","batch":"b","raw":"e30="}`
	nobody  = `{"v":1,"stage":"prefill","code":"invalid_request","raw":"e30="}`
	success = `{"v":1,"job_id":"a","user":"u","batch":"b","custom_id":"c","model":"m:1","status":"succeeded","text":"yes","usage":{"prompt_tokens":3}}`
	other   = `{"v":1,"job_id":"a","user":"u","batch":"b","custom_id":"c","model":"m:1","status":"succeeded","text":"no"}`
	failure = `{"v":1,"job_id":"a","user":"u","batch":"b","custom_id":"c","model":"m:1","status":"failed","text":"","error":{"code":"attempts_exhausted","message":"SECRET"}}`
	crash   = `{"v":1,"job_id":"a","user":"u","batch":"b","custom_id":"c","model":"m:1","status":"failed","text":"","error":{"code":"panic","message":"x"}}`
	invalid = `{"v":1,"job_id":"a","user":"u","batch":"b","model":"m","status":"failed","text":"","error":{"code":"invalid_request","message":"x"}}`
	stopped = `{"v":1,"job_id":"a","user":"u","batch":"b","custom_id":"c","model":"m:1","status":"cancelled","text":"","error":{"code":"cancelled","message":"x"}}`
	late    = `{"v":1,"job_id":"a","user":"u","batch":"b","custom_id":"c","model":"m:1","status":"expired","text":"","error":{"code":"deadline","message":"x"}}`
)

func submitted(record string) history.Event {
	e := with(record, ev(history.Submitted, "caller-1"))
	e.Subject = "jobs.prefill.m:1.batch.a"
	return e
}

func accepted() history.Event {
	e := ev(history.Accepted, "caller-1")
	e.Stream, e.Seq = "INTAKE", 1
	return e
}

func stored(stream string, seq uint64) history.Event {
	e := ev(history.Stored, "decode-1")
	e.Stream, e.Seq = stream, seq
	return e
}

// hopped is a hop to decode that the server stored.
func hopped(seq uint64) history.Event { return at("jobs.decode.m.batch.a", stored("RELAY", seq)) }

func at(subject string, e history.Event) history.Event { e.Subject = subject; return e }

// placed is an event at another place of its stream.
func placed(seq uint64, e history.Event) history.Event { e.Seq = seq; return e }

func delivered(process, stream string, seq uint64) history.Event {
	e := ev(history.Delivered, process)
	e.Stream, e.Seq = stream, seq
	return e
}

// counted is a delivery that is the nth by the server's count.
func counted(n int, e history.Event) history.Event { e.Count = n; return e }

func called() history.Event { return noted("/api/generate", ev(history.Called, "engine-1")) }

func found(stream string, seq uint64, record string) history.Event {
	e := with(record, ev(history.Found, ""))
	e.Stream, e.Seq = stream, seq
	return e
}

func told(record string) history.Event { return with(record, ev(history.Told, "caller-1")) }

func expect(text string) history.Event {
	e := ev(history.Expected, "engine-1")
	e.Text = text
	return e
}

func fault(process, note string) history.Event {
	return history.Event{Kind: history.Fault, Process: process, Note: note}
}

func healed(process string) history.Event {
	return history.Event{Kind: history.Healed, Process: process}
}

func ended() history.Event { return history.Event{Kind: history.Ended} }

// story is a history: it numbers the events, 100 ms apart.
func story(events ...history.Event) []history.Event {
	for i := range events {
		events[i].N, events[i].At = i, time.Duration(i)*100*time.Millisecond
	}
	return events
}

// whole is the way of a job that goes well.
func whole() []history.Event {
	return []history.Event{
		submitted(job), accepted(),
		delivered("prefill-1", "INTAKE", 1), called(), stored("RELAY", 1), ev(history.Acked, "prefill-1"),
		delivered("decode-1", "RELAY", 1), called(), stored("RESULTS", 7), ev(history.Acked, "decode-1"),
		told(success), found("RESULTS", 7, success), expect("yes"), ended(),
	}
}

// success2 is a success at the second attempt of prefill.
var success2 = record(success, `"text"`, `"attempts":{"prefill":2,"decode":1},"text"`)

// tried is the way of a job that ends so, with something in it that comes before the end.
func tried(end string, more ...history.Event) []history.Event {
	all := slices.Concat(whole()[:3], more, whole()[3:])
	for i := range all {
		if all[i].Kind == history.Told || all[i].Kind == history.Found {
			all[i].Record = json.RawMessage(end)
		}
	}
	return all
}

// asking is a history in which the job is submitted with a plan.
func asking(plan string, events []history.Event) []history.Event {
	events[0] = submitted(record(job, `"v":1`, `"v":1,"plan":"`+plan+`"`))
	return events
}

// but is the events without those of a kind and, if it is not empty, of a stream.
func but(kind history.Kind, stream string, events []history.Event) []history.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool {
		return e.Kind == kind && (stream == "" || e.Stream == stream)
	})
}

// broken lists the rules that were broken, each with its job.
func broken(v check.Verdict) []string {
	var all []string
	for _, violation := range v.Violations {
		all = append(all, fmt.Sprintf("%s %s", violation.Rule, violation.Job))
	}
	return all
}
