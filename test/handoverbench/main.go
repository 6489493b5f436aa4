// Command handoverbench measures what a hand-over of KV state costs beside the ways to do without it, on
// real engines with a model large enough for prefill to take visible time. It prints the tables of
// docs/MEASUREMENTS.md; `make bench-handover` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"tandem/internal/engine"
	"tandem/internal/handover"
	"tandem/internal/llamacpp"
	"tandem/internal/ollama"
	"tandem/internal/standin"
	"tandem/internal/tinymodel"
	"tandem/jobs"
)

const model = "visible:120m"

func main() {
	tokens := flag.String("tokens", "500,1000,2000,4000", "prompt lengths")
	long := flag.Int("long", 8000, "a further length for llama-server; 0 for none")
	threads := flag.Int("threads", 1, "of each engine")
	engines := flag.String("engines", "ollama,llama-server", "which to measure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, strings.Split(*engines, ","), *tokens, *long, *threads); err != nil {
		fmt.Fprintln(os.Stderr, "handoverbench:", err)
		os.Exit(1)
	}
}

// bench is a pair of engines, as on two machines, and the way between them.
type bench struct {
	prefill, decode engine.Engine
	server          *handover.Server
	client          *handover.Client
	cleanup         []func() error
}

func run(ctx context.Context, w io.Writer, names []string, list string, long, threads int) (err error) {
	lengths, err := numbers(list)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "handoverbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	found, err := standin.Find(ctx, standin.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	for _, name := range names {
		sizes := lengths
		start := ollamas
		if name == "llama-server" {
			start = llamaServers
			if long > 0 {
				sizes = append(sizes[:len(sizes):len(sizes)], long)
			}
		}
		b := &bench{}
		if err := b.start(ctx, start, found, filepath.Join(dir, name), sizes[len(sizes)-1]*5/4+256, threads); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(w, "\n%s (%s), model of 120M parameters, q8_0, f16 cache, %d thread(s) each\n\n", name, version(found, name), threads)
		err := b.measure(ctx, w, sizes)
		for i := len(b.cleanup) - 1; i >= 0; i-- {
			if e := b.cleanup[i](); e != nil && err == nil {
				err = e
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func version(e standin.Engines, name string) string {
	if name == "ollama" {
		return e.OllamaVersion + " with llama.cpp " + e.LlamaVersion
	}
	return "llama.cpp " + e.LlamaVersion
}

type starter func(ctx context.Context, b *bench, e standin.Engines, dir string, numCtx, threads int) error

func (b *bench) start(ctx context.Context, s starter, e standin.Engines, dir string, numCtx, threads int) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.server, err = handover.Serve(ctx, handover.ServerConfig{Listen: "127.0.0.1:0", Budget: 8 << 30, Log: log,
		Alive: func(_ context.Context, ids []string) (map[string]bool, error) {
			alive := map[string]bool{}
			for _, id := range ids {
				alive[id] = true
			}
			return alive, nil
		}})
	if err != nil {
		return err
	}
	b.cleanup = append(b.cleanup, b.server.Close)
	if b.client, err = handover.NewClient(handover.ClientConfig{Log: log}); err != nil {
		return err
	}
	if err := s(ctx, b, e, dir, numCtx, threads); err != nil {
		return err
	}
	for _, each := range []engine.Engine{b.prefill, b.decode} {
		if err := each.Load(ctx); err != nil {
			return err
		}
		d, err := each.Describe(ctx)
		if err != nil {
			return err
		}
		if d.KVTransfer == nil {
			return fmt.Errorf("the engine moves no states: %s", d.NoKVTransfer)
		}
	}
	return nil
}

func ollamas(ctx context.Context, b *bench, e standin.Engines, dir string, numCtx, threads int) error {
	for _, side := range []struct {
		name   string
		engine *engine.Engine
	}{{"prefill", &b.prefill}, {"decode", &b.decode}} {
		s, err := standin.StartOllama(ctx, standin.OllamaOptions{
			Engines: e, Dir: filepath.Join(dir, side.name), Models: map[string]tinymodel.Spec{model: tinymodel.Visible(tinymodel.BPE)},
		})
		if err != nil {
			return err
		}
		b.cleanup = append(b.cleanup, s.Stop)
		o := ollama.Options{URL: s.URL(), Model: model, NumCtx: numCtx, NumThread: threads, RunDir: s.RunDir(), StatePrefix: "bench-"}
		made, err := ollama.New(o)
		if err != nil {
			return err
		}
		b.cleanup = append(b.cleanup, made.Close)
		*side.engine = made
	}
	return nil
}

func llamaServers(_ context.Context, b *bench, e standin.Engines, dir string, numCtx, threads int) error {
	file, err := standin.ModelFile("", tinymodel.Visible(tinymodel.BPE))
	if err != nil {
		return err
	}
	for _, side := range []struct {
		name   string
		engine *engine.Engine
	}{{"prefill", &b.prefill}, {"decode", &b.decode}} {
		made, err := llamacpp.New(llamacpp.Options{
			Model: model, Binary: e.LlamaServer, ModelFile: file, Slots: 1, NumCtx: numCtx, Threads: threads, CacheType: "f16",
			StateDir: filepath.Join(dir, side.name), StatePrefix: "bench-",
		})
		if err != nil {
			return err
		}
		b.cleanup = append(b.cleanup, made.Close)
		*side.engine = made
	}
	return nil
}

// row is what one prompt length took.
type row struct {
	tokens                     int
	bytes                      int64
	save, move, restore, check time.Duration
	handed, again, whole       time.Duration // to the first token
	equal                      bool
}

func (b *bench) measure(ctx context.Context, w io.Writer, sizes []int) error {
	line := func(cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |") }
	line("tokens", "state", "save", "move", "read", "check", "hand-over to first token", "re-prefill", "hand-over / re-prefill", "whole on one engine", "text equal")
	line("--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
	for i, n := range sizes {
		r, err := b.one(ctx, i, n)
		if err != nil {
			return fmt.Errorf("%d tokens: %w", n, err)
		}
		line(fmt.Sprint(r.tokens), fmt.Sprintf("%.1f MB", float64(r.bytes)/1e6), ms(r.save), ms(r.move), ms(r.restore), ms(r.check), ms(r.handed), ms(r.again),
			fmt.Sprintf("%.2f %%", 100*r.handed.Seconds()/r.again.Seconds()), ms(r.whole), fmt.Sprint(r.equal))
	}
	return nil
}

// one measures one length. Each way has a prompt of its own, so that none finds another's in a cache.
func (b *bench) one(ctx context.Context, i, n int) (r row, err error) {
	req := request(fmt.Sprintf("%d moved", i), n)
	req.Export = true
	pre, err := b.prefill.Prefill(ctx, req)
	if err != nil {
		return r, err
	}
	if pre.State == nil {
		return r, fmt.Errorf("no state: %s: %s", pre.Failure, pre.Note)
	}
	r.tokens, r.bytes, r.save = pre.PromptTokens, pre.State.Bytes, pre.State.Saved
	req.Export = false
	want, err := b.prefill.Generate(ctx, req, quiet)
	if err != nil {
		return r, err
	}

	job := jobs.NewID()
	offered, err := b.server.Offer(job, pre.State.Path)
	if err != nil {
		return r, err
	}
	offered.Tokens, offered.Fingerprint, offered.First = pre.State.Tokens, pre.State.Fingerprint, pre.State.First
	b.server.Published(job)
	d, err := b.decode.Describe(ctx)
	if err != nil {
		return r, err
	}
	start := time.Now()
	f, err := b.client.Fetch(ctx, &offered, d.KVTransfer.Dir, "bench-", func() {})
	if err != nil {
		return r, err
	}
	fetched := time.Since(start)
	r.move = f.Duration
	here := *pre.State
	here.Path = f.Path
	pre.State = &here
	c, err := b.decode.Decode(ctx, req, pre, quiet)
	if err != nil {
		return r, err
	}
	if c.Imported == nil || c.ComputedTokens != 1 {
		return r, fmt.Errorf("the state was not used: %d tokens computed, warnings %q", c.ComputedTokens, c.Warnings)
	}
	r.restore, r.check, r.handed, r.equal = c.Imported.Restored, c.Imported.Checked, r.save+fetched+c.FirstToken, c.Text == want.Text
	b.server.Release(job)
	if err := os.Remove(f.Path); err != nil {
		return r, err
	}

	if r.again, err = first(ctx, b.decode, request(fmt.Sprintf("%d again", i), n), engine.Prefilled{Kind: jobs.KindNone}); err != nil {
		return r, err
	}
	r.whole, err = first(ctx, b.prefill, request(fmt.Sprintf("%d whole", i), n), engine.Prefilled{Kind: jobs.KindNone})
	return r, err
}

// first is the time to the first piece of text.
func first(ctx context.Context, e engine.Engine, req engine.Request, from engine.Prefilled) (at time.Duration, err error) {
	start, pieces := time.Now(), 0
	c, err := e.Decode(ctx, req, from, func(jobs.Chunk) error {
		if pieces++; pieces == 1 {
			at = time.Since(start)
		}
		return nil
	})
	if err == nil && c.ComputedTokens < c.PromptTokens/2 {
		err = fmt.Errorf("only %d of %d tokens were computed: the cache was not cold", c.ComputedTokens, c.PromptTokens)
	}
	return at, err
}

var quiet engine.Emit = func(jobs.Chunk) error { return nil }

// request is a greedy one of about n tokens, unlike every other from its first words on.
func request(title string, n int) engine.Request {
	const perLine = 20 // tokens, roughly, with the stand-ins' vocabulary
	var b strings.Builder
	fmt.Fprintf(&b, "%s. Explain:\n", title)
	for i := range (n - 16) / perLine {
		fmt.Fprintf(&b, "total_%d <- sum(price[%d] * quantity[%d])\n", i, i, i)
	}
	return engine.Request{Prompt: b.String(), Options: jobs.Options{Temperature: new(0.0), NumPredict: new(8)}, Progress: func() {}}
}

func numbers(list string) ([]int, error) {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		var n int
		if _, err := fmt.Sscan(s, &n); err != nil || n < 64 {
			return nil, fmt.Errorf("tokens: %q; want numbers of at least 64, separated by commas", s)
		}
		out = append(out, n)
	}
	return out, nil
}

func ms(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
