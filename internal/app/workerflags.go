package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/internal/shim"
	"tandem/jobs"
)

// WorkerFlags are the settings of a worker. Every one is a flag, an environment variable and a key
// of the configuration file.
type WorkerFlags struct {
	NATS  string `name:"nats" env:"TANDEM_NATS" help:"NATS server, several separated by commas (default ${nats})." placeholder:"URL"`
	Creds string `env:"TANDEM_CREDS" help:"NATS credentials file." placeholder:"FILE"`
	NKey  string `name:"nkey" env:"TANDEM_NKEY" help:"NATS nkey seed file." placeholder:"FILE"`
	TLSCA string `name:"tls-ca" env:"TANDEM_TLS_CA" help:"Certificate authority of the NATS server." placeholder:"FILE"`

	NATSContext string `name:"nats-context" env:"TANDEM_NATS_CONTEXT" help:"Context that the nats CLI saved, in the place of the four above." placeholder:"NAME"`

	Replicas int `env:"TANDEM_REPLICAS" default:"1" help:"On how many servers of a NATS cluster each stream is kept that this worker creates: 1, 3 (one may fail) or 5 (two may). Streams that exist stay as they are."`

	Model         string `env:"TANDEM_MODEL" required:"" help:"Model that this worker serves, for example qwen3-coder:30b." placeholder:"NAME"`
	Engine        string `env:"TANDEM_ENGINE" enum:"ollama,llamacpp,openai" default:"ollama" help:"Engine beside this worker: ollama, llamacpp, or openai, any server of the OpenAI API, which hands nothing over and does whole requests."`
	EngineURL     string `name:"engine-url" env:"TANDEM_ENGINE_URL" help:"Engine that runs already; http://127.0.0.1:11434 for ollama if not given." placeholder:"URL"`
	EngineModel   string `name:"engine-model" env:"TANDEM_ENGINE_MODEL" help:"The name that a server of --engine openai has for the model; the model's own, or that of the only one it has, if not given." placeholder:"NAME"`
	EngineKeyFile string `name:"engine-key-file" env:"TANDEM_ENGINE_KEY_FILE" type:"path" help:"File with the API key that a llama-server or a server of --engine openai asks for." placeholder:"FILE"`
	ModelFile     string `name:"model-file" env:"TANDEM_MODEL_FILE" help:"GGUF file for which to start and watch a llama-server of our own." placeholder:"FILE"`
	LlamaServer   string `name:"llama-server" env:"TANDEM_LLAMA_SERVER" default:"llama-server" help:"Program to start for --model-file." placeholder:"FILE"`
	Slots         int    `env:"TANDEM_SLOTS" default:"1" help:"Requests that the engine computes at once."`
	Ahead         *int   `env:"TANDEM_AHEAD" help:"Jobs of each class that are fetched for each slot, with their KV states, while others run: 0 to 4. A decode worker fetches 1 if this is not given, a prefill worker 0." placeholder:"N"`
	NumCtx        int    `name:"num-ctx" env:"TANDEM_NUM_CTX" default:"32768" help:"Tokens of context per request; the same on both sides."`
	Threads       int    `env:"TANDEM_THREADS" help:"CPU threads of the engine; 0 leaves it to the engine."`

	Handover       string   `env:"TANDEM_HANDOVER" enum:"auto,none" default:"auto" help:"What prefill gives decode: auto is the KV state where both engines can; or none."`
	HandoverListen string   `name:"handover-listen" env:"TANDEM_HANDOVER_LISTEN" default:"127.0.0.1:0" help:"Address where a prefill worker offers KV states; the machine's own, and a fixed port, to be reached from decode machines." placeholder:"ADDR"`
	HandoverURL    string   `name:"handover-url" env:"TANDEM_HANDOVER_URL" help:"URL under which decode machines reach that address; made from it if not given." placeholder:"URL"`
	HandoverCert   string   `name:"handover-cert" env:"TANDEM_HANDOVER_CERT" type:"path" help:"Certificate of a prefill worker, PEM, to offer KV states over HTTPS." placeholder:"FILE"`
	HandoverKey    string   `name:"handover-key" env:"TANDEM_HANDOVER_KEY" type:"path" help:"Its key." placeholder:"FILE"`
	HandoverBudget ByteSize `name:"handover-budget" env:"TANDEM_HANDOVER_BUDGET" default:"32GB" help:"Disk space for KV states that wait: at a prefill worker to be fetched, at a decode worker for a slot." placeholder:"SIZE"`
	HandoverAllow  []string `name:"handover-allow" env:"TANDEM_HANDOVER_ALLOW" help:"Networks from which a decode worker fetches KV states, several separated by commas; loopback, link-local and private ones if not given." placeholder:"CIDR"`
	HandoverCA     string   `name:"handover-ca" env:"TANDEM_HANDOVER_CA" type:"path" help:"Certificate authority by which a decode worker knows prefill workers." placeholder:"FILE"`
	HandoverStrict bool     `name:"handover-strict" env:"TANDEM_HANDOVER_STRICT" help:"Hand KV states over only between engines that name their builds equally; otherwise engines with other names do so, too, if they predict the same."`
	HandoverUnread []string `name:"handover-unread" env:"TANDEM_HANDOVER_UNREAD" help:"Formats of KV states that are handed over although this version cannot read them, and so cannot protect the engine from a damaged one, several separated by commas; give it on both sides." placeholder:"ggsq.5"`
	SlotDir        string   `name:"slot-dir" env:"TANDEM_SLOT_DIR" type:"path" help:"Folder that a llama-server that runs already was given as --slot-save-path." placeholder:"DIR"`

	OllamaBinary string `name:"ollama-binary" env:"TANDEM_OLLAMA_BINARY" help:"Ollama program of which to start and watch a server of our own, whose KV cache can be handed over." placeholder:"FILE"`
	ShimRunDir   string `name:"shim-run-dir" env:"TANDEM_SHIM_RUN_DIR" type:"path" help:"Where a shim beside an Ollama that runs already leaves its records; where 'shim install' puts them if not given." placeholder:"DIR"`
	CacheType    string `name:"cache-type" env:"TANDEM_CACHE_TYPE" enum:",f16,q8_0" default:"" help:"Type of the KV cache of an engine started here: f16 or q8_0; the same on both sides." placeholder:"TYPE"`

	Measure string `env:"TANDEM_MEASURE" enum:"auto,never" default:"auto" help:"When to measure the engine with requests of the worker's own: auto is at its start, for a few seconds, unless an earlier run has; never leaves it to the jobs."`

	HTTP          string   `name:"http" env:"TANDEM_HTTP" default:"${http}" help:"Address of the HTTP API; use the machine's own to be reached from others." placeholder:"ADDR"`
	HTTPHost      []string `name:"http-host" env:"TANDEM_HTTP_HOST" help:"Names under which others ask the HTTP API, several separated by commas, beside IP addresses, localhost, and this machine's name." placeholder:"NAME"`
	HTTPTokenFile string   `name:"http-token-file" env:"TANDEM_HTTP_TOKEN_FILE" type:"path" help:"File with a token that requests to the HTTP API must have, as Authorization: Bearer TOKEN; without it they need none." placeholder:"FILE"`

	Pprof string `env:"TANDEM_PPROF" help:"Address of this machine alone where Go's profiler finds this program, as 127.0.0.1:6060; nowhere if not given." placeholder:"ADDR"`

	Machine      string        `env:"TANDEM_MACHINE" help:"Name of this machine in results and status; the host name if not given." placeholder:"NAME"`
	StateDir     string        `name:"state-dir" env:"TANDEM_STATE_DIR" type:"path" help:"Folder for logs of a started engine and what is worth keeping; the user's cache if not given." placeholder:"DIR"`
	StartTimeout time.Duration `name:"start-timeout" env:"TANDEM_START_TIMEOUT" default:"30s" help:"How long to wait for an engine that cannot be reached before giving up."`
	DrainLimit   time.Duration `name:"drain-limit" env:"TANDEM_DRAIN_LIMIT" default:"60s" help:"How long running jobs may take to finish after SIGTERM; then they are handed back."`
	LogFormat    string        `name:"log-format" env:"TANDEM_LOG_FORMAT" enum:"auto,text,json" default:"auto" help:"Log as text or json; auto is text on a terminal."`
	LogLevel     slog.Level    `name:"log-level" env:"TANDEM_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`

	Config      kong.ConfigFlag  `env:"TANDEM_CONFIG" help:"YAML file with any of these settings, keys named like the flags." placeholder:"FILE"`
	PrintConfig bool             `name:"print-config" help:"Print the effective settings as such a file and exit."`
	Version     kong.VersionFlag `help:"Print the version and exit."`

	statePrefix string // of the names of this worker's KV states
	httpToken   string // what HTTPTokenFile holds
	engineKey   string // what EngineKeyFile holds
}

// AfterApply fills in NATS' address, so that it is shown.
func (f *WorkerFlags) AfterApply() error {
	if f.NATS == "" && f.NATSContext == "" {
		f.NATS = queue.DefaultURL
	}
	return nil
}

// complete checks the settings and fills what is derived.
func (f *WorkerFlags) complete() error {
	var err error
	if f.Model, err = jobs.CanonicalModel(f.Model); err != nil {
		return err
	}
	switch {
	case f.Engine == "ollama" && f.ModelFile != "":
		return jobs.Errorf(jobs.CodeInvalid, "model-file is for --engine llamacpp; Ollama has its models by name (ollama pull %s)", f.Model)
	case f.Engine == "llamacpp" && f.ModelFile == "" && f.EngineURL == "":
		return jobs.Errorf(jobs.CodeInvalid, "engine llamacpp needs --engine-url of a running llama-server, or --model-file to start one")
	case f.Engine == "openai" && f.EngineURL == "":
		return jobs.Errorf(jobs.CodeInvalid, "engine openai needs --engine-url of a running server, such as http://127.0.0.1:8000")
	case f.Engine == "openai" && (f.ModelFile != "" || f.SlotDir != ""):
		return jobs.Errorf(jobs.CodeInvalid, "model-file and slot-dir are for --engine llamacpp; a server of --engine openai has its model by itself, and hands nothing over")
	case f.Engine != "openai" && f.EngineModel != "":
		return jobs.Errorf(jobs.CodeInvalid, "engine-model is for --engine openai; the other engines are asked for --model")
	case f.EngineKeyFile != "" && (f.Engine == "ollama" || f.EngineURL == ""):
		return jobs.Errorf(jobs.CodeInvalid, "engine-key-file is for the --engine-url of a server that asks for a key: with --engine openai or llamacpp")
	case f.ModelFile != "" && f.EngineURL != "":
		return jobs.Errorf(jobs.CodeInvalid, "engine-url and model-file are both set; give one")
	case f.OllamaBinary != "" && (f.Engine != "ollama" || f.EngineURL != ""):
		return jobs.Errorf(jobs.CodeInvalid, "ollama-binary starts an Ollama for this worker; give it without --engine-url, and with --engine ollama")
	case f.CacheType != "" && f.OllamaBinary == "" && f.ModelFile == "":
		return jobs.Errorf(jobs.CodeInvalid, "cache-type is for an engine that this worker starts (--ollama-binary, --model-file); of one that runs already set it there (OLLAMA_KV_CACHE_TYPE, llama-server --cache-type-k and --cache-type-v)")
	case f.Slots < 1 || f.Slots > 256:
		return jobs.Errorf(jobs.CodeInvalid, "slots is %d; want 1 to 256", f.Slots)
	case f.Ahead != nil && (*f.Ahead < 0 || *f.Ahead > 4):
		return jobs.Errorf(jobs.CodeInvalid, "ahead is %d; want 0 to 4", *f.Ahead)
	case f.NumCtx < 256:
		return jobs.Errorf(jobs.CodeInvalid, "num-ctx is %d; want at least 256 tokens", f.NumCtx)
	}
	if f.Engine == "ollama" && f.EngineURL == "" && f.OllamaBinary == "" {
		f.EngineURL = "http://127.0.0.1:11434"
	}
	if f.EngineURL != "" {
		if u, err := url.Parse(f.EngineURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return jobs.Errorf(jobs.CodeInvalid, "engine-url is %q; want a URL such as http://127.0.0.1:11434", protocol.RedactURL(f.EngineURL))
		}
	}
	if f.Engine == "ollama" && f.ShimRunDir == "" && onThisMachine(f.EngineURL) {
		f.ShimRunDir = shim.DefaultRunDir()
	}
	if err := f.completeHandover(); err != nil {
		return err
	}
	if f.Measure == "" {
		f.Measure = measureAuto
	}
	if f.Measure != measureAuto && f.Measure != measureNever {
		return jobs.Errorf(jobs.CodeInvalid, "measure is %q; want auto or never", f.Measure)
	}
	if _, _, err := net.SplitHostPort(f.HTTP); err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "http is %q; want host:port such as 127.0.0.1:8000", f.HTTP)
	}
	if f.Machine == "" {
		if f.Machine, err = os.Hostname(); err != nil {
			return fmt.Errorf("machine: %w; give --machine", err)
		}
	}
	if f.StateDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("state-dir: %w; give --state-dir", err)
		}
		f.StateDir = cache + "/tandem/" + jobs.EncodeToken(f.Model)
	}
	return nil
}

// onThisMachine reports whether a URL leads to the loopback interface. What runs elsewhere has its records there.
func onThisMachine(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
