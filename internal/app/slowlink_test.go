package app_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tandem/internal/app"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// slowLink returns the URL of a way to the server over which bytes come back at so many a second.
func slowLink(t *testing.T, server string, perSecond int) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var links sync.WaitGroup
	t.Cleanup(links.Wait)
	t.Cleanup(func() { l.Close() })
	links.Go(func() {
		for {
			near, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			far, err := net.Dial("tcp", to.Host)
			if err != nil {
				near.Close()
				continue
			}
			links.Go(func() {
				defer far.Close()
				_, _ = io.Copy(far, near) // until either side hangs up
			})
			links.Go(func() {
				defer near.Close()
				beat := time.NewTicker(10 * time.Millisecond)
				defer beat.Stop()
				for {
					if _, err := io.CopyN(near, far, int64(perSecond/100)); err != nil {
						return
					}
					<-beat.C
				}
			})
		}
	})
	return "nats://" + l.Addr().String()
}

func TestSlowTransferIsAWarning(t *testing.T) {
	s, p, d := newSystem(t), fake(t), fake(t)
	roomy := func(f *app.WorkerFlags) { f.NumCtx = 1 << 20 }
	s.worker(protocol.RolePrefill, p.URL(), roomy)
	s.worker(protocol.RoleDecode, d.URL(), roomy, func(f *app.WorkerFlags) { f.NATS = slowLink(t, s.nats.URL(), 200_000) })
	if r := s.await(s.submit(s.job("a short one"))); len(r.Warnings) != 0 || r.Timings.TransferSeconds > 1 {
		t.Errorf("short: warnings %q, transfer of %v s", r.Warnings, r.Timings.TransferSeconds)
	}
	r := s.await(s.submit(s.job(strings.Repeat("0123456789", 27_000))))
	if r.Status != jobs.Succeeded || r.Method != jobs.MethodDisaggregated || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "Slow context transfer: ") {
		t.Errorf("long: %s by %s, warnings %q, transfer of %v s", r.Status, r.Method, r.Warnings, r.Timings.TransferSeconds)
	}
	if r.Timings.TransferSeconds < 1 {
		t.Errorf("transfer of %v s at 200 KB/s for 270 KB; want more than one", r.Timings.TransferSeconds)
	}
}
