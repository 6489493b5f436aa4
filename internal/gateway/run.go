package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tandem/client/admin"
	"tandem/jobs"
)

// Headers of requests and answers that are ours.
const (
	headerJob    = "Tandem-Job"
	headerMethod = "Tandem-Method"
	headerTiming = "Server-Timing"
	headerPlan   = "Tandem-Plan"
	headerClass  = "Tandem-Class"
	headerShared = "Tandem-Shared-Prefix"
)

// writeLimit is how long a program may take to read a piece of its answer; after it the request ends, and its job is cancelled.
const writeLimit = 30 * time.Second

// cancelLimit is how long cancelling the job of a request that ended may take.
const cancelLimit = 10 * time.Second

// errDiverged ends a stream whose job began again on another machine, and says something else than was sent.
var errDiverged = errors.New("the job began again on another machine, and its text is another than what was sent; ask again")

// run has a job done for a request, and emits its text while it is generated, if emit is not nil: each piece once, also when the job begins again on another machine, as
// long as it says the same. If the request ends first, or takes too long, the job is cancelled.
func (g *gateway) run(w http.ResponseWriter, r *http.Request, j *jobs.Job, emit func(piece jobs.Chunk) error) (*jobs.Result, error) {
	who := callerOf(r)
	if err := g.complete(r, who, j); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.Timeout)
	defer cancel()
	began, first := time.Now(), time.Duration(0)
	w.Header().Set(headerJob, j.ID)
	var result *jobs.Result
	var err error
	if emit == nil {
		if result, err = who.system.Run(ctx, j); err == nil {
			err = failure(result)
		}
	} else {
		result, err = follow(ctx, who.system, j, func(piece jobs.Chunk) error {
			first = cmp.Or(first, time.Since(began))
			return emit(piece)
		})
	}
	accepted := result != nil || !notAccepted[jobs.CodeOf(err)]
	if accepted {
		outcome, code := outcomeOf(r, err)
		g.Observe.Job(j, result, outcome, code, time.Since(began), first)
	}
	if who.token != nil && accepted {
		g.account.add(usageOfJob(who.token, result))
	}
	if result == nil && accepted {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
		defer stop()
		if _, cancelErr := who.system.Cancel(end, j.ID); cancelErr != nil && jobs.CodeOf(cancelErr) != jobs.CodeInvalid {
			g.Log.Warn("the job of a request that ended was not cancelled", "job", j.ID, "error", cancelErr)
		}
	}
	if jobs.CodeOf(err) == jobs.CodeEngineRefused {
		err = g.refused(r, j, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = refuse(http.StatusGatewayTimeout, "", "there was no answer within %s, and the job was cancelled; ask again when less waits, or as a batch", g.Timeout)
	}
	return result, err
}

// notAccepted are the codes of errors by which a job was refused.
var notAccepted = map[jobs.Code]bool{jobs.CodeInvalid: true, jobs.CodeUnknownModel: true, jobs.CodeQueueFull: true}

// follow is run until the first error.
func follow(ctx context.Context, system *admin.Client, j *jobs.Job, emit func(piece jobs.Chunk) error) (*jobs.Result, error) {
	var text, thinking, calls passed
	logprobs, sent := 0, 0 // that the job has said since the last restart, and that were sent
	for piece, err := range system.Stream(ctx, j) {
		if err != nil {
			return nil, err
		}
		if piece.Restart {
			text.at, thinking.at, calls.at, logprobs = 0, 0, 0, 0
		}
		var news jobs.Chunk
		var same, thinksSame, callsSame bool
		news.Text, same = text.add(piece.Text)
		news.Thinking, thinksSame = thinking.add(piece.Thinking)
		news.ToolCalls, callsSame = calls.addCalls(piece.ToolCalls)
		logprobs += len(piece.Logprobs)
		if n := logprobs - sent; n > 0 { // numbers may differ a little on another machine: what was sent stands
			news.Logprobs, sent = piece.Logprobs[len(piece.Logprobs)-n:], logprobs
		}
		if !same || !thinksSame || !callsSame {
			return nil, errDiverged
		}
		if piece.Result != nil && piece.Result.Status != jobs.Succeeded {
			return piece.Result, failure(piece.Result)
		}
		if news.Text+news.Thinking != "" || len(news.ToolCalls)+len(news.Logprobs) > 0 {
			if err := emit(news); err != nil {
				return nil, err
			}
		}
		if piece.Result != nil {
			if !text.whole() || !thinking.whole() || !calls.whole() {
				return nil, errDiverged
			}
			return piece.Result, nil
		}
	}
	return nil, context.Cause(ctx)
}

// failure is why a job did not succeed, nil if it did.
func failure(r *jobs.Result) error {
	if r.Status == jobs.Succeeded {
		return nil
	}
	return jobs.Errorf(r.Error.Code, "%s", r.Error.Message)
}

// passed is a text that was sent, as far as it is there.
type passed struct {
	sent strings.Builder
	at   int // how much of it the job has said since the last restart
}

// add returns what is new of a piece, and whether it goes on as what was sent does.
func (p *passed) add(piece string) (news string, same bool) {
	sent := p.sent.String()
	n := min(len(piece), len(sent)-p.at)
	if piece[:n] != sent[p.at:p.at+n] {
		return "", false
	}
	p.sent.WriteString(piece[n:])
	p.at += len(piece)
	return piece[n:], true
}

// addCalls is add for calls of functions, each of which is a line.
func (p *passed) addCalls(calls []jobs.ToolCall) (news []jobs.ToolCall, same bool) {
	for _, call := range calls {
		line, err := json.Marshal(call)
		if err != nil { // it came as JSON
			return nil, false
		}
		fresh, same := p.add(string(line) + "\n")
		if !same {
			return nil, false
		}
		if fresh != "" {
			news = append(news, call)
		}
	}
	return news, true
}

// whole reports whether the job has said all that was sent.
func (p *passed) whole() bool { return p.at == p.sent.Len() }

// complete fills in what a request says of its job in headers.
func (g *gateway) complete(r *http.Request, who caller, j *jobs.Job) error {
	model, err := jobs.CanonicalModel(j.Model)
	if err != nil {
		return refuse(http.StatusBadRequest, "model", "model: %v", err)
	}
	if err := who.may(model); err != nil {
		return err
	}
	if err := g.able(r, j, model); err != nil {
		return err
	}
	j.ID, j.Class, j.Plan = jobs.NewID(), jobs.Interactive, g.Plan
	if who.token != nil {
		j.Class = cmp.Or(who.token.Class, j.Class)
	}
	if j.Hold || j.Continues != "" {
		j.Plan = jobs.PlanDisaggregated
	}
	if j.Embed != nil {
		j.Plan = jobs.PlanLocal
	}
	switch plan := jobs.Plan(r.Header.Get(headerPlan)); plan {
	case "":
	case jobs.PlanAuto, jobs.PlanLocal, jobs.PlanDisaggregated:
		j.Plan = plan
	default:
		return refuse(http.StatusBadRequest, headerPlan, "header %s is %.40q; want auto, local or disaggregated", headerPlan, plan)
	}
	if text := r.Header.Get(headerShared); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return refuse(http.StatusBadRequest, headerShared, "header %s is %.40q; want how many of the first messages, or bytes of the prompt, other requests begin with too", headerShared, text)
		}
		j.SharedPrefix = n
	}
	switch class := jobs.Class(r.Header.Get(headerClass)); class {
	case "":
	case jobs.Interactive, jobs.Batch:
		if class == jobs.Interactive && j.Class == jobs.Batch {
			return refuse(http.StatusForbidden, headerClass, "token %s is for jobs of class batch", who.token.Name)
		}
		j.Class = class
	default:
		return refuse(http.StatusBadRequest, headerClass, "header %s is %.40q; want interactive or batch", headerClass, class)
	}
	return nil
}

// able refuses tools, images and embeddings for a model that has none, as its live workers say.
func (g *gateway) able(r *http.Request, j *jobs.Job, name string) error {
	for _, need := range []struct {
		there         bool
		ability, what string
	}{
		{len(j.Tools) > 0, jobs.CanTools, "tools"},
		{slices.ContainsFunc(j.Messages, func(m jobs.Message) bool { return len(m.Images) > 0 }), jobs.CanSee, "images"},
		{j.Embed != nil, jobs.CanEmbed, "embeddings"},
	} {
		if !need.there {
			continue
		}
		m, err := g.find(r, name)
		if err != nil {
			return err
		}
		if m.can(need.ability) {
			continue
		}
		if j.Embed != nil {
			return refuse(http.StatusNotImplemented, "model", "model %s makes no embeddings; ask one that does, such as nomic-embed-text on a worker of Ollama", name)
		}
		return refuse(http.StatusBadRequest, need.what, "model %s does not support %s", name, need.what)
	}
	return nil
}

// metrics are what Tandem adds to an answer.
type metrics struct {
	Job      string       `json:"job_id"`
	Method   jobs.Method  `json:"method"`
	Warnings []string     `json:"warnings,omitempty"`
	Decision string       `json:"decision,omitempty"`
	Usage    jobs.Usage   `json:"usage"`
	Timings  jobs.Timings `json:"timings"`
	Servers  jobs.Servers `json:"servers"`

	Handover *jobs.HandoverReport `json:"handover,omitempty"`
}

func metricsOf(r *jobs.Result) *metrics {
	return &metrics{r.JobID, r.Method, r.Warnings, r.Decision, r.Usage, r.Timings, r.Servers, r.Handover}
}

// cachedTokens is how many tokens of a prompt no machine had to compute.
func cachedTokens(r *jobs.Result) int {
	return max(0, r.Usage.PromptTokens-r.Usage.PrefillComputed-r.Usage.DecodeComputed)
}

// setHeaders writes how a job went into an answer's headers, or its trailers if the body was begun.
func setHeaders(w http.ResponseWriter, r *jobs.Result, prefix string) {
	t := r.Timings
	w.Header().Set(prefix+headerMethod, string(r.Method))
	w.Header().Set(prefix+headerTiming, fmt.Sprintf("queue;dur=%.1f, prefill;dur=%.1f, handover;dur=%.1f, decode;dur=%.1f",
		1000*(t.QueuePrefillSeconds+t.QueueDecodeSeconds), 1000*(t.PrefillSeconds+t.DecodePrefillSeconds), 1000*(t.SaveSeconds+t.TransferSeconds+t.RestoreSeconds+t.CheckSeconds), 1000*t.DecodeSeconds))
}

// lines writes an answer piece by piece, each passed on at once.
type lines struct {
	w     http.ResponseWriter
	kind  string // of the content
	begun bool
}

func (l *lines) write(data string) error {
	control := http.NewResponseController(l.w)
	if err := control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", l.kind)
		l.w.Header().Set("Cache-Control", "no-store")
		l.w.WriteHeader(http.StatusOK)
	}
	if _, err := l.w.Write([]byte(data)); err != nil {
		return err
	}
	return control.Flush()
}
