package llamacpp

import (
	"os"
	"strings"
)

// environment is ours without what would change the server's flags behind our back, and without our
// own settings, some of which are secret.
func environment(key string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LLAMA_") && !strings.HasPrefix(v, "TANDEM_") {
			env = append(env, v)
		}
	}
	if key != "" {
		env = append(env, "LLAMA_API_KEY="+key) // an argument would show in the list of processes
	}
	return env
}
