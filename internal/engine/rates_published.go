package engine

import (
	"regexp"
	"strconv"
	"strings"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// published is what is known of a model before anything was measured: what the prefill machine of the installation that
// this system is made for does with it, a DGX Spark (GB10), and what the decode machine does, a Mac Studio.
//
// Source: llama.cpp's own benchmarks, benches/dgx-spark/dgx-spark.md (build 7941) and benches/mac-m2-ultra/mac-m2-ultra.md
// (build 7948), flash attention on, micro-batches of 2,048 tokens; an M2 Ultra stands for the Macs. Prompts of 512, 4,096
// and 8,192 tokens are from llama-batched-bench with one sequence, the one of 2,048 tokens and decoding from llama-bench. Of
// longer prompts the benchmarks time only the last 2,048 tokens (pp2048 @ d8192, d16384, d32768); here these times are summed up.
type published struct {
	names                  []string // parts that the model's name has, in lower case
	spark, mac             hardware
	tokenBytes, fixedBytes float64 // of a KV state with a cache of type f16; see stateBytes
}

// hardware is what one machine does with a model, by length of the prompt in the columns' order.
type hardware struct {
	prefill [6]float64 // seconds for the whole prompt of 512, 2k, 4k, 8k, 16k and 32k tokens
	decode  [5]float64 // tokens per second after a prompt of 0, 4k, 8k, 16k and 32k tokens
}

// The lengths of the prompts in a table of hardware.
func prefillColumns() [6]float64 { return [...]float64{512, 2048, 4096, 8192, 16384, 32768} }
func decodeColumns() [5]float64  { return [...]float64{0, 4096, 8192, 16384, 32768} }

// publishedRates is the one table of the figures.
func publishedRates() []published {
	return []published{
		{
			names: []string{"gpt-oss", "120b"}, tokenBytes: 36_880, fixedBytes: 4_700_000,
			spark: hardware{[...]float64{0.445, 0.838, 1.698, 3.491, 7.37, 16.66}, [...]float64{58.7, 55.7, 52.9, 49.5, 42.8}},
			mac:   hardware{[...]float64{0.426, 1.242, 2.581, 5.517, 12.62, 31.65}, [...]float64{85.6, 82.0, 78.2, 73.2, 65.5}},
		},
		{
			names: []string{"gpt-oss", "20b"}, tokenBytes: 24_592, fixedBytes: 3_200_000,
			spark: hardware{[...]float64{0.270, 0.455, 0.907, 1.859, 4.03, 9.37}, [...]float64{83.4, 79.2, 75.2, 70.4, 61.7}},
			mac:   hardware{[...]float64{0.215, 0.755, 1.552, 3.345, 7.89, 20.20}, [...]float64{130.0, 123.4, 117.4, 109.8, 98.3}},
		},
		{ // measured with Qwen3-Coder-30B-A3B in Q8_0
			names: []string{"qwen3", "30b"}, tokenBytes: 98_320,
			spark: hardware{[...]float64{0.393, 0.686, 1.417, 3.022, 6.81, 16.95}, [...]float64{61.1, 54.8, 48.0, 40.2, 30.2}},
			mac:   hardware{[...]float64{0.243, 0.835, 1.901, 4.733, 13.35, 42.40}, [...]float64{79.0, 71.2, 65.1, 56.9, 45.3}},
		},
	}
}

// densePublished is what all other models are taken for: one whose weights are all used for each token, in Q8_0, and
// whose size is in its name. The figures are of Qwen2.5-Coder-7B; they are scaled by the number of parameters. Models
// that use few of their weights are faster, on both machines.
func densePublished(model string) published {
	p := published{
		tokenBytes: 131_072,
		spark:      hardware{[...]float64{0.212, 0.910, 1.831, 3.757, 8.04, 18.09}, [...]float64{29.4, 28.6, 27.4, 25.7, 22.5}},
		mac:        hardware{[...]float64{0.339, 1.308, 2.730, 5.940, 13.92, 36.02}, [...]float64{79.7, 74.7, 71.3, 65.9, 56.8}},
	}
	const parameters = 7.62 // in billions
	factor := billions(model, parameters) / parameters
	for _, h := range []*hardware{&p.spark, &p.mac} {
		for i := range h.prefill {
			h.prefill[i] *= factor
		}
		for i := range h.decode {
			h.decode[i] /= factor
		}
	}
	return p
}

var parametersInName = regexp.MustCompile(`(?i)(?:^|[^a-z0-9.])(\d{1,4}(?:\.\d{1,2})?)b(?:$|[^a-z0-9])`)

// billions is the number of parameters that a model's name gives, as in llama3.1:70b and phi-4-14B-Q8_0.
func billions(model string, otherwise float64) float64 {
	found := parametersInName.FindStringSubmatch(model)
	if found == nil {
		return otherwise
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil || n < 0.01 {
		return otherwise
	}
	return n
}

// publishedOf finds the figures for a model.
func publishedOf(model string) published {
	lower := strings.ToLower(model)
search:
	for _, p := range publishedRates() {
		for _, part := range p.names {
			if !strings.Contains(lower, part) {
				continue search
			}
		}
		return p
	}
	return densePublished(lower)
}

// of is what the machine of a role does.
func (p published) of(role jobs.Stage) hardware {
	if role == protocol.RolePrefill {
		return p.spark
	}
	return p.mac
}

// prefillRate is in prompt tokens per second, over the whole of a prompt. The time grows in a straight line from one
// column to the next; a shorter prompt takes its share of the first one's.
func (h hardware) prefillRate(tokens float64) float64 {
	x := prefillColumns()
	if tokens <= x[0] {
		return x[0] / h.prefill[0]
	}
	return tokens / line(x[:], h.prefill[:], tokens)
}

// decodeRate is in tokens per second, after a prompt.
func (h hardware) decodeRate(tokens float64) float64 {
	x := decodeColumns()
	last := len(x) - 1
	if tokens > x[last] {
		// Reading the cache takes the time, so the time for a token grows in a straight line.
		a, b := 1/h.decode[last-1], 1/h.decode[last]
		return 1 / (b + (b-a)*(tokens-x[last])/(x[last]-x[last-1]))
	}
	return line(x[:], h.decode[:], tokens)
}

// line follows the straight lines through the points, and the last of them beyond its end.
func line(x, y []float64, at float64) float64 {
	i := 1
	for i < len(x)-1 && at > x[i] {
		i++
	}
	return y[i-1] + (y[i]-y[i-1])*(at-x[i-1])/(x[i]-x[i-1])
}

// What is taken for granted of all models. The link is the installation's 10 GbE, less what it takes to carry the bytes. Nothing
// is published of what engines write and read; this is what copying through memory takes, since such files stay there.
const (
	coldLink      = 1.1e9 // bytes per second
	coldSave      = 5e9   // bytes per second
	coldRestore   = 5e9   // bytes per second
	coldGenerated = 400   // tokens of an answer
)

// q8Share is the size of a cache of type q8_0 beside one of f16: 34 bytes for 32 numbers.
const q8Share = 34.0 / 64

// stateBytes is the size of a KV state: for each token, and beside that. A position takes 16 bytes for each token, whatever the
// cache's type.
func (p published) stateBytes(cacheType string) (perToken, fixed float64) {
	const position = 16
	if cacheType == "q8_0" {
		return (p.tokenBytes-position)*q8Share + position, p.fixedBytes * q8Share
	}
	return p.tokenBytes, p.fixedBytes
}
