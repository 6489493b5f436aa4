package llamacpp

import (
	le "encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tandem/internal/engine"
)

// wedge has a server read a state that makes it fail every further request, as nothing of ours would.
func wedge(t *testing.T, e *Engine) {
	t.Helper()
	dir := e.options.SlotDir
	s, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call := func(action string) {
		t.Helper()
		if err := s.Call(t.Context(), "/slots/0?action="+action, map[string]string{"filename": "forged"}, &struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	generate(t, e, ask(prose(1, 40), 4))
	call("save")
	path := filepath.Join(dir, "forged")
	state, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cells := 12 + 4*int(le.LittleEndian.Uint32(state[8:])) + 8
	le.LittleEndian.PutUint32(state[cells+12*3:], 0x7fffffff) // a position
	if err := os.WriteFile(path, state, 0o600); err != nil {
		t.Fatal(err)
	}
	call("restore")
	if _, err := e.Generate(t.Context(), ask(prose(2, 40), 4), ignore); err == nil {
		t.Fatal("the server goes on to answer")
	}
}

// A server that fails every request is started again if it is ours; another one is down until somebody does that.
func TestServerThatFailsEverybody(t *testing.T) {
	for _, ours := range []bool{true, false} {
		t.Run(fmt.Sprint("ours ", ours), func(t *testing.T) {
			var e *Engine
			if ours {
				e = supervised(t, Options{StateDir: t.TempDir()})
			} else {
				dir := t.TempDir()
				e = attach(t, Options{SlotDir: dir}, "--ctx-size", "1024", "--slot-save-path", dir, "--parallel", "1")
			}
			m := engine.NewMonitor(e, 50*time.Millisecond, slog.New(slog.NewTextHandler(t.Output(), nil)))
			if err := m.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			wedge(t, e)
			if err := m.Check(t.Context()); err != nil {
				t.Errorf("it says of itself: %v; want that it is well", err)
			}
			var sick error
			for i := range 2 {
				_, err := e.Generate(t.Context(), ask(prose(uint64(3+i), 40), 4), ignore)
				if err == nil {
					t.Fatal("an honest request is answered")
				}
				if sick = m.Failed(t.Context(), fmt.Sprint("job ", i), err); (sick != nil) != (i == 1) {
					t.Errorf("after %d failures: %v", i+1, sick)
				}
			}
			if !ours {
				if err := m.Check(t.Context()); err == nil || m.Health().State != engine.Down || m.Health().Problem != sick.Error() {
					t.Errorf("a server that is not ours: %v, %+v; want it down because %v", err, m.Health(), sick)
				}
				return
			}
			until(t, "the server is well again", func() bool { return m.Check(t.Context()) == nil })
			generate(t, e, ask(prose(9, 40), 4))
		})
	}
}
