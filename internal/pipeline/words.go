package pipeline

import (
	"fmt"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/protocol"
	"tandem/internal/units"
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
		new = units.Bytes(m.file.Moved) + " of it "
	}
	if m.ahead {
		meanwhile = " while the job waited"
	}
	return fmt.Sprintf("%s prompt tokens handed over as KV state (%s, saved in %s, %smoved in %s at %s/s%s, read in %s); the decode machine computed %s",
		units.Count(c.Imported.Tokens), units.Bytes(st.Bytes), units.Duration(seconds(st.SaveSeconds)), new, units.Duration(m.transfer), units.Bytes(int64(perSecond(m.file.Moved, m.transfer))), meanwhile,
		units.Duration(c.Imported.Restored), units.Count(c.ComputedTokens)) + sampled
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

// perSecond is a rate, 0 if no time passed.
func perSecond(bytes int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) / d.Seconds()
}
