package handover

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/protocol"
)

const benchBytes = 1 << 30

// BenchmarkTransfer moves a state of 1 GB over loopback, and beside each transfer copies and hashes the same
// file locally: first copied then hashed by itself (as cp and sha256sum do), in one loop, and with the hash in
// a goroutine of its own. On one machine a transfer hashes twice, once for each side; "hashed" is a transfer
// whose digest was there before, as if the other side were another machine, and "https" the same with TLS. The
// fastest of each counts, since what else the machine does only slows them down.
func BenchmarkTransfer(b *testing.B) {
	dir := b.TempDir()
	master := filepath.Join(dir, "master")
	writeNoise(b, master, benchBytes)
	server := newServer(b, ServerConfig{Budget: 4 * benchBytes})
	client := newClient(b, ClientConfig{})

	ca := testCA(b, "bench")
	cert, key := ca.issue(b, "127.0.0.1")
	secure := newServer(b, ServerConfig{Budget: 4 * benchBytes, CertFile: cert, KeyFile: key})
	trusting := newClient(b, ClientConfig{CAFile: ca.file})

	ways := []struct {
		name string
		run  func() time.Duration
	}{
		{"separate", func() time.Duration { return timed(b, func() error { return copyThenHash(master, dir) }) }},
		{"series", func() time.Duration { return timed(b, func() error { return copyHash(master, dir) }) }},
		{"parallel", func() time.Duration { return timed(b, func() error { return copyHashParallel(master, dir) }) }},
		{"transfer", func() time.Duration { return fetchOnce(b, server, client, master, dir, false) }},
		{"hashed", func() time.Duration { return fetchOnce(b, server, client, master, dir, true) }},
		{"https", func() time.Duration { return fetchOnce(b, secure, trusting, master, dir, true) }},
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, w := range ways {
			took[w.name] = append(took[w.name], w.run())
		}
	}
	rate := func(name string) float64 {
		return benchBytes / slices.Min(took[name]).Seconds() / 1e9
	}
	b.ReportMetric(0, "ns/op")
	for _, w := range ways {
		b.ReportMetric(rate(w.name), w.name+"-GB/s")
	}
	for _, t := range []string{"transfer", "hashed", "https"} {
		for _, l := range []string{"separate", "series", "parallel"} {
			b.ReportMetric(rate(t)/rate(l), t+"/"+l)
		}
	}
}

// BenchmarkRebuild moves a state of 1 GB of which 60 % is rows that the receiver has, in 96 spans as of 48 layers, and whole. "At once" is
// fetched as soon as it is offered, so that the time in which the rows are named and the whole is hashed counts, for which both sides
// share one machine; "waited" was named and hashed before.
func BenchmarkRebuild(b *testing.B) {
	dir := b.TempDir()
	master := filepath.Join(dir, "master")
	writeNoise(b, master, benchBytes)
	var rows []protocol.Span
	for i := range int64(96) {
		rows = append(rows, protocol.Span{Offset: 1000 + i*(benchBytes/96), Bytes: benchBytes / 96 * 6 / 10})
	}
	server := newServer(b, ServerConfig{Budget: 4 * benchBytes})
	whole, part := newClient(b, ClientConfig{}), newClient(b, ClientConfig{Bases: 2 * benchBytes})
	fetchOnce(b, server, part, master, dir, true, rows...)
	part.bases.work.Wait()
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, c := range map[string]*Client{"whole": whole, "rebuilt": part} {
			took[name+"-at-once"] = append(took[name+"-at-once"], fetchOnce(b, server, c, master, dir, false, rows...))
			took[name+"-waited"] = append(took[name+"-waited"], fetchOnce(b, server, c, master, dir, true, rows...))
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, list := range took {
		b.ReportMetric(slices.Min(list).Seconds(), name+"-s")
	}
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// fetchOnce offers a second name of the file, since what is offered is removed in the end.
func fetchOnce(b *testing.B, server *Server, client *Client, master, dir string, hashed bool, rows ...protocol.Span) time.Duration {
	b.Helper()
	path := filepath.Join(dir, "offered")
	if err := os.Link(master, path); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	state, err := server.Offer("job", path, rows...)
	state.Prefix = len(rows)
	if err != nil {
		b.Fatal(err)
	}
	if hashed {
		_, id, _ := strings.Cut(state.URL, statePath)
		<-server.leases.find(id, state.Token).digest.ready
		start = time.Now()
	}
	got, err := client.Fetch(b.Context(), &state, dir, "bench-", nil)
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.Remove(got.Path); err != nil {
		b.Fatal(err)
	}
	server.Release("job")
	return took
}

func copyThenHash(src, dir string) error {
	return withCopy(src, dir, func(dst, src *os.File) error {
		if _, err := io.Copy(dst, src); err != nil {
			return err
		}
		if _, err := dst.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.CopyBuffer(sha256.New(), struct{ io.Reader }{dst}, make([]byte, pieceBytes))
		return err
	})
}

func copyHash(src, dir string) error {
	return withCopy(src, dir, func(dst, src *os.File) error {
		w := struct{ io.Writer }{io.MultiWriter(dst, sha256.New())}
		_, err := io.CopyBuffer(w, struct{ io.Reader }{src}, make([]byte, pieceBytes))
		return err
	})
}

func copyHashParallel(src, dir string) error {
	return withCopy(src, dir, func(dst, src *os.File) error {
		h := newHasher()
		defer h.close()
		for {
			buf := h.buffer()
			n, err := src.Read(buf)
			h.add(buf[:n])
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}

func withCopy(src, dir string, f func(dst, src *os.File) error) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "copy"))
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	return f(out, in)
}

// writeNoise writes a file without holes.
func writeNoise(tb testing.TB, path string, bytes int64) {
	tb.Helper()
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{}), bytes); err != nil {
		tb.Fatal(fmt.Errorf("write %s: %w", path, err))
	}
}
