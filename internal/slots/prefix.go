package slots

import (
	"encoding/binary"
	"slices"

	"tandem/internal/protocol"
)

const (
	// rowsApart is how many of a shared prefix's last rows are left to each state where a cache cannot be stepped back: llama-server
	// goes on from its checkpoint, a few tokens before the prefix' end, and computes these rows anew for each prompt.
	rowsApart = 8
	// rowsRounded is what the number of a prefix' rows is a multiple of. Where two prompts go different ways, the last tokens of what they
	// share may be cut in another way too.
	rowsRounded = 16
	// leastRows is the part of a state, one in so many, that a prefix has if it is worth being left out.
	leastRows = 5
)

// prefix is how many of the first rows of the slot's state may be equal in the states of other prompts: what the prompt shares with others,
// as Prefill found, less what is not sure. 0: too few to care.
func (sl *Slot) prefix() int {
	n := sl.common
	if !sl.server.config.plain() {
		n -= rowsApart
	}
	if n -= n % rowsRounded; n < leastShared {
		return 0
	}
	return n
}

// worth returns the spans if they are much of a file of so many bytes, and else nil.
func worth(spans []protocol.Span, bytes int64) []protocol.Span {
	var sum int64
	for _, s := range spans {
		sum += s.Bytes
	}
	if sum*leastRows < bytes {
		return nil
	}
	return spans
}

// beginsWith returns how many rows of the part that begins here are of the wanted positions: all of these, if its cells begin
// with them in their order, and else 0, as in the part of a window that has moved on.
func (s *stateReader) beginsWith(cells int64) int64 {
	n := int64(s.positions)
	if n <= 0 || n > cells || n > (s.size-s.at)/s.form.cellBytes {
		return 0
	}
	ahead := *s
	for at := int64(0); at < n; {
		piece := make([]byte, min(n-at, 4096)*s.form.cellBytes)
		if ahead.read(piece); ahead.err != nil {
			return 0
		}
		for record := range slices.Chunk(piece, int(s.form.cellBytes)) {
			if int64(binary.LittleEndian.Uint32(record)) != at {
				return 0
			}
			at++
		}
	}
	return n
}
