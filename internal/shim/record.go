package shim

import "tandem/internal/shim/program"

// Record is what the shim leaves in the run folder of the llama-server that it became.
type Record = program.Record
