package llamacpp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tandem/internal/atomicfile"
)

// digests computes the SHA-256 of model files in the background, since that takes a minute for a large
// one, once for the same path, size and time.
type digests struct {
	dir string // where they are remembered for the next start; empty: nowhere
	log *slog.Logger

	ctx   context.Context // ends with close
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu   sync.Mutex
	sums map[string]*sum // by path, size and time
}

// sum is a digest that is being computed.
type sum struct {
	done chan struct{}
	hex  string // set before done is closed; empty if it cannot be had
}

// known is the digest in hex, or empty if it is not known (yet).
func (s *sum) known() string {
	if s.settled() {
		return s.hex
	}
	return ""
}

// settled reports whether the digest is known, or cannot be.
func (s *sum) settled() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// wait waits until the digest is known, or cannot be.
func (s *sum) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// noSum is the digest of a file that is not here.
func noSum() *sum {
	s := &sum{done: make(chan struct{})}
	close(s.done)
	return s
}

func newDigests(dir string, log *slog.Logger) *digests {
	d := &digests{dir: dir, log: log, sums: map[string]*sum{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// close ends what is being computed.
func (d *digests) close() {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.tasks.Wait()
}

// of returns the digest of a model: of its file or, if there are several, of all of them in order.
func (d *digests) of(path string) *sum {
	files, key, err := identify(path)
	if err != nil {
		d.log.Warn("the model file's digest is not known", "error", err)
		return noSum()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sums[key]; s != nil {
		return s
	}
	s := &sum{done: make(chan struct{})}
	d.sums[key] = s
	if d.ctx.Err() != nil {
		close(s.done)
		return s
	}
	d.tasks.Go(func() {
		defer close(s.done)
		var err error
		if s.hex, err = d.find(key, files); err != nil && d.ctx.Err() == nil {
			d.log.Warn("the model file's digest is not known", "error", err)
		}
	})
	return s
}

// find returns the digest that was remembered under the key, or computes and remembers it.
func (d *digests) find(key string, files []string) (string, error) {
	if d.dir == "" {
		return d.compute(files)
	}
	name := sha256.Sum256([]byte(key))
	remembered := filepath.Join(d.dir, "model-"+hex.EncodeToString(name[:8])+".sha256")
	line, _ := os.ReadFile(remembered) // what cannot be read is computed
	if found, of, _ := strings.Cut(string(line), " "); of == key {
		return found, nil
	}
	found, err := d.compute(files)
	if err != nil {
		return "", err
	}
	if err := atomicfile.Write(remembered, []byte(found+" "+key), 0o600); err != nil {
		d.log.Warn("the model file's digest will be computed again at the next start", "error", err)
	}
	return found, nil
}

func (d *digests) compute(files []string) (string, error) {
	h := sha256.New()
	for _, name := range files {
		if err := d.add(h, name); err != nil {
			return "", fmt.Errorf("read model file: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (d *digests) add(h io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for buf := make([]byte, 1<<20); d.ctx.Err() == nil; {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return d.ctx.Err()
}

// identify lists the files of a model, given the first (llama.cpp splits one as
// NAME-00001-of-00003.gguf), and a key that changes whenever one of them does.
func identify(path string) (files []string, key string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, "", fmt.Errorf("find model file: %w", err)
	}
	files = []string{path}
	if before, count, split := strings.Cut(path, "-00001-of-"); split {
		quote := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace
		if files, err = filepath.Glob(quote(before) + "-[0-9][0-9][0-9][0-9][0-9]-of-" + quote(count)); err != nil {
			return nil, "", fmt.Errorf("find model files: %w", err)
		}
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return nil, "", fmt.Errorf("find model file: %w", err)
		}
		key += fmt.Sprintf("%s %d %d\n", f, info.Size(), info.ModTime().UnixNano())
	}
	return files, key, nil
}
