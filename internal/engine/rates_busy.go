package engine

import (
	"math"

	"tandem/internal/protocol"
)

// alone is up to how many busy slots, on average, a request counts as the only one.
const alone = 1.25

// busyOf is the one of protocol.RateBusy that stands for so many busy slots; empty if a request counts as the only one.
func busyOf(busy float64) string {
	if !(busy > alone) {
		return ""
	}
	i := int(math.Round(math.Log2(busy))) - 1
	return protocol.RateBusy[min(max(i, 0), len(protocol.RateBusy)-1)]
}

// assumedShare is which part of its speed each of so many requests has that generate at once, as long as it was not measured: of four,
// 0.41. It fits the published figures of mixtures of experts, on a DGX Spark as on an M2 Ultra, to a fifth: gpt-oss-120b 0.62 and 0.66 of
// two, 0.41 and 0.42 of four, 0.32 and 0.24 of eight, 0.22 and 0.15 of sixteen; Qwen3-Coder-30B 0.59 and 0.73, 0.39 and 0.48, 0.28 and
// 0.29, 0.19 and 0.15. Dense models lose less (a 7B 0.82 to 0.90 of two, 0.65 to 0.82 of four): for them it is cautious. Source:
// llama-batched-bench after prompts of 4,096 tokens, in the files named at [published].
func assumedShare(busy float64) float64 { return math.Pow(max(busy, 1), -0.65) }
