package shim

import "time"

// Record is what the shim leaves in the run folder of the llama-server that it became.
type Record struct {
	PID     int       `json:"pid"`
	Port    int       `json:"port"`
	Host    string    `json:"host"`
	Model   string    `json:"model"` // path of the model file
	Args    []string  `json:"args"`  // all it was started with
	SlotDir string    `json:"slot_dir"`
	Started time.Time `json:"started"`
}

// Live returns the record of the llama-server that runs a model file, the youngest if there are several,
// and nil if there is none. Records of processes that are gone are removed.
func Live(runDir, modelFile string) (*Record, error) { return nil, nil }
