// Package paced is an engine for benchmarks of plans: a look-alike of llama-server that computes nothing and takes as long
// for a prompt, a token and a state as a table of [fleet] says, times scaled. Its states are files in llama-server's format, and
// are moved for real; its texts mean nothing, but follow from the prompt, so that a lost or mixed-up state shows.
//
// A token is four bytes of text. An answer has as many tokens as the number after the last "answer:" of the prompt says, else 32.
// Beside what a worker asks of a llama-server there is /paced: GET is a [Timeline] of the slots, DELETE forgets it, and POST
// {"slower": 3} makes the machine three times slower from now on.
//
// It is more lenient than llama-server in one way: the cache of a model with a sliding window can be stepped back, too.
package paced

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"tandem/test/rig/paced/fleet"
)

// Options describe a server.
type Options struct {
	Fleet     *fleet.Fleet
	Machine   string  // of the fleet
	Dir       string  // of the states, and of the model file; absolute
	TimeScale float64 // of all durations; 0 is 1
	SizeScale float64 // of the bytes of states, but not of how long they take; 0 is 1
	Slower    bool    // as the machine has become since it was measured
	Context   int     // tokens of each slot; 0 is 65,536
	Answer    int     // tokens of an answer of which the prompt says nothing; 0 is 32
}

// Server is a running one.
type Server struct {
	options Options
	shape   shape
	loop    *loop
	start   string // another one at each start
	model   string // path of the model file

	url  string
	http *http.Server
	stop context.CancelFunc // of all requests
	halt chan struct{}      // closed when the loop is to end
	work sync.WaitGroup
}

// Start starts a server on an address such as 127.0.0.1:0, which runs until Close.
func Start(addr string, o Options) (*Server, error) {
	o.TimeScale, o.SizeScale = cmp.Or(o.TimeScale, 1), cmp.Or(o.SizeScale, 1)
	o.Context, o.Answer = cmp.Or(o.Context, 65536), cmp.Or(o.Answer, 32)
	if o.TimeScale < 0 || o.SizeScale < 0 || o.Context < 1 || o.Answer < 1 || !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("start paced engine: time scale %v, size scale %v, context %d, answer %d, folder %q; want positive numbers and an absolute path", o.TimeScale, o.SizeScale, o.Context, o.Answer, o.Dir)
	}
	m, err := o.Fleet.Machine(o.Machine)
	if err != nil {
		return nil, fmt.Errorf("start paced engine: %w", err)
	}
	slower := 1.0
	if o.Slower {
		slower = cmp.Or(m.Slower, 1)
	}
	s := &Server{
		options: o, shape: shapeOf(o.Fleet, m.Slots, o.SizeScale), loop: newLoop(o.Fleet, m, o.TimeScale, slower),
		model: filepath.Join(o.Dir, "model.gguf"), start: fmt.Sprintf("<__media_%d__>", time.Now().UnixNano()), halt: make(chan struct{}),
	}
	if err := s.shape.writeModel(s.model); err != nil {
		return nil, fmt.Errorf("start paced engine: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start paced engine: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.url, s.stop = "http://"+l.Addr().String(), stop
	s.http = &http.Server{Handler: s.routes(), BaseContext: func(net.Listener) context.Context { return ctx }}
	s.work.Go(func() { s.loop.run(s.halt) })
	s.work.Go(func() { _ = s.http.Serve(l) }) // it ends with Close
	return s, nil
}

// URL is where the server listens.
func (s *Server) URL() string { return s.url }

// Close ends all requests and then the server.
func (s *Server) Close() {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.http.Shutdown(ctx) // returns once the requests have ended, or
	_ = s.http.Close()       // ends the connections
	close(s.halt)
	s.work.Wait()
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]any{"status": "ok"}) })
	mux.HandleFunc("GET /props", s.props)
	mux.HandleFunc("GET /lora-adapters", func(w http.ResponseWriter, _ *http.Request) { reply(w, []any{}) })
	mux.HandleFunc("GET /slots", s.listSlots)
	mux.HandleFunc("POST /slots/{id}", s.moveSlot)
	mux.HandleFunc("POST /tokenize", s.tokenize)
	mux.HandleFunc("POST /apply-template", s.applyTemplate)
	mux.HandleFunc("POST /completion", func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.complete(w, r, true) })
	mux.HandleFunc("GET /paced", s.timeline)
	mux.HandleFunc("DELETE /paced", s.forget)
	mux.HandleFunc("POST /paced", s.change)
	return mux
}

func (s *Server) props(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{
		"build_info": "paced", "model_path": s.model, "model_alias": s.options.Fleet.Model, "total_slots": len(s.loop.slots), "media_marker": s.start,
		"default_generation_settings": map[string]any{"n_ctx": s.options.Context},
	})
}

func (s *Server) listSlots(w http.ResponseWriter, _ *http.Request) {
	type state struct {
		ID         int    `json:"id"`
		Task       uint64 `json:"id_task,omitempty"` // the last one, if there was one
		Context    int    `json:"n_ctx"`
		Processing bool   `json:"is_processing"`
	}
	var list []state
	s.ask(w, func() any {
		for _, slot := range s.loop.slots {
			list = append(list, state{slot.id, slot.used, s.options.Context, slot.task != nil})
		}
		return list
	})
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Content string `json:"content"`
	}
	if read(w, r, &q) {
		reply(w, map[string]any{"tokens": tokens(q.Content)})
	}
}

func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []message `json:"messages"`
	}
	if read(w, r, &q) {
		reply(w, map[string]any{"prompt": render(q.Messages)})
	}
}

func (s *Server) timeline(w http.ResponseWriter, _ *http.Request) {
	s.ask(w, func() any { return s.loop.timeline() })
}

func (s *Server) forget(w http.ResponseWriter, _ *http.Request) {
	s.ask(w, func() any { s.loop.forget(); return struct{}{} })
}

func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Slower float64 `json:"slower"`
	}
	if !read(w, r, &q) {
		return
	}
	if q.Slower <= 0 {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("slower is %v; want a factor above 0", q.Slower))
		return
	}
	s.ask(w, func() any { s.loop.slower = q.Slower; return q })
}

// ask replies with what the loop says.
func (s *Server) ask(w http.ResponseWriter, f func() any) {
	var v any
	if err := s.loop.do(func() { v = f() }); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	reply(w, v)
}

// read reads the body of a request, or refuses it.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(v); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // to who has left
}

// problem is how llama-server says no.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Prompt  int    `json:"n_prompt_tokens,omitempty"`
	Context int    `json:"n_ctx,omitempty"`
}

func (p problem) reply(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Code)
	_ = json.NewEncoder(w).Encode(map[string]problem{"error": p})
}

func refuse(w http.ResponseWriter, code int, message string) {
	problem{Code: code, Message: message, Type: "invalid_request_error"}.reply(w)
}
