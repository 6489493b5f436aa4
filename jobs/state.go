package jobs

import (
	"fmt"
)

// Failure names why a KV state was not used, so that the prompt was computed again on the decode
// machine. It is counted by these names and never fails a job.
type Failure string

// The failures of a hand-over, in the order in which they can happen.
const (
	FailNoState     Failure = "no_state"        // the prefill engine cannot hand states over; the message says what is missing
	FailSave        Failure = "save_failed"     // it could not write the state
	FailBudget      Failure = "disk_budget"     // the prefill machine may not keep so large a state
	FailStopped     Failure = "pair_stopped"    // hand-overs between the two machines were stopped, until an operator clears it
	FailFingerprint Failure = "fingerprint"     // the two engines differ in what they say of themselves; not a byte was fetched
	FailDiffer      Failure = "engines_differ"  // they differ in what they predict after prompts that each computed by itself
	FailRefusedURL  Failure = "url_refused"     // the state's address is none from which this worker may fetch
	FailUnreachable Failure = "unreachable"     // the prefill worker is gone
	FailNotFound    Failure = "not_found"       // it does not know the state: its lease ended, or it was restarted
	FailTruncated   Failure = "truncated"       // fewer or more bytes than promised
	FailTooSlow     Failure = "too_slow"        // the transfer stalled
	FailDisk        Failure = "disk_full"       // no room on the decode machine
	FailDigest      Failure = "digest"          // the bytes are not those that were written
	FailRestore     Failure = "restore_refused" // the decode engine did not take it
	FailSilentMiss  Failure = "silent_miss"     // it took it and computed the prompt again all the same
	FailFirstToken  Failure = "first_token"     // its first prediction differs from the prefill engine's
)

// Fingerprint is all that must be equal for a KV state to be valid in another engine, as far as it can
// be known. The backend (CUDA, Metal, CPU) is no part of it: builds of one version write equal states.
type Fingerprint struct {
	Model          string `json:"model"`           // SHA-256 of the GGUF file, in hex
	Build          string `json:"build"`           // of llama-server, as in b11669
	Format         string `json:"format"`          // of the state file: its magic and version
	CacheK         string `json:"cache_k"`         // type of the cached keys: f16, q8_0, …
	CacheV         string `json:"cache_v"`         // of the cached values
	FlashAttention bool   `json:"flash_attention"` // without it values are stored the other way round
	Streams        int    `json:"streams"`         // parts of the cache: one for each slot, or 1 if it is unified
	Layout         string `json:"layout"`          // the rest of the file's structure: layers and the sizes of their rows
	Positions      string `json:"positions"`       // rotary embedding and attention window, as the model's header and the flags say

	Extra Extra `json:"-"`
}

// OtherBuild reports whether two engines name their builds differently. Packagers name equal sources differently, so that says little.
func (f Fingerprint) OtherBuild(writer Fingerprint) bool { return f.Build != writer.Build }

// Differences lists what differs between two engines, the one here first, each with both values and
// what to change. It is empty if a state of the one is valid in the other. The names of their builds count only if it is strict.
func (f Fingerprint) Differences(writer Fingerprint, strict bool) []string {
	var list []string
	if !strict {
		f.Build = writer.Build
	}
	for _, d := range []struct{ what, here, there, remedy string }{
		{"model file", f.Model, writer.Model, "use the same GGUF file on both machines"},
		{"llama.cpp build", f.Build, writer.Build, "install the same version on both machines"},
		{"state format", f.Format, writer.Format, "install the same version on both machines"},
		{"key cache type", f.CacheK, writer.CacheK, "set the same --cache-type on both sides"},
		{"value cache type", f.CacheV, writer.CacheV, "set the same --cache-type on both sides"},
		{"flash attention", fmt.Sprint(f.FlashAttention), fmt.Sprint(writer.FlashAttention), "start both with --flash-attn on (Ollama: OLLAMA_FLASH_ATTENTION=1)"},
		{"cache streams", fmt.Sprint(f.Streams), fmt.Sprint(writer.Streams), "give both the same number of slots (llama-server -np, OLLAMA_NUM_PARALLEL) and --no-kv-unified"},
		{"cache layout", f.Layout, writer.Layout, "start both with the same cache settings, and without --swa-full"},
		{"positions", f.Positions, writer.Positions, "start both with the same rope and window flags"},
	} {
		if d.here != d.there {
			list = append(list, fmt.Sprintf("%s: %s here, %s on the prefill machine; %s", d.what, shortHash(d.here), shortHash(d.there), d.remedy))
		}
	}
	return list
}

// shortHash keeps enough of a hash to tell two apart.
func shortHash(s string) string {
	switch {
	case s == "":
		return "unknown"
	case len(s) == 64:
		return s[:12]
	}
	return s
}
