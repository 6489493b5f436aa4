// Package arch holds the import arrows of the project. It has no code, only the test.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the import path that every package of the project begins with.
const module = "tandem/"

// anything stands in a row for "no limit", which never means NATS.
const anything = "**"

// files is the package that writes files whole.
const files = "internal/atomicfile"

// nats begins the import path of every NATS module.
const nats = "github.com/nats-io/"

// otel begins the import path of every module of OpenTelemetry.
const otel = "go.opentelemetry.io/otel"

// jsonSchema is the library that holds rubrics and answers to their schemas.
const jsonSchema = "github.com/santhosh-tekuri/jsonschema"

// grading is what the packages of grading may know of one another.
var grading = []string{
	files, "jobs", "internal/batchstats", "internal/look", "internal/sanitize", "internal/units",
	"internal/grader/notebook", "internal/grader/intake", "internal/grader/rubric", "internal/grader/code", "internal/grader/sections",
	"internal/grader/check", "internal/grader/outputs", "internal/grader/score", "internal/grader/ask", "internal/grader/report", "internal/grader/overrides",
	"internal/grader/journal", "internal/agreement",
}

// arrow is what one package may import beside the standard library.
type arrow struct {
	pkg     string   // path below the module; a pattern as in path.Match
	project []string // packages of the project
	outside []string // modules of others, by prefix
	why     string
}

// arrows is the whole law, read from the commands down to the contract. Test files are free: a test may stand anywhere.
var arrows = []arrow{
	{"cmd/submitter", []string{"internal/app/submitter"}, nil, "main only hands over to app"},
	{"cmd/llama-server-shim", []string{"internal/shim/program"}, nil, "small, since it stands in front of every model that an Ollama loads"},
	{"cmd/*", []string{"internal/app"}, nil, "main only hands over to app"},
	{"internal/app/submitter", []string{anything}, []string{anything}, "app wires everything, but only the queue speaks NATS"},
	{"internal/app", []string{anything}, []string{anything}, "app wires everything, but only the queue speaks NATS"},

	{"client", []string{"jobs", "internal/queue", "internal/access"}, []string{nats + "nats.go"}, "what any program may import: the queue from a submitter's side, without server, engines and command line"},
	{"client/admin", []string{"client", "jobs", "internal/queue"}, []string{nats + "nats.go"}, "an operator's side of the queue"},
	{"internal/natscontext", []string{"jobs"}, []string{nats + "nats.go", nats + "jsm.go/natscontext"}, "contexts of the nats CLI; apart, since its library brings the server along"},
	{"internal/queue", []string{files, "jobs", "internal/units", "internal/protocol", "internal/tracing"}, []string{nats + "nats.go", nats + "nkeys", "github.com/synadia-io/orbit.go/jetstreamext"}, "the queue knows NATS and the contract, never an engine"},
	{"internal/access", []string{files, "jobs", "internal/protocol"}, []string{nats + "nats.go", nats + "nkeys"}, "rights are made of the contract's subjects; asking the server to read them again takes a connection"},
	{"internal/natsembed", nil, []string{nats}, "an in-process NATS server knows nothing of jobs"},
	{"internal/natsembed/natstest", []string{"internal/natsembed"}, []string{nats}, "an in-process NATS server knows nothing of jobs"},

	{"internal/pipeline", []string{files, "jobs", "internal/units", "internal/protocol", "internal/engine", "internal/schedule", "internal/handover"}, nil, "the stages know engines, never NATS nor a certain engine"},
	{"internal/httphost", nil, nil, "telling names apart needs the standard library only"},
	{"internal/workerhttp", []string{"internal/httphost", "jobs", "internal/protocol", "internal/engine"}, nil, "curl's way to an engine goes past the queue"},
	{"internal/gateway", []string{files, "client/admin", "internal/httphost", "internal/people", "internal/tracing", "jobs"}, []string{nats + "nats.go", "golang.org/x/time/rate", "github.com/google/uuid"}, "the front door knows the public client, and nothing behind it; it keeps who used what in a bucket of its own"},
	{"internal/console", []string{"client/admin", "internal/batchstats", "internal/grading", "internal/look", "internal/people", "internal/protocol", "internal/sanitize", "internal/units", "jobs"}, nil, "the console knows the public client, and nothing behind it; classes are graded by their own package"},
	{"internal/grading", []string{files, "client", "client/admin", "jobs", "internal/units", "internal/protocol", "internal/forecast", "internal/grader", "internal/grader/intake", "internal/grader/overrides", "internal/grader/report", "internal/grader/rubric", "internal/grader/score"}, nil, "grading through the queue knows the grader and the public client"},
	{"internal/forecast", []string{"client/admin", "jobs", "internal/engine", "internal/grader", "internal/pipeline", "internal/protocol", "internal/queue", "internal/schedule"}, nil, "a forecast is made of what workers say of themselves"},
	{"internal/people", nil, nil, "who somebody is needs the standard library only"},
	{"internal/look", nil, nil, "a style sheet needs nothing"},
	{"internal/grader", grading, nil, "grading needs the contract only: the queue, or one engine, comes in as its Answerer"},
	{"internal/grader/notebook", []string{"jobs", "internal/units"}, nil, "reading a notebook stands below all grading"},
	{"internal/grader/intake", []string{files, "jobs", "internal/units"}, nil, "finding submissions knows no notebooks"},
	{"internal/grader/journal", []string{"jobs"}, nil, "a file of lines knows nothing of what they say"},
	{"internal/grader/rubric", []string{"jobs"}, []string{jsonSchema}, "reading a rubric stands below all grading"},
	{"internal/grader/*", grading, []string{jsonSchema, "golang.org/x/net/html", "golang.org/x/text/unicode/norm"}, "the layers know notebooks, rubrics and one another, never the queue nor an engine"},
	{"internal/batchstats", []string{"jobs"}, nil, "adds up results"},
	{files, nil, nil, "writing files needs the standard library only"},
	{"internal/agreement", nil, nil, "figures of judgements need the standard library only"},
	{"internal/units", nil, nil, "writing figures needs the standard library only"},
	{"internal/sanitize", nil, nil, "making text harmless needs the standard library only"},

	{"test/rig/history", nil, nil, "what was seen is written with the standard library only"},
	{"test/rig/check", []string{"test/rig/history"}, nil, "the judge knows the history, never the code under test"},
	{"test/rig/tap", nil, nil, "a wire needs the standard library only"},
	{"test/rig/host", []string{"internal/supervisor", "test/rig/tap"}, nil, "running programs knows nothing of what they do, but for the wires between the nodes of a cluster"},
	{"test/rig/power", []string{"test/rig/host"}, nil, "a disk that loses power knows nothing of what is on it"},
	{"test/rig/netns", []string{"test/rig/host"}, nil, "a network knows nothing of who speaks over it"},
	{"test/rig/engines", []string{"test/rig/host", "internal/supervisor", "internal/standin", "internal/tinymodel"}, nil, "the engines are not under test: they are asked past Tandem"},
	{"test/rig/serve", nil, nil, "a frame of programs needs the standard library only"},
	{"test/rig/noopengine", []string{"internal/ollama/ollamatest", "test/rig/serve"}, nil, "the fake Ollama as a program"},
	{"test/rig/paced/fleet", nil, nil, "tables of how fast machines are need the standard library only"},
	{"test/rig/paced", []string{"test/rig/paced/fleet"}, nil, "the paced engine speaks HTTP, like the real one, and writes its files by itself"},
	{"test/rig/paced/pacedserver", []string{"test/rig/paced", "test/rig/paced/fleet", "test/rig/serve"}, nil, "the paced engine as a program"},
	{"test/rig", []string{"test/rig/history", "test/rig/check", "test/rig/tap", "test/rig/host", "test/rig/power", "test/rig/netns", "test/rig/engines", "internal/access", "jobs"}, []string{nats + "nats.go"}, "the rig sees Tandem as its users do: programs, wires and streams; whom NATS lets in it says by the same package as submitter"},

	{"internal/supervisor", nil, nil, "starting programs needs the standard library only"},
	{"internal/ollama", []string{"jobs", "internal/protocol", "internal/engine", "internal/gguf", "internal/shim", "internal/slots"}, nil, "an engine knows what engines share, never the queue"},
	{"internal/ollama/ollamatest", nil, nil, "the fake Ollama speaks HTTP, like the real one"},
	{"internal/llamacpp", []string{files, "jobs", "internal/protocol", "internal/engine", "internal/gguf", "internal/supervisor", "internal/slots", "internal/openai"}, nil, "an engine knows what engines share, never the queue; llama-server's chats are the OpenAI API's"},
	{"internal/openai", []string{"jobs", "internal/protocol", "internal/engine"}, nil, "an engine knows what engines share, never the queue"},
	{"internal/engine/enginetest", []string{"jobs", "internal/protocol", "internal/engine"}, []string{"github.com/google/go-cmp", "go.uber.org/goleak"}, "the conformance suite knows engines by their interface"},
	{"internal/engine", []string{files, "jobs", "internal/units", "internal/protocol", "internal/schedule"}, nil, "the interface stands below all engines"},
	{"internal/schedule", nil, nil, "looking ahead knows times only"},
	{"internal/slots", []string{"jobs", "internal/protocol", "internal/engine", "internal/gguf"}, []string{"golang.org/x/sync/errgroup"}, "slots and state files stand below both engines, and know what engines share"},
	{"internal/gguf", nil, nil, "reading a header needs the standard library only"},
	{"internal/shim", []string{files, "internal/shim/program"}, nil, "putting the shim in its place needs no more than the shim"},
	{"internal/shim/program", nil, nil, "what Ollama starts must be small and depend on nothing that can fail"},
	{"internal/handover", []string{"jobs", "internal/units", "internal/protocol"}, nil, "moving files needs the contract only"},

	{"internal/standin", []string{"internal/supervisor", "internal/shim", "internal/tinymodel", "scripts"}, nil, "the stand-in engines know the models that they run, and the script that finds the programs"},
	{"internal/standin/standintest", []string{"internal/standin", "internal/tinymodel"}, nil, "gives tests the real engines"},
	{"internal/tinymodel", []string{files}, nil, "writing a small model knows nothing of who reads it"},
	{"internal/telemetry", []string{"jobs", "internal/protocol"}, []string{"github.com/lmittmann/tint", "github.com/mattn/go-isatty", "github.com/prometheus/", "golang.org/x/term", otel, "github.com/go-logr/logr"}, "a leaf: whoever measures hands it figures"},
	{"internal/tracing", []string{"jobs", "internal/protocol"}, []string{otel}, "spans are made with the API of OpenTelemetry alone, as the test of client sees to"},

	{"internal/protocol", []string{"jobs"}, nil, "subjects and tasks are made of records"},
	{"jobs", nil, []string{"github.com/google/uuid"}, "the records depend on nothing that others would inherit"},

	{"internal/schema", nil, nil, "describing types needs the standard library only"},
	{"jobs/schemagen", []string{"jobs", "internal/schema"}, nil, "reads the contract's types and writes files"},

	{"internal/arch", nil, nil, "only tests"},
	{"test/jsclient", nil, nil, "only tests"},
	{"test/gateway", nil, nil, "only tests"},
	{"deploy", nil, nil, "only tests"},
	{"test/*", []string{anything}, []string{anything, nats}, "programs that only tests run"},
	{"test/*/*", []string{anything}, []string{anything, nats}, "programs that only tests run"},
	{"scripts", nil, nil, "shell scripts, carried inside the program"},
	{"examples/batch", nil, nil, "the example is data; its generator needs the standard library only"},
	{"examples/batch/generate", []string{"examples/batch"}, nil, "the example is data; its generator needs the standard library only"},
	{"examples/class", []string{"examples/class/ipynb", "examples/class/table"}, nil, "the example knows nothing of the graders that it tests"},
	{"examples/class/generate", []string{"examples/class", "examples/class/ipynb"}, nil, "the example knows nothing of the graders that it tests"},
	{"examples/class/ipynb", []string{"examples/class/table"}, nil, "writing notebooks needs the standard library only"},
	{"examples/class/table", nil, nil, "a data frame needs the standard library only"},
}

// allows reports whether the package may import target, a path of another package of the project or of another module.
func (a arrow) allows(target string) bool {
	if own, inside := strings.CutPrefix(target, module); inside {
		return slices.Contains(a.project, anything) || slices.Contains(a.project, own)
	}
	return slices.ContainsFunc(a.outside, func(prefix string) bool {
		return strings.HasPrefix(target, prefix) || prefix == anything && !strings.HasPrefix(target, nats)
	})
}

// arrowOf finds the row of a package, given by its path below the module.
func arrowOf(pkg string) (arrow, bool) {
	i := slices.IndexFunc(arrows, func(a arrow) bool {
		match, err := path.Match(a.pkg, pkg)
		return match && err == nil
	})
	if i < 0 {
		return arrow{}, false
	}
	return arrows[i], true
}

// listed is what the test reads of `go list -json`.
type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportArrows(t *testing.T) {
	for _, p := range list(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		row, known := arrowOf(pkg)
		if !known {
			t.Errorf("package %s has no row in the table of arrows: add one that says what it may import, and why", pkg)
			continue
		}
		for _, target := range p.Imports {
			if !standard(target) && !row.allows(target) {
				t.Errorf("%s imports %s, which is forbidden: %s", pkg, target, row.why)
			}
		}
	}
}

// TestArrowsForbid makes sure that the table says no: a table that allows everything would pass the test above.
func TestArrowsForbid(t *testing.T) {
	for _, tt := range []struct {
		pkg, target string
		want        bool
	}{
		{"cmd/decode-worker", "tandem/internal/app", true},
		{"cmd/submitter", "tandem/internal/queue", false},
		{"internal/app", "tandem/internal/ollama", true},
		{"internal/app", "github.com/alecthomas/kong", true},
		{"internal/app", "github.com/nats-io/nats.go", false},
		{"internal/queue", "github.com/nats-io/nats.go/jetstream", true},
		{"internal/queue", "tandem/internal/engine", false},
		{"internal/pipeline", "tandem/internal/engine", true},
		{"internal/pipeline", "github.com/nats-io/nats.go", false},
		{"internal/pipeline", "tandem/internal/ollama", false},
		{"internal/ollama", "tandem/internal/queue", false},
		{"jobs", "github.com/google/uuid", true},
		{"jobs", "tandem/internal/queue", false},
		{"internal/telemetry", "tandem/internal/queue", false},
	} {
		row, known := arrowOf(tt.pkg)
		if !known {
			t.Errorf("arrowOf(%q) found no row", tt.pkg)
		}
		if got := row.allows(tt.target); got != tt.want {
			t.Errorf("%s may import %s = %t, want %t", tt.pkg, tt.target, got, tt.want)
		}
	}
	if row, known := arrowOf("internal/nobody"); known {
		t.Errorf("arrowOf(internal/nobody) = %+v, want no row", row)
	}
}

// standard reports whether an import is of the standard library: its first element has no dot, and it is not ours.
func standard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".") && !strings.HasPrefix(target, module)
}

// list returns the packages of the project, as the go command sees them.
func list(t *testing.T) []listed {
	t.Helper()
	watchSources(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", module+"...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			if len(packages) == 0 {
				t.Fatal("go list found no package of the project")
			}
			return packages
		case err != nil:
			t.Fatalf("read go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// watchSources reads every source folder, so that `go test` sees what this test depends on and does not answer from its cache.
func watchSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(_ string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatalf("read source folders: %v", err)
	}
}
