package handover

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// The ring through which a transfer goes: its memory, whatever the state's size.
const (
	pieceBytes = 512 << 10
	pieces     = 4
)

// hasher computes a SHA-256 in a goroutine of its own, so that a transfer takes the longer of moving and
// hashing, not their sum. One goroutine uses it: it takes a buffer, fills it, adds it, and may go on
// reading it until it takes the next.
type hasher struct {
	free, full chan []byte
	done       sync.WaitGroup
	end        func()
	hash       hash.Hash
}

func newHasher() *hasher {
	h := &hasher{free: make(chan []byte, pieces), full: make(chan []byte, pieces), hash: sha256.New()}
	for range pieces {
		h.free <- make([]byte, pieceBytes)
	}
	h.done.Go(func() {
		for piece := range h.full {
			h.hash.Write(piece)
			h.free <- piece[:cap(piece)]
		}
	})
	h.end = sync.OnceFunc(func() { close(h.full) })
	return h
}

// buffer waits for a buffer. It must be added, however little is in it.
func (h *hasher) buffer() []byte { return <-h.free }

func (h *hasher) add(piece []byte) { h.full <- piece }

// sum ends the hashing; nothing can be added then.
func (h *hasher) sum() string {
	h.close()
	return hex.EncodeToString(h.hash.Sum(nil))
}

func (h *hasher) close() {
	h.end()
	h.done.Wait()
}
