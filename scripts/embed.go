// Package scripts carries the project's shell scripts inside its programs, so that they need no checkout.
package scripts

import _ "embed"

// Engines is engines.sh: it finds ollama and llama-server, or gets them into a cache folder. Its head says how.
//
//go:embed engines.sh
var Engines string
