package submitter

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/natsembed"
	"tandem/internal/ollama/ollamatest"
	"tandem/internal/queue"
	"tandem/internal/standin"
	"tandem/internal/standin/standintest"
	"tandem/jobs"
)

// The commands run as processes of their own, against a NATS server and real workers in this one.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"submitter": func() {
			os.Exit(checkedMain(os.Args[1:]))
		},
	})
}

func TestScripts(t *testing.T) {
	alone := ollamatest.Start(t, ollamatest.Options{Model: "qwen3-coder:30b"})
	breaking := ollamatest.Start(t, ollamatest.Options{Model: "qwen3-coder:30b"}) // for one script only
	cache, err := standin.CacheDir()                                              // before HOME is another
	if err != nil {
		t.Fatal(err)
	}
	standintest.Engines(t)
	theShim := standintest.Shim(t)
	schemaFile, err := filepath.Abs(outputSchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("TANDEM_USER", "tester")
			env.Setenv("OLLAMA", alone.URL())
			env.Setenv(outputSchemaEnv, schemaFile)
			env.Setenv("BREAKING", breaking.URL())
			env.Setenv("TANDEM_CACHE", cache)
			env.Setenv("TANDEM_SHIM", theShim)
			env.Setenv("TANDEM_NATS", "nats://127.0.0.1:1") // nobody listens there
			env.Setenv("GORACE", "atexit_sleep_ms=0")       // else each process takes a second to end under -race
			r := newRig(filepath.Join(env.WorkDir, ".rig"))
			env.Values[rigKey{}] = r
			env.Defer(r.stop)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"nats": rigged((*rig).startNATS), "nats-restart": rigged((*rig).restartNATS), "nats-new": rigged((*rig).newNATS), "drift": rigged((*rig).drift),
			"limit-intake": rigged((*rig).limitIntake),
			"worker":       rigged((*rig).startWorker), "stop-workers": rigged((*rig).stopWorkers),
			"held": rigged((*rig).held), "release": rigged((*rig).release), "serving": rigged((*rig).serving), "answers": rigged((*rig).answers), "queued": rigged((*rig).queued), "measured": rigged((*rig).measured),
			"exits": exits, "interrupt": rigged((*rig).interrupt), "exited": rigged((*rig).exited), "records": records, "jobid": jobID, "freeport": freePort,
			"repair": rigged((*rig).repair), "unseen": unseen, "capture": capture,
			"breaks-after": breaksAfter(breaking), "heals": func(*testscript.TestScript, bool, []string) { breaking.Heal() },
			"fill": fill, "sparse": sparse, "zipped": zipped, "lines": lines,
		},
	})
}

type rigKey struct{}

// rig is what a script's commands talk to.
type rig struct {
	dir     string
	server  *natsembed.Server
	engine  *echo
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup
	last    *exec.Cmd // that was interrupted
}

func newRig(dir string) *rig {
	r := &rig{dir: dir, engine: newEcho()}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *rig) stop() {
	r.engine.open()
	r.cancel()
	r.workers.Wait()
	if r.server != nil {
		r.server.Stop()
	}
}

// rigged makes a method of the rig a command; none of them can be negated.
func rigged(f func(*rig, *testscript.TestScript, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command cannot be negated")
		}
		ts.Check(f(ts.Value(rigKey{}).(*rig), ts, args))
	}
}

// limit is how long anything that a script waits for may take on a busy machine.
const limit = 30 * time.Second

// nats [small|core|locked]: starts a server and points submitter at it.
func (r *rig) startNATS(ts *testscript.TestScript, args []string) (err error) {
	o := natsembed.Options{Dir: filepath.Join(r.dir, "nats"), Log: slog.New(slog.DiscardHandler)}
	switch strings.Join(args, " ") {
	case "small":
		o.MaxPayload = 1 << 20
	case "core":
		o.NoJetStream, o.Dir = true, ""
	case "locked":
		o.Users = []natsembed.User{{Name: "grader", Password: "right"}}
	}
	if r.server, err = natsembed.Start(r.ctx, o); err == nil {
		ts.Setenv("TANDEM_NATS", r.server.URL())
	}
	return err
}

func (r *rig) restartNATS(*testscript.TestScript, []string) error { return r.server.Restart(r.ctx) }

// nats-new: puts a server with an empty store in the place of the one that runs.
func (r *rig) newNATS(ts *testscript.TestScript, args []string) error {
	r.server.Stop()
	if err := os.RemoveAll(filepath.Join(r.dir, "nats")); err != nil {
		return err
	}
	return r.startNATS(ts, args)
}

// limit-intake N: has the intake hold no more than N jobs.
func (r *rig) limitIntake(_ *testscript.TestScript, args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	js, stop, err := r.jetStream()
	if err != nil {
		return err
	}
	defer stop()
	s, err := js.Stream(r.ctx, queue.StreamIntake)
	if err != nil {
		return err
	}
	config := s.CachedInfo().Config
	config.MaxMsgs = n
	_, err = js.UpdateStream(r.ctx, config)
	return err
}

// jetStream connects to the server's streams.
func (r *rig) jetStream() (js jetstream.JetStream, stop func(), err error) {
	nc, err := nats.Connect(r.server.URL())
	if err != nil {
		return nil, nil, err
	}
	if js, err = jetstream.New(nc); err != nil {
		nc.Close()
		return nil, nil, err
	}
	return js, nc.Close, nil
}

// drift: creates a stream otherwise than it should be.
func (r *rig) drift(*testscript.TestScript, []string) error {
	js, stop, err := r.jetStream()
	if err != nil {
		return err
	}
	defer stop()
	_, err = js.CreateStream(r.ctx, jetstream.StreamConfig{Name: "RESULTS", Subjects: []string{"results.>"}, MaxAge: time.Hour})
	return err
}

// worker ROLE MODEL: starts a worker and waits until it takes jobs.
func (r *rig) startWorker(_ *testscript.TestScript, args []string) error {
	role := jobs.Stage(args[0])
	w, err := app.StartWorker(r.ctx, app.WorkerConfig{
		Role: role, Engine: r.engine, Log: slog.New(slog.DiscardHandler),
		Flags: app.WorkerFlags{
			NATS: r.server.URL(), Model: args[1], Engine: "ollama", Slots: 1, NumCtx: 16384, HTTP: "127.0.0.1:0",
			Machine: "machine-" + args[0], StateDir: r.dir, StartTimeout: limit, DrainLimit: limit, Measure: "never",
		},
	})
	if err != nil {
		return err
	}
	ctx := r.ctx
	r.workers.Go(func() {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			panic(fmt.Sprintf("worker: %v", err))
		}
	})
	return r.present(w.ID())
}

// present waits until the others see a worker.
func (r *rig) present(id string) error {
	return r.sees("worker "+id+" is not there", func(p queue.Presence) bool { return p.Worker == id && p.Live() })
}

// sees waits until the others see a worker that is so, and says what is wrong if they do not.
func (r *rig) sees(wrong string, so func(queue.Presence) bool) error {
	c, err := queue.Connect(r.ctx, queue.Config{URL: r.server.URL(), Name: "test"})
	if err != nil {
		return err
	}
	defer c.Close()
	return eventually(func() error {
		workers, err := c.Workers(r.ctx)
		if err == nil && !slices.ContainsFunc(workers, so) {
			err = errors.New(wrong)
		}
		return err
	})
}

// stop-workers: has all of them drain and waits until they are gone.
func (r *rig) stopWorkers(*testscript.TestScript, []string) error {
	r.cancel()
	r.workers.Wait()
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return nil
}

// held: waits until the engine is at a job that it was told to hold.
func (r *rig) held(*testscript.TestScript, []string) error {
	select {
	case <-r.engine.holding:
		return nil
	case <-time.After(limit):
		return errors.New("no job came to be held")
	}
}

// release: lets held jobs go on, and those to come.
func (r *rig) release(*testscript.TestScript, []string) error {
	r.engine.open()
	return nil
}

// repair: has the engine heed no word of a prompt any more.
func (r *rig) repair(*testscript.TestScript, []string) error {
	r.engine.fixed.Store(true)
	return nil
}

// queued N: waits until N jobs have been accepted and have not ended.
func (r *rig) queued(_ *testscript.TestScript, args []string) error {
	js, stop, err := r.jetStream()
	if err != nil {
		return err
	}
	defer stop()
	return eventually(func() error {
		count := uint64(0)
		for _, name := range []string{queue.StreamIntake, queue.StreamRelay} {
			s, err := js.Stream(r.ctx, name)
			if err != nil {
				return err
			}
			count += s.CachedInfo().State.Msgs
		}
		if got := strconv.FormatUint(count, 10); got != args[0] {
			return fmt.Errorf("%s jobs are queued, want %s", got, args[0])
		}
		return nil
	})
}

// measured MODEL: waits until others see that a worker has measured answers of the model.
func (r *rig) measured(_ *testscript.TestScript, args []string) error {
	return r.sees("no worker of "+args[0]+" has measured answers", func(p queue.Presence) bool { return p.Model == args[0] && p.Rates.GeneratedTokens > 0 })
}

// serving URL [FOLDER [MODEL]]: waits until a NATS server there, with the keys in the folder, has all streams, and workers of both roles for the model.
func (r *rig) serving(ts *testscript.TestScript, args []string) error {
	config := queue.Config{URL: args[0], Name: "test"}
	if len(args) > 1 {
		folder := access.Folder(ts.MkAbs(args[1]))
		config.NKey, config.TLSCA = folder.Operator(), folder.CA()
	}
	return eventually(func() error {
		c, err := queue.Connect(r.ctx, config)
		if err != nil {
			return err
		}
		defer c.Close()
		o, err := queue.NewClient(c, "").Inspect(r.ctx)
		if err == nil {
			var missing []queue.Change
			missing, err = c.Init(r.ctx, nil, 1, true)
			if slices.ContainsFunc(missing, func(c queue.Change) bool { return c.Missing }) {
				err = errors.New("a stream is missing")
			}
		}
		if err == nil && len(args) > 2 && !slices.ContainsFunc(o.Models, func(m queue.ModelStatus) bool { return m.Model == args[2] }) {
			err = errors.New("model " + args[2] + " is not served")
		}
		if err == nil && len(args) > 2 && len(o.Workers) < 2 {
			err = errors.New("a worker is missing")
		}
		return err
	})
}

// eventually repeats a look at something that says nothing by itself.
func eventually(look func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := look()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// exits CODE PROGRAM ARGS…: runs it and checks the exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// answers: waits until an HTTP server answers a GET with a text: answers URL TEXT.
func (r *rig) answers(_ *testscript.TestScript, args []string) error {
	return eventually(func() error {
		request, err := http.NewRequestWithContext(r.ctx, http.MethodGet, args[0], nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(said), args[1]) {
			err = fmt.Errorf("the answer is %.200s", said)
		}
		return err
	})
}

// interrupt: sends Ctrl-C to the background process that was started last.
func (r *rig) interrupt(ts *testscript.TestScript, _ []string) error {
	running := ts.BackgroundCmds()
	r.last = running[len(running)-1]
	return r.last.Process.Signal(os.Interrupt)
}

// exited CODE: checks the exit code of the interrupted process, after wait.
func (r *rig) exited(_ *testscript.TestScript, args []string) error {
	if got := r.last.ProcessState.ExitCode(); strconv.Itoa(got) != args[0] {
		return fmt.Errorf("exit code %d, want %s", got, args[0])
	}
	return nil
}

// resultSchema is the published schema of results.
var resultSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("../../../docs/schemas/result.v1.schema.json")
})

// records FILE…: checks that each file is one strict record, and as the published schema has it.
func records(ts *testscript.TestScript, _ bool, args []string) {
	published, err := resultSchema()
	ts.Check(err)
	for _, file := range args {
		text := ts.ReadFile(file)
		if _, err := jobs.Decode[jobs.Result]([]byte(text)); err != nil {
			ts.Fatalf("%s: %v", file, err)
		}
		plain, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		ts.Check(err)
		if err := published.Validate(plain); err != nil {
			ts.Fatalf("%s: %v", file, err)
		}
	}
}

// jobid VAR FILE: puts the last UUID of a file into a variable.
func jobID(ts *testscript.TestScript, _ bool, args []string) {
	words := strings.FieldsFunc(ts.ReadFile(args[1]), func(r rune) bool { return !strings.ContainsRune("0123456789abcdef-", r) })
	for _, w := range words {
		if len(w) == len(jobs.NewID()) && strings.Count(w, "-") == 4 {
			ts.Setenv(args[0], w)
		}
	}
	if ts.Getenv(args[0]) == "" {
		ts.Fatalf("no job id in %s", args[1])
	}
}

// freeport VAR: puts a free TCP port into a variable.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ts.Check(l.Close())
}

// breaksAfter makes a command: breaks-after N has an Ollama answer N requests more, and none after these until it heals.
func breaksAfter(o *ollamatest.Server) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		o.Fail("", n)
		o.Fail(ollamatest.Reset, 1000)
	}
}

// capture VAR REGEXP FILE: puts what the expression's group finds first in a file into a variable.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile(args[2]))
	if found == nil {
		ts.Fatalf("nothing in %s is like %s", args[2], args[1])
	}
	ts.Setenv(args[0], found[1])
}

// unseen WORD DIR [PATH]…: checks that no file below a folder holds a word, but for those below the paths in it.
func unseen(ts *testscript.TestScript, _ bool, args []string) {
	word, dir, but := args[0], ts.MkAbs(args[1]), args[2:]
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if inside, _ := filepath.Rel(dir, path); slices.Contains(but, inside) {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		if strings.Contains(path, word) || strings.Contains(ts.ReadFile(path), word) {
			ts.Fatalf("%s: holds %q", path, word)
		}
		return nil
	}))
}

// fill FILE BYTES TEXT: writes a file of that size, all of it the text over and over; \xNN stands for a byte.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	text, err := strconv.Unquote(`"` + args[2] + `"`)
	ts.Check(err)
	data := strings.Repeat(text, n/len(text)+1)[:n]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(data), 0o600))
}

// sparse FILE BYTES: writes a file of zeros, which needs no room on the disk.
func sparse(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(n), f.Close()))
}

// zipped ARCHIVE NAME FILE [NAME FILE]…: writes a ZIP file, each entry of it under any name at all.
func zipped(ts *testscript.TestScript, _ bool, args []string) {
	archive, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer archive.Close()
	w := zip.NewWriter(archive)
	for pair := range slices.Chunk(args[1:], 2) {
		entry, err := w.Create(pair[0])
		ts.Check(err)
		f, err := os.Open(ts.MkAbs(pair[1]))
		ts.Check(err)
		_, err = io.Copy(entry, f)
		ts.Check(errors.Join(err, f.Close()))
	}
	ts.Check(w.Close())
}

// lines N FILE: checks how many lines a file has.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	if got := strconv.Itoa(strings.Count(ts.ReadFile(args[1]), "\n")); got != args[0] {
		ts.Fatalf("%s has %s lines, want %s", args[1], got, args[0])
	}
}
