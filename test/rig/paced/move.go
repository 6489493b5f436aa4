package paced

import (
	"cmp"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// moveSlot saves, restores or erases a slot's state, when the slot is idle. The file is written or read meanwhile, and for no less
// time than the table says.
func (s *Server) moveSlot(w http.ResponseWriter, r *http.Request) {
	came := s.loop.elapsed()
	var q struct {
		Filename string `json:"filename"`
	}
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 0 {
		refuse(w, http.StatusBadRequest, "Invalid slot ID")
		return
	}
	if !read(w, r, &q) {
		return
	}
	action := Kind(r.URL.Query().Get("action"))
	if named := q.Filename != "" && filepath.Base(q.Filename) == q.Filename; !named && action != erase {
		refuse(w, http.StatusBadRequest, "Invalid filename")
		return
	}
	t := newTask(id)
	t.move = action
	path := filepath.Join(s.options.Dir, q.Filename)
	var work func(held []int32) (int64, error)
	switch action {
	case Save:
		work = func(held []int32) (int64, error) { return s.shape.save(path, held, id%len(s.loop.slots)) }
	case Restore:
		if t.prompt, err = stateTokens(path); err != nil || len(t.prompt) > s.options.Context {
			refuse(w, http.StatusBadRequest, noRestore)
			return
		}
		work = func([]int32) (int64, error) { return s.shape.verify(path, t.prompt) }
	case erase:
		work = func([]int32) (int64, error) { return 0, nil }
	default:
		refuse(w, http.StatusBadRequest, "Invalid action")
		return
	}
	bytes, tokens, err := s.perform(t, came, work)
	if err != nil {
		refuse(w, http.StatusBadRequest, cmp.Or(map[Kind]string{Restore: noRestore}[action], err.Error()))
		return
	}
	took := milliseconds(s.loop.elapsed() - came)
	switch action {
	case Save:
		reply(w, map[string]any{"id_slot": id, "filename": q.Filename, "n_saved": tokens, "n_written": bytes, "timings": map[string]any{"save_ms": took}})
	case Restore:
		reply(w, map[string]any{"id_slot": id, "filename": q.Filename, "n_restored": tokens, "n_read": bytes, "timings": map[string]any{"restore_ms": took}})
	default:
		reply(w, map[string]any{"id_slot": id, "n_erased": tokens})
	}
}

// noRestore is what llama-server says of every file that it cannot restore.
const noRestore = "Unable to restore slot: No available space in KV cache or invalid slot save file"

// perform has the task done and works meanwhile. Nobody's leaving ends it: a state is written to its end.
func (s *Server) perform(t *task, came time.Duration, work func(held []int32) (int64, error)) (bytes int64, tokens int, err error) {
	if err := s.loop.submit(t, came); err != nil {
		return 0, 0, err
	}
	worked := false
	for {
		var now report
		select {
		case now = <-t.latest:
		case <-s.loop.ended:
			return 0, 0, errEnded
		}
		if !worked {
			bytes, err = work(now.held)
			worked, tokens = true, len(now.held)
		}
		if now.finished {
			break
		}
	}
	if t.move == Restore && err == nil {
		tokens = len(t.prompt)
		err = s.loop.do(func() {
			if t.slot.task == nil {
				t.slot.held = t.prompt
			}
		})
	}
	return bytes, tokens, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
