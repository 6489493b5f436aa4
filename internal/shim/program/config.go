package program

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Config says what a shim adds. It is a JSON file beside it.
type Config struct {
	SlotDir string   `json:"slot_dir"`         // where the server may write and read states; an absolute path
	RunDir  string   `json:"run_dir"`          // where the shim leaves its records; an absolute path
	Flags   []string `json:"flags,omitempty"`  // added beside --slot-save-path, where they are not there: switches, without values
	Shared  bool     `json:"shared,omitempty"` // the folders' group may read and write too; else only their owner
}

// ConfigName is where the configuration of a shim is.
func ConfigName(shim string) string { return shim + ".tandem.json" }

// ReadConfig reads a configuration.
func ReadConfig(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the shim's configuration: %w", err)
	}
	c, err := parseConfig(b)
	if err != nil {
		return Config{}, fmt.Errorf("read the shim's configuration %s: %w", path, err)
	}
	return c, nil
}

func parseConfig(b []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, err
	}
	if !filepath.IsAbs(c.SlotDir) || !filepath.IsAbs(c.RunDir) {
		return Config{}, errors.New("slot_dir and run_dir must be absolute paths")
	}
	for _, flag := range c.Flags {
		if !strings.HasPrefix(flag, "--") {
			return Config{}, fmt.Errorf("flag %q does not begin with --", flag)
		}
	}
	return c, nil
}

// Encode returns the configuration as it stands in its file.
func (c Config) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(c, "", "  ")
	return append(b, '\n'), err
}
