package pipeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/jobs"
)

// notUsed is the warning of a hand-over that failed.
func notUsed(why *protocol.HandoverError) string {
	return fmt.Sprintf("KV state not used (%s): %s", why.Failure, why.Error())
}

// used says what a hand-over came to.
func used(st *jobs.State, m move, c engine.Completion) string {
	new, meanwhile, sampled := "", "", ""
	if c.Imported.Sampled {
		sampled = fmt.Sprintf(", and all of it once more as a sample: predictions differ by %.4f", c.Imported.Own)
	}
	if m.unlike != "" {
		sampled += "; " + m.unlike
	}
	if m.file.Rebuilt {
		new = size(m.file.Moved) + " of it "
	}
	if m.ahead {
		meanwhile = " while the job waited"
	}
	return fmt.Sprintf("%s prompt tokens handed over as KV state (%s, saved in %s, %smoved in %s at %s/s%s, read in %s); the decode machine computed %s",
		count(c.Imported.Tokens), size(st.Bytes), took(seconds(st.SaveSeconds)), new, took(m.transfer), size(int64(perSecond(m.file.Moved, m.transfer))), meanwhile,
		took(c.Imported.Restored), count(c.ComputedTokens)) + sampled
}

// unlike says in what two engines differ that a check can show to be harmless: how their builds are named, and that the format of their states is not known here. It is empty if in nothing.
func unlike(here, writer jobs.Fingerprint) string {
	var list []string
	if here.OtherBuild(writer) {
		list = append(list, fmt.Sprintf("llama.cpp %s here, %s on the prefill machine", here.Build, writer.Build))
	}
	if here.Layout == protocol.Unread {
		list = append(list, fmt.Sprintf("format %s, unread", here.Format))
	}
	return strings.Join(list, "; ")
}

// count writes a number with commas.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes a number of bytes.
func size(bytes int64) string {
	for _, u := range []struct {
		unit  float64
		name  string
		whole int64 // from which on it is written without a decimal
	}{{1e9, "GB", 10e9}, {1e6, "MB", 10e6}, {1e3, "kB", 10e3}} {
		switch {
		case float64(bytes) < u.unit:
		case bytes >= u.whole:
			return fmt.Sprintf("%.0f %s", float64(bytes)/u.unit, u.name)
		default:
			return fmt.Sprintf("%.1f %s", float64(bytes)/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// took writes a time with as many digits as can be believed.
func took(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
}

// perSecond is a rate, 0 if no time passed.
func perSecond(bytes int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) / d.Seconds()
}
