package jobs

import (
	"math"
	"net/url"
	"strings"
	"unicode/utf8"
)

// probabilitySlack is by how much rounding may lift a logarithm of a probability above zero.
const probabilitySlack = 1e-3

// checkState checks what a hand-over says of its KV state.
func (h *Handover) checkState() error {
	switch {
	case h.Kind == KindState && h.State == nil:
		return Errorf(CodeInvalid, "state is missing from a hand-over of kind state")
	case h.Kind != KindState && h.State != nil:
		return Errorf(CodeInvalid, "state is set in a hand-over of kind %.60q; want kind state", h.Kind)
	}
	if err := checkFailure("failure", h.Failure); err != nil {
		return err
	}
	if h.State == nil {
		return nil
	}
	if err := h.State.Validate(); err != nil {
		return Errorf(CodeInvalid, "state.%w", err)
	}
	return nil
}

// checkFailure accepts none, and names that a newer version may have.
func checkFailure(field string, f Failure) error {
	known := func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_' }
	if len(f) > MaxFailure || strings.ContainsFunc(string(f), func(r rune) bool { return !known(r) }) {
		return Errorf(CodeInvalid, "%s is %.60q; want a name such as %s", field, f, FailNotFound)
	}
	return nil
}

// Validate reports the first field that is wrong, as an error of code [CodeInvalid]. Address and token, which are
// secrets, are not in it.
func (s *State) Validate() error {
	u, err := url.Parse(s.URL)
	switch {
	case len(s.URL) > MaxURL:
		return Errorf(CodeInvalid, "url is %d bytes long; %d are allowed", len(s.URL), MaxURL)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return Errorf(CodeInvalid, "url is no address that begins with http:// or https://")
	case s.Token == "" || len(s.Token) > MaxToken || !printable(s.Token):
		return Errorf(CodeInvalid, "token has %d bytes; want 1 to %d of printable ASCII", len(s.Token), MaxToken)
	case s.Bytes < 1:
		return Errorf(CodeInvalid, "bytes is %d; want 1 or more", s.Bytes)
	case s.Tokens < 1 || s.Tokens > MaxTokens:
		return Errorf(CodeInvalid, "tokens is %d; want 1 to %d", s.Tokens, MaxTokens)
	case s.Prefix < 0 || s.Prefix > s.Tokens:
		return Errorf(CodeInvalid, "prefix is %d; want 0 to the %d tokens of the state", s.Prefix, s.Tokens)
	case !(s.SaveSeconds >= 0) || math.IsInf(s.SaveSeconds, 0):
		return Errorf(CodeInvalid, "save_seconds is %v; want 0 or more", s.SaveSeconds)
	case len(s.First) > MaxFirst:
		return Errorf(CodeInvalid, "first has %d tokens; %d are allowed", len(s.First), MaxFirst)
	}
	for _, p := range s.First {
		switch {
		case p.ID < 0:
			return Errorf(CodeInvalid, "first.id is %d; want 0 or more", p.ID)
		case !(p.LogProb <= probabilitySlack) || math.IsInf(p.LogProb, 0):
			return Errorf(CodeInvalid, "first.logprob is %v; want the logarithm of a probability, 0 or less", p.LogProb)
		}
	}
	return s.Fingerprint.validate()
}

func (f *Fingerprint) validate() error {
	for _, t := range []struct{ name, value string }{
		{"model", f.Model}, {"build", f.Build}, {"format", f.Format}, {"cache_k", f.CacheK}, {"cache_v", f.CacheV},
		{"layout", f.Layout}, {"positions", f.Positions},
	} {
		if len(t.value) > MaxMark || !utf8.ValidString(t.value) || strings.ContainsFunc(t.value, unprintable) {
			return Errorf(CodeInvalid, "fingerprint.%s has %d bytes; want at most %d that can be printed", t.name, len(t.value), MaxMark)
		}
	}
	if f.Streams < 0 {
		return Errorf(CodeInvalid, "fingerprint.streams is %d; want 0 or more", f.Streams)
	}
	return nil
}

// printable reports whether s is of visible ASCII characters, so that it fits into a header.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
