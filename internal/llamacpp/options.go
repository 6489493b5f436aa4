package llamacpp

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// Options say which llama-server an [Engine] drives: one that runs already (URL), or one that it starts
// and supervises (Binary, ModelFile).
type Options struct {
	Model string // canonical name, for [engine.Description]

	URL    string // of a running llama-server, such as http://127.0.0.1:8080
	APIKey string // of that server, if it was started with one

	Binary    string // llama-server, found in PATH unless it has a slash; default "llama-server"
	ModelFile string // GGUF; the first part if there are several
	NumCtx    int    // tokens of context of each slot; default 8192
	Threads   int    // 0 leaves it to llama-server
	CacheType string // of the KV cache: f16 or q8_0; empty leaves it to llama-server

	// Slots is how many requests the server computes at once. A supervised server is started with as
	// many, default 1; of a running one all are used if it is 0.
	Slots int

	LogFile  string // where a supervised server's output goes; one older file is kept as LogFile.1. Empty: nowhere
	StateDir string // where the model file's digest is remembered; empty: it is computed at each start

	// SlotDir is the folder of the KV states: what a running server was given as --slot-save-path, as this
	// process sees it. Empty, a running server moves no states; a supervised one is given StateDir/slots.
	SlotDir     string
	StatePrefix string // of the names of the states written here, so that several workers can share a folder

	Unread []string // formats of KV states that are moved although they cannot be read here, as in ggsq.5

	HTTP *http.Client // nil for one of our own
	Log  *slog.Logger // nil for none
}

// The defaults of a supervised server.
const (
	defaultBinary = "llama-server"
	defaultNumCtx = 8192
)

// check fills in the defaults and reports the first option that is wrong.
func (o *Options) check() error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Slots < 0 || o.NumCtx < 0 || o.Threads < 0 {
		return jobs.Errorf(jobs.CodeInvalid, "slots is %d, context %d, threads %d; none may be negative", o.Slots, o.NumCtx, o.Threads)
	}
	switch {
	case o.URL != "" && o.ModelFile != "":
		return jobs.Errorf(jobs.CodeInvalid, "both an engine URL and a model file are set; give the URL of a running llama-server or a file to start one with")
	case o.URL == "" && o.ModelFile == "":
		return jobs.Errorf(jobs.CodeInvalid, "neither an engine URL nor a model file is set; give the URL of a running llama-server or a file to start one with")
	case o.URL != "":
		return checkURL(o.URL)
	}
	o.Binary = cmp.Or(o.Binary, defaultBinary)
	o.NumCtx = cmp.Or(o.NumCtx, defaultNumCtx)
	o.Slots = cmp.Or(o.Slots, 1)
	switch o.CacheType {
	case "", "f16", "q8_0":
	default:
		return jobs.Errorf(jobs.CodeInvalid, "cache type is %q; want f16 or q8_0", o.CacheType)
	}
	if o.SlotDir == "" && o.StateDir != "" {
		o.SlotDir = filepath.Join(o.StateDir, "slots")
	}
	path, err := exec.LookPath(o.Binary)
	if err != nil {
		return jobs.Errorf(jobs.CodeEngineUnreachable, "find llama-server: install llama.cpp (Homebrew: llama.cpp, Debian: llama.cpp-tools) or name the program: %w", err)
	}
	o.Binary = path
	if info, err := os.Stat(o.ModelFile); err != nil {
		return jobs.Errorf(jobs.CodeModelMissing, "read model file: %w", err)
	} else if !info.Mode().IsRegular() {
		return jobs.Errorf(jobs.CodeModelMissing, "model file %s is not a file; name the GGUF file itself", o.ModelFile)
	}
	return nil
}

// makeFolders makes the folders that will be written to, for their owner only.
func (o *Options) makeFolders() error {
	folders := []string{o.StateDir}
	if o.URL == "" {
		folders = append(folders, o.SlotDir)
	}
	if o.LogFile != "" {
		folders = append(folders, filepath.Dir(o.LogFile))
	}
	for _, dir := range folders {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make folder for the engine: %w", err)
		}
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return jobs.Errorf(jobs.CodeInvalid, "engine URL is %.80q; want one such as http://127.0.0.1:8080, without a user or a query", protocol.RedactURL(s))
	}
	return nil
}
