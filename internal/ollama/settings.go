package ollama

import (
	"slices"
	"strings"
)

// readArgs reads the arguments of a llama-server: those that change how positions are computed, as one
// line that is equal for equal settings, and why states of it are not to be handed over, if so.
func readArgs(args []string) (settings, stateless string) {
	var list []string
	for i, flag := range args {
		switch flag {
		case "--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale",
			"--yarn-orig-ctx", "--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast",
			"--override-kv":
			if i+1 < len(args) {
				list = append(list, flag+" "+args[i+1])
			}
		case "--swa-full":
			stateless = "the llama-server inside Ollama was given --swa-full, with which it takes up what a state that it read does not hold: start it without"
		case "--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled":
			stateless = "the llama-server inside Ollama changes the model with " + flag + ", and states of such models are not told apart"
		case "--mmproj":
			stateless = "llama-server saves no states of a model with a projector (images): use one for text only"
		case "--spec-type":
			stateless = "the model drafts its answers (speculative decoding) with a cache that is not handed over: " +
				"switch that off with the model's parameter draft_num_predict 0"
		case "--embedding":
			stateless = "the model makes embeddings, no text"
		}
	}
	slices.Sort(list)
	return strings.Join(list, " "), stateless
}
