package rig

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tandem/test/rig/history"
	"tandem/test/rig/tap"
)

// recorder turns what passes on the wires into the history. It reads subjects and acknowledgements by docs/PROTOCOL.md.
type recorder struct {
	log *history.Log

	mu     sync.Mutex
	jobs   map[string]string // id of the job with a marker
	ended  map[string]string // status of the jobs whose terminal record the server has acknowledged
	change chan struct{}     // closed and replaced when one is added to either
}

func newRecorder(log *history.Log) *recorder {
	return &recorder{log: log, jobs: map[string]string{}, ended: map[string]string{}, change: make(chan struct{})}
}

// now is how many jobs have ended as far as the wires show, and a channel that is closed when that, or what was accepted, changes.
func (r *recorder) now() (ended int, change <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended), r.change
}

// job is the id of the job with a marker; empty if it was not submitted yet.
func (r *recorder) job(marker string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs[marker]
}

// status is how a job ended, as far as the wires show; empty if it did not.
func (r *recorder) status(job string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[job]
}

func (r *recorder) changed(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.change)
	r.change = make(chan struct{})
}

// moment is what an operation is for the job that it is about. Its zero value is an operation of no interest.
type moment struct {
	step    Step   // which is reached if the operation is not passed on
	job     string // id
	subject string // that is published to, or was
}

// barSubjects are those by which a cancel keeps away what else may come of a job. They hold no record, and one that is killed may leave them behind.
const barSubjects = "jobs.*.ended.*.*"

var bars = regexp.MustCompile(`^jobs\.\w+\.ended\.[^.]+\.[^.]+$`)

// wire is one process's connection to NATS, as the recorder reads it.
type wire struct {
	r       *recorder
	process string

	mu      sync.Mutex
	waiting map[string]published // by connection and reply subject
	held    map[delivery]string  // jobs that were delivered and not acknowledged
}

// published is a record that the server has not acknowledged yet.
type published struct {
	job, subject string
	status       string // of a result
	expired      bool   // likewise: by the worker that had the job, after which nothing more comes of it
}

func (r *recorder) wire(process string) *wire {
	return &wire{r: r, process: process, waiting: map[string]published{}, held: map[delivery]string{}}
}

// read takes in one operation with a node of NATS, before it is passed on.
func (w *wire) read(op *tap.Op, node int) moment {
	conn := strconv.Itoa(node) + "." + strconv.Itoa(op.Conn)
	switch {
	case op.FromClient && (op.Verb == "PUB" || op.Verb == "HPUB"):
		return w.publish(op, conn)
	case !op.FromClient && (op.Verb == "MSG" || op.Verb == "HMSG"):
		return w.arrive(op, conn)
	}
	return moment{}
}

// publish reads what the client sends: records and acknowledgements.
func (w *wire) publish(op *tap.Op, conn string) moment {
	job := lastToken(op.Subject)
	note := func(e history.Event) {
		e.Process, e.Job, e.Subject = w.process, job, op.Subject
		w.r.log.Add(e)
	}
	p := published{job: job, subject: op.Subject}
	switch first, _, _ := strings.Cut(op.Subject, "."); {
	case strings.HasPrefix(op.Subject, "jobs.prefill."):
		marker := markerOf(op.Payload)
		known := true
		w.r.changed(func() {
			if known = w.r.jobs[marker] == job; !known {
				w.r.jobs[marker] = job
			}
		})
		if !known {
			note(history.Event{Kind: history.Submitted, Record: bytes.Clone(op.Payload)})
		}
	case bars.MatchString(op.Subject): // no record of a job
		return moment{}
	case first == "jobs", first == "dlq":
		note(history.Event{Kind: history.Published})
	case first == "results":
		p.status, p.expired = endOf(op.Payload)
		note(history.Event{Kind: history.Published, Record: bytes.Clone(op.Payload)})
	case strings.HasPrefix(op.Subject, "$JS.ACK."):
		d, _, ok := parseAck(op.Subject)
		if body := string(op.Payload); ok && (body == "" || body == "+ACK" || strings.HasPrefix(body, "+TERM")) {
			w.mu.Lock()
			job := w.held[d]
			delete(w.held, d)
			w.mu.Unlock()
			w.r.log.Add(history.Event{Kind: history.Acked, Process: w.process, Job: job, Stream: d.stream, Seq: d.seq})
			w.wait(conn, op, published{})
			return moment{step: BeforeAck}
		}
		return moment{}
	default:
		return moment{}
	}
	w.wait(conn, op, p)
	return moment{step: BeforePublish, job: job, subject: op.Subject}
}

// wait notes what the server is to acknowledge.
func (w *wire) wait(conn string, op *tap.Op, p published) {
	if op.Reply != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting[conn+" "+op.Reply] = p
	}
}

// arrive reads what the server sends: deliveries, and its acknowledgements of records.
func (w *wire) arrive(op *tap.Op, conn string) moment {
	if d, count, ok := parseAck(op.Reply); ok {
		job := lastToken(op.Subject)
		w.mu.Lock()
		w.held[d] = job
		w.mu.Unlock()
		w.r.log.Add(history.Event{Kind: history.Delivered, Process: w.process, Job: job, Subject: op.Subject, Stream: d.stream, Seq: d.seq, Count: count})
		return moment{step: OnDelivery, job: job, subject: op.Subject}
	}
	w.mu.Lock()
	p, waits := w.waiting[conn+" "+op.Subject]
	delete(w.waiting, conn+" "+op.Subject)
	w.mu.Unlock()
	switch {
	case !waits:
		return moment{}
	case p.subject == "": // of an acknowledgement
		return moment{step: AfterAck}
	}
	var ack struct {
		Stream    string
		Seq       uint64
		Duplicate bool
		Error     *struct{ Description string }
	}
	if err := json.Unmarshal(op.Payload, &ack); err != nil && op.Status == "" {
		return moment{}
	}
	e := history.Event{Kind: history.Stored, Process: w.process, Job: p.job, Subject: p.subject, Stream: ack.Stream, Seq: ack.Seq, Again: ack.Duplicate}
	intake := strings.HasPrefix(p.subject, "jobs.prefill.")
	switch {
	case op.Status != "" || ack.Error != nil:
		if !intake {
			return moment{} // there already, mostly
		}
		e.Kind, e.Note = history.Refused, op.Status
		if ack.Error != nil {
			e.Note = ack.Error.Description
		}
	case intake:
		e.Kind = history.Accepted
	}
	w.r.log.Add(e)
	if e.Kind == history.Refused {
		return moment{}
	}
	if ack.Stream == "RESULTS" {
		w.r.changed(func() { w.r.ended[p.job] = p.status })
		if p.expired {
			w.r.log.Add(history.Event{Kind: history.Cancelled, Process: w.process, Job: p.job, Note: "expired"})
		}
	}
	return moment{step: AfterPublish, job: p.job, subject: p.subject}
}

// callPaths are the calls to engines that compute: of Ollama, and of llama-server.
var callPaths = map[string]bool{"/api/generate": true, "/api/chat": true, "/completion": true, "/v1/chat/completions": true}

// Before a llama-server computes a prompt, it is asked for its tokens; then only these are sent, which name no job.
const tokenPath = "/tokenize"

// markers finds a job's marker in a request's body.
var markers = regexp.MustCompile(`\[(rig-\d+-\d+)\]`)

// call reads a request to an engine, and reports whether it computes. One that the wire held back is not noted: it may have been sent before what
// was noted last.
func (r *recorder) call(engine string, e *tap.Exchange) bool {
	path := e.Request.URL.Path
	if marker := markerOf(e.Body); marker != "" && !e.Late && (callPaths[path] || path == tokenPath) {
		r.log.Add(history.Event{Kind: history.Called, Process: engine, Job: r.job(marker), Note: path})
	}
	return callPaths[path]
}

func markerOf(data []byte) string {
	if m := markers.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// endOf is the status of a result, and whether the job has expired at the stage that had it. Where another worker ended it, for whoever awaits it, the
// result is the first step of several.
func endOf(record []byte) (status string, expired bool) {
	var r struct {
		Status string
		Error  struct{ Stage string }
	}
	_ = json.Unmarshal(record, &r) // no record, no status
	return r.Status, r.Status == "expired" && r.Error.Stage != ""
}

// delivery is what the subject for a delivery's acknowledgement says.
type delivery struct {
	stream string
	seq    uint64
}

// parseAck reads $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, and the newer form with two more tokens in front. count is how
// often the server has delivered the message.
func parseAck(subject string) (d delivery, count int, ok bool) {
	rest, ok := strings.CutPrefix(subject, "$JS.ACK.")
	if !ok {
		return delivery{}, 0, false
	}
	f := strings.Split(rest, ".")
	if len(f) >= 9 { // domain and account first
		f = f[2:]
	}
	if len(f) < 7 {
		return delivery{}, 0, false
	}
	count, wrong := strconv.Atoi(f[2])
	seq, err := strconv.ParseUint(f[3], 10, 64)
	return delivery{f[0], seq}, count, err == nil && wrong == nil
}
