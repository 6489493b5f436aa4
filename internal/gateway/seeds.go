package gateway

import (
	"net/http"

	"tandem/jobs"
)

// seeds adds the API that Tandem's forerunners had, by which a script with curl asks.
func (g *gateway) seeds(mux *http.ServeMux) {
	add := func(pattern string, h handler) { g.handle(mux, pattern, ollamaError, h) }
	add("POST /generate", g.seedGenerate)
	add("GET /health", g.health)
	add("GET /servers", g.servers)
	for _, path := range []string{"/prefill", "/decode"} {
		add("POST "+path, func(http.ResponseWriter, *http.Request) error {
			return refuse(http.StatusNotImplemented, "path", "%s is a worker's: ask its own HTTP API, or POST /generate here, for which the pipeline does both", path)
		})
	}
}

// seedGenerate answers {"prompt", "max_tokens", "temperature"}; the model may be left out where there is but one.
func (g *gateway) seedGenerate(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Prompt      string   `json:"prompt"`
		Model       string   `json:"model"`
		MaxTokens   *int     `json:"max_tokens"`
		Temperature *float64 `json:"temperature"`
	}
	if err := read(w, r, &in); err != nil {
		return err
	}
	if in.Model == "" {
		list, err := g.models(r)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return refuse(http.StatusBadRequest, "model", "model is required: there are %d", len(list))
		}
		in.Model = list[0].name
	}
	j := &jobs.Job{Model: in.Model, Prompt: in.Prompt, Options: jobs.Options{NumPredict: in.MaxTokens, Temperature: in.Temperature}}
	result, err := g.run(w, r, j, nil)
	if err != nil {
		return err
	}
	setHeaders(w, result, "")
	return writeJSON(w, http.StatusOK, map[string]any{"response": result.Text, "generation_time": result.Timings.TotalSeconds, "model": result.Model, "tandem": metricsOf(result)})
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
