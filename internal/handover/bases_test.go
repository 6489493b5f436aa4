package handover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tandem/internal/protocol"
)

// kept has rows of so many bytes kept, which nobody else has.
func kept(t *testing.T, b *bases, seed uint64, bytes int) *prefix {
	t.Helper()
	content, rows := layered(seed, seed, 1, bytes, 10)
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	name, err := copyRows(t.Context(), new(strings.Builder), file, rows)
	if err != nil {
		t.Fatal(err)
	}
	p := &prefix{Name: name, Rows: rows}
	found, turn, err := b.take(t.Context(), p, func() {})
	if found != nil || err != nil {
		t.Fatalf("found %v, %v before it was kept", found, err)
	}
	b.keep(p, file, t.TempDir(), "x-", 0, turn)
	b.work.Wait()
	return p
}

// has reports whether rows are kept, and uses them.
func has(t *testing.T, b *bases, p *prefix) bool {
	t.Helper()
	found, turn, err := b.take(t.Context(), p, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if turn != nil {
		turn()
	}
	if found != nil {
		b.giveBack(found)
	}
	return found != nil
}

// Rows that are not used make room for others, and are dropped after a while.
func TestBasesWithinTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBases(1000, time.Minute, slog.New(slog.DiscardHandler))
		defer b.close()
		one, two := kept(t, b, 1, 400), kept(t, b, 2, 400)
		if !has(t, b, two) || !has(t, b, one) {
			t.Fatal("one of two that fit is gone")
		}
		three := kept(t, b, 3, 400)
		if !has(t, b, one) || has(t, b, two) || !has(t, b, three) {
			t.Error("want the one dropped that was not used for the longest time")
		}
		large := &prefix{Name: "large", Rows: []protocol.Span{{Bytes: 1001}}}
		if found, turn, err := b.take(t.Context(), large, nil); found != nil || err != nil || turn != nil {
			t.Error("a turn to fetch what is never kept", found, err)
		}
		if _, waits := b.coming["large"]; waits {
			t.Error("others wait for rows that are never kept")
		}

		time.Sleep(50 * time.Second)
		used, _, _ := b.take(t.Context(), one, nil)
		time.Sleep(50 * time.Second)
		if has(t, b, three) || !has(t, b, one) {
			t.Error("want the one dropped that was not used for a minute, and the other kept")
		}
		time.Sleep(time.Hour)
		if _, err := used.file.Stat(); err != nil {
			t.Errorf("rows are gone while they are used: %v", err)
		}
		b.giveBack(used)
		time.Sleep(time.Hour)
		if _, err := used.file.Stat(); err == nil || has(t, b, one) {
			t.Error("want it dropped an hour after its last use")
		}
	})
}

// Rows that cannot be kept are not waited for again and again.
func TestBaseThatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		b := newBases(1000, time.Minute, book.log())
		defer b.close()
		content, rows := layered(1, 1, 1, 400, 10)
		path := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for what, make := range map[string]func(p *prefix, file *os.File, turn func()){
			"another name":   func(p *prefix, file *os.File, turn func()) { b.keep(p, file, t.TempDir(), "x-", 0, turn) },
			"no room":        func(p *prefix, file *os.File, turn func()) { b.keep(p, file, t.TempDir(), "x-", 1<<60, turn) },
			"no such folder": func(p *prefix, file *os.File, turn func()) { b.keep(p, file, "/nowhere", "x-", 0, turn) },
		} {
			p := &prefix{Name: what, Rows: rows}
			_, turn, err := b.take(t.Context(), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			make(p, file, turn)
			b.work.Wait()
			if _, err := file.Stat(); err == nil {
				t.Errorf("%s: the file is still open", what)
			}
			if has(t, b, p) || len(b.coming) > 0 || strings.Count(book.String(), "WARN") == 0 {
				t.Errorf("%s: kept, waited for, or nothing was said", what)
			}
			time.Sleep(time.Minute + time.Second)
		}
		kept(t, b, 7, 400) // another time
	})
}

// If the one whose rows others wait for does not come, these fetch whole states, all at once and without a turn; the next one has it. Whoever
// waits shows signs of life, and may be ended.
func TestRowsThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBases(1000, time.Minute, slog.New(slog.DiscardHandler))
		defer b.close()
		p := &prefix{Name: "rows", Rows: []protocol.Span{{Bytes: 400}}}
		_, turn, err := b.take(t.Context(), p, nil)
		if turn == nil || err != nil || !b.holds("rows") {
			t.Fatalf("the first has no turn: %v", err)
		}
		ended := errors.New("the job was cancelled")
		ctx, cancel := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				steps := 0
				with, want := t.Context(), error(nil)
				if i == 0 {
					with, want = ctx, ended
				}
				found, turn, err := b.take(with, p, func() { steps++ })
				if found != nil || turn != nil || err != want || steps < 2 {
					t.Errorf("found %v, turn %t, error %v after %d signs of life; want nothing, and error %v", found, turn != nil, err, steps, want)
				}
			})
		}
		time.Sleep(2500 * time.Millisecond)
		cancel(ended)
		synctest.Wait()
		turn()
		all.Wait()
		if _, turn, err := b.take(t.Context(), p, nil); turn == nil || err != nil {
			t.Errorf("the next has no turn: %v", err)
		} else {
			turn()
		}
		if b.holds("rows") {
			t.Error("holds what nobody fetches")
		}
	})
}
