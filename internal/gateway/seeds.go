package gateway

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"tandem/client/admin"
	"tandem/jobs"
)

// seeds adds the API that Tandem's forerunners had, by which a script with curl asks.
func (g *gateway) seeds(mux *http.ServeMux) {
	add := func(pattern string, h handler) { g.handle(mux, pattern, ollamaError, h) }
	add("POST /generate", g.seedGenerate)
	add("GET /health", g.health)
	add("GET /servers", g.servers)
	add("POST /prefill", g.seedPrefill)
	add("POST /decode", g.seedDecode)
}

// seedRequest is what the requests have in common.
type seedRequest struct {
	Prompt      string   `json:"prompt"`
	Model       string   `json:"model"` // may be left out where there is but one
	Temperature *float64 `json:"temperature"`
}

// job makes a job of a request.
func (g *gateway) seedJob(r *http.Request, in seedRequest, limit *int) (*jobs.Job, error) {
	if in.Model == "" {
		list, err := g.models(r)
		if err != nil {
			return nil, err
		}
		if len(list) != 1 {
			return nil, refuse(http.StatusBadRequest, "model", "model is required: there are %d", len(list))
		}
		in.Model = list[0].name
	}
	return &jobs.Job{Model: in.Model, Prompt: in.Prompt, Options: jobs.Options{NumPredict: limit, Temperature: in.Temperature}}, nil
}

// seedGenerate answers {"prompt", "max_tokens", "temperature", "model"}.
func (g *gateway) seedGenerate(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		seedRequest
		MaxTokens *int `json:"max_tokens"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	j, err := g.seedJob(r, in.seedRequest, in.MaxTokens)
	if err != nil {
		return err
	}
	result, err := g.run(w, r, j, nil)
	if err != nil {
		return err
	}
	setHeaders(w, result, "")
	return writeJSON(w, http.StatusOK, map[string]any{"response": result.Text, "generation_time": result.Timings.TotalSeconds, "model": result.Model, "tandem": metricsOf(result)})
}

// seedPrefill answers {"prompt", "model"} with the id by which /decode finds what was computed.
func (g *gateway) seedPrefill(w http.ResponseWriter, r *http.Request) error {
	var in seedRequest
	if err := read(w, r, &in); err != nil {
		return err
	}
	j, err := g.seedJob(r, in, nil)
	if err != nil {
		return err
	}
	j.Hold = true
	result, err := g.run(w, r, j, nil)
	if err != nil {
		return err
	}
	g.held.add(callerOf(r).system, j)
	setHeaders(w, result, "")
	return writeJSON(w, http.StatusOK, map[string]any{
		"id": result.JobID, "prompt": in.Prompt, "prefill_time": result.Timings.PrefillSeconds, "model": result.Model, "tandem": metricsOf(result),
	})
}

// seedDecode answers {"id", "max_new_tokens", "temperature"} with the text of what /prefill computed. If that is gone, the prompt is computed again.
func (g *gateway) seedDecode(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		ID           string   `json:"id"`
		MaxNewTokens *int     `json:"max_new_tokens"`
		Temperature  *float64 `json:"temperature"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	if in.ID == "" {
		return refuse(http.StatusBadRequest, "id", "id is required: that which POST /prefill answered")
	}
	j := g.held.take(callerOf(r).system, in.ID)
	if j == nil {
		return refuse(http.StatusNotFound, "id", "there is no prompt %.60q here, or no longer: each is kept for %d minutes, and for one /decode; POST /prefill again, or POST /generate", in.ID, int(holdFor.Minutes()))
	}
	j.Hold, j.Continues, j.Options = false, j.ID, jobs.Options{NumPredict: in.MaxNewTokens, Temperature: in.Temperature}
	result, err := g.run(w, r, j, nil)
	if err != nil {
		return err
	}
	setHeaders(w, result, "")
	return writeJSON(w, http.StatusOK, map[string]any{
		"generated_text": result.Text, "decode_time": result.Timings.DecodeSeconds, "tokens_generated": result.Usage.GeneratedTokens,
		"tokens_per_sec": result.Timings.DecodeTokensPerSecond, "model": result.Model, "tandem": metricsOf(result),
	})
}

// What /prefill leaves for /decode is kept for so long, and no more than this; the least recent goes first.
const (
	holdFor   = 9 * time.Minute
	holdBytes = 32 << 20 // of all prompts
)

// held are the jobs of /prefill, of whose prompts a result has but the hash.
type held struct {
	mu   sync.Mutex
	list []heldJob // the oldest first
}

type heldJob struct {
	of    *admin.Client // of the job's user
	job   *jobs.Job
	until time.Time
}

func (h *held) add(of *admin.Client, j *jobs.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, heldJob{of, j, time.Now().Add(holdFor)})
	bytes := 0
	for i, other := range slices.Backward(h.list) {
		if bytes += other.job.TextBytes(); bytes > holdBytes || !time.Now().Before(other.until) {
			h.list = slices.Clone(h.list[i+1:])
			return
		}
	}
}

func (h *held) take(of *admin.Client, id string) *jobs.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.list, func(j heldJob) bool { return j.of == of && j.job.ID == id && time.Now().Before(j.until) })
	if i < 0 {
		return nil
	}
	j := h.list[i].job
	h.list = slices.Delete(h.list, i, i+1)
	return j
}

// server is a worker, as far as it concerns who asks.
type server struct {
	Worker  string     `json:"worker"`
	Machine string     `json:"machine"`
	Role    jobs.Stage `json:"role"`
	Model   string     `json:"model"`
	Engine  string     `json:"backend"`
	State   string     `json:"state"`
	Slots   int        `json:"slots"`
	Busy    int        `json:"busy"`
}

func (g *gateway) servers(w http.ResponseWriter, r *http.Request) error {
	workers, err := g.System.Workers(r.Context())
	if err != nil {
		return err
	}
	list := []server{}
	for _, p := range workers {
		if callerOf(r).may(p.Model) == nil {
			list = append(list, server{p.Worker, p.Machine, p.Role, p.Model, p.Engine, p.State, p.Slots, p.Busy})
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"servers": list})
}

// health answers whether requests are: 200 as long as one model at least has a worker that generates text.
func (g *gateway) health(w http.ResponseWriter, r *http.Request) error {
	workers, err := g.System.Workers(r.Context())
	if err != nil {
		return err
	}
	status, code := "down", http.StatusServiceUnavailable
	loaded := map[string]bool{}
	for _, p := range workers {
		loaded[p.Model] = loaded[p.Model] || p.Role == jobs.StageDecode && p.Live()
	}
	missing := 0
	for _, live := range loaded {
		if live {
			status, code = "ok", http.StatusOK
		} else {
			missing++
		}
	}
	if missing > 0 && code == http.StatusOK {
		status = "degraded"
	}
	return writeJSON(w, code, map[string]any{"status": status, "loaded": loaded})
}
