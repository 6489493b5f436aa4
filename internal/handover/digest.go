package handover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// digest is the SHA-256 of a file, computed when somebody calls compute. The file was just written, so
// it is read from the page cache.
type digest struct {
	file  *os.File
	bytes int64
	ready chan struct{} // closed when hex is set
	hex   string
}

func newDigest(file *os.File, bytes int64) *digest {
	return &digest{file: file, bytes: bytes, ready: make(chan struct{})}
}

// compute reads the whole file. It gives up when ctx ends.
func (d *digest) compute(ctx context.Context) error {
	h := sha256.New()
	buf := make([]byte, pieceBytes)
	var total int64
	for ctx.Err() == nil {
		n, err := d.file.Read(buf)
		h.Write(buf[:n])
		total += int64(n)
		switch {
		case err == io.EOF && total == d.bytes:
			d.hex = hex.EncodeToString(h.Sum(nil))
			close(d.ready)
			return nil
		case err == io.EOF || total > d.bytes:
			return fmt.Errorf("read %s: it has %d bytes now, and had %d when it was offered", d.file.Name(), total, d.bytes)
		case err != nil:
			return err
		}
	}
	return ctx.Err()
}

func (d *digest) close() { _ = d.file.Close() } // was only read

// parseDigest reports whether an answer is a SHA-256 in hex.
func parseDigest(answer []byte) (string, bool) {
	if len(answer) != hex.EncodedLen(sha256.Size) {
		return "", false
	}
	sum, err := hex.DecodeString(string(answer))
	return hex.EncodeToString(sum), err == nil
}
