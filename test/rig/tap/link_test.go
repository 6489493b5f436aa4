package tap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// echo is a server that says what it hears, and ends its half when the other half has ended.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(c, c) // cut off in some tests
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func listenRaw(t *testing.T, target string) *Tap {
	t.Helper()
	tp, err := ListenRaw(target)
	return open(t, tp, err)
}

func dial(t *testing.T, tp *Tap) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", tp.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// wired is a tap with both ends of a connection over it.
func wired(t *testing.T) (tp *Tap, client, target *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	tp = listenRaw(t, l.Addr().String())
	client = dial(t, tp)
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return tp, client, accepted.(*net.TCPConn)
}

// exchange says something and waits for the echo.
func exchange(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	heard(t, c, text)
}

func heard(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// silence makes sure that nothing comes, for as long as one cares to listen.
func silence(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes, %v; want a reset", n, err)
	}
}

// wantRefused connects, and is reset at once: in the connecting already, or after it.
func wantRefused(t *testing.T, tp *Tap) {
	t.Helper()
	c, err := net.Dial("tcp", tp.Addr())
	if err == nil {
		defer func() { _ = c.Close() }()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connecting gave %v, want a reset", err)
	}
}

func wantEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %d bytes, %v; want the end", n, err)
	}
}

func TestRawHalves(t *testing.T) {
	for name, weather := range map[string]Conditions{"fair": {}, "slow": {Delay: 20 * time.Millisecond}, "narrow": {BytesPerSecond: 10 << 20}} {
		t.Run(name, func(t *testing.T) {
			tp := listenRaw(t, echo(t))
			tp.Set(weather)
			c := dial(t, tp)
			text := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
			var sent sync.WaitGroup
			sent.Go(func() {
				if _, err := c.Write(text); err != nil {
					t.Error(err)
				}
				if err := c.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			got, err := io.ReadAll(c)
			sent.Wait()
			if err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes came back, %v; want the same %d", len(got), err, len(text))
			}
		})
	}
}

func TestDelay(t *testing.T) {
	const delay = 100 * time.Millisecond
	tp := listenRaw(t, echo(t))
	c := dial(t, tp)
	exchange(t, c, "before")
	tp.Set(Conditions{Delay: delay})
	began := time.Now()
	var want strings.Builder
	for i := range 50 {
		piece := fmt.Sprintf("piece %d;", i)
		want.WriteString(piece)
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
	}
	heard(t, c, want.String())
	if took := time.Since(began); took < 2*delay {
		t.Errorf("there and back took %v, want at least %v", took, 2*delay)
	}

	// What is under way when the weather clears is not held up any more.
	tp.Set(Conditions{Delay: 10 * testTimeout})
	if _, err := io.WriteString(c, "under way"); err != nil {
		t.Fatal(err)
	}
	silence(t, c)
	tp.Set(Conditions{})
	heard(t, c, "under way")
	exchange(t, c, "after")
}

func TestBytesPerSecond(t *testing.T) {
	const rate = 1 << 20
	tp := listenRaw(t, echo(t))
	tp.Set(Conditions{BytesPerSecond: rate})
	text := bytes.Repeat([]byte("x"), rate/4)
	began := time.Now()
	var all sync.WaitGroup
	for range 2 { // they share the wire
		c := dial(t, tp)
		all.Go(func() { _, _ = c.Write(text) }) // seen below
		all.Go(func() {
			if _, err := io.ReadFull(c, make([]byte, len(text))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < time.Second/2 {
		t.Errorf("half of what passes in a second took %v", took)
	}
}

// TestMeterTakesNoTimeForLateness holds the wire to its rate where whoever sends wakes up late, as timers do after every piece.
func TestMeterTakesNoTimeForLateness(t *testing.T) {
	var m meter
	written := time.Now().Add(-time.Second)
	for i := range 3 {
		want := written.Add(time.Duration(i+1) * 100 * time.Millisecond)
		if got := m.reserve(written, 100, 1000); !got.Equal(want) {
			t.Errorf("piece %d has passed %v after it was written, want %v", i, got.Sub(written), want.Sub(written))
		}
	}
	idle := written.Add(10 * time.Second)
	if got, want := m.reserve(idle, 100, 1000), idle.Add(100*time.Millisecond); !got.Equal(want) {
		t.Errorf("a piece after a pause has passed at %v, want %v", got, want)
	}
}

func TestCarried(t *testing.T) {
	tp := listenRaw(t, echo(t))
	exchange(t, dial(t, tp), "once")
	tp.Set(Conditions{BytesPerSecond: 1 << 20})
	exchange(t, dial(t, tp), "and again")
	if to, from := tp.Carried(); to != 13 || from != 13 {
		t.Errorf("Carried() = %d, %d; 13 bytes were sent, and came back", to, from)
	}
}

func TestDrop(t *testing.T) {
	tp := listenRaw(t, echo(t))
	old, leaving := dial(t, tp), dial(t, tp)
	exchange(t, old, "before")
	exchange(t, leaving, "before")
	tp.Set(Conditions{Drop: true})
	if _, err := io.WriteString(old, "lost?"); err != nil {
		t.Fatal(err)
	}
	if err := leaving.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	fresh := dial(t, tp)
	if _, err := io.WriteString(fresh, "hello?"); err != nil {
		t.Fatal(err)
	}
	silence(t, old)
	silence(t, leaving)
	silence(t, fresh)
	tp.Set(Conditions{})
	heard(t, old, "lost?")
	heard(t, fresh, "hello?")
	wantEnd(t, leaving)
}

func TestDropHidesTheTargetsEnd(t *testing.T) {
	tp, c, target := wired(t)
	tp.Set(Conditions{Drop: true})
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	silence(t, c)
	tp.Set(Conditions{})
	wantEnd(t, c)
}

func TestRefuse(t *testing.T) {
	tp := listenRaw(t, echo(t))
	old := dial(t, tp)
	exchange(t, old, "before")
	tp.Set(Conditions{Refuse: true})
	wantRefused(t, tp)
	exchange(t, old, "still there")
	tp.Set(Conditions{})
	exchange(t, dial(t, tp), "after")
}

func TestCutAndReset(t *testing.T) {
	for name, weather := range map[string]Conditions{"fair": {}, "dropping": {Drop: true}, "slow": {Delay: testTimeout}} {
		t.Run(name, func(t *testing.T) {
			tp := listenRaw(t, echo(t))
			a, b := dial(t, tp), dial(t, tp)
			exchange(t, a, "a")
			exchange(t, b, "b")
			tp.Set(weather)
			tp.Cut()
			wantEnd(t, a)
			wantEnd(t, b)
			tp.Set(Conditions{})
			c := dial(t, tp)
			exchange(t, c, "c")
			tp.Set(weather)
			tp.Reset()
			wantReset(t, c)
		})
	}
}

func TestResetPasses(t *testing.T) {
	_, c, target := wired(t)
	if err := target.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	wantReset(t, c)
}

func TestTargetDownAndElsewhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tp := listenRaw(t, l.Addr().String())
	wantRefused(t, tp)
	tp.SetTarget(echo(t))
	exchange(t, dial(t, tp), "found")
}

func TestCloseEndsAll(t *testing.T) {
	for name, weather := range map[string]Conditions{"fair": {}, "dropping": {Drop: true}, "slow": {Delay: testTimeout}, "narrow": {BytesPerSecond: 1}} {
		t.Run(name, func(t *testing.T) {
			tp, err := ListenRaw(echo(t))
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, tp)
			exchange(t, c, "before")
			tp.Set(weather)
			if _, err := c.Write(make([]byte, 300<<10)); err != nil {
				t.Fatal(err)
			}
			fresh := dial(t, tp)
			if err := tp.Close(); err != nil {
				t.Error(err)
			}
			if err := tp.Close(); err != nil {
				t.Errorf("closed again: %v", err)
			}
			for _, c := range []net.Conn{c, fresh} {
				if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
			}
			if c, err := net.Dial("tcp", tp.Addr()); err == nil {
				_ = c.Close()
				t.Error("a closed tap took a connection")
			}
		})
	}
}

func TestTargetMustBeAnAddress(t *testing.T) {
	if _, err := ListenRaw("nats://x"); err == nil {
		t.Error("ListenRaw took an address without a port")
	}
}
