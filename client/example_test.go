package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tandem/client"
	"tandem/jobs"
)

func ExampleClient_Generate() {
	system := startEcho(nil)
	defer system.stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, client.Options{URL: system.url, User: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	text, metrics, err := c.Generate(ctx, "Once upon a time", "echo:1b", 100)
	fmt.Println(text, err)
	fmt.Println(metrics.Usage.GeneratedTokens, "tokens,", metrics.Method)
	// Output:
	// Once upon a time <nil>
	// 4 tokens, local
}

func ExampleClient_Run() {
	system := startEcho(nil)
	defer system.stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{URL: system.url, User: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	_, err = c.Run(ctx, &jobs.Job{Model: "unheard-of", Prompt: "Hello"})
	fmt.Println(jobs.CodeOf(err))

	r, err := c.Run(ctx, &jobs.Job{Model: "echo:1b", Prompt: "Hello", Labels: map[string]string{"course": "R"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status, r.Text, r.Labels["course"])
	// Output:
	// unknown_model
	// succeeded Hello R
}

func ExampleClient_Stream() {
	system := startEcho(nil)
	defer system.stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{URL: system.url, User: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	var text strings.Builder
	for piece, err := range c.Stream(ctx, &jobs.Job{Model: "echo:1b", Prompt: "word by word"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if piece.Restart { // on another machine: what came is void
			text.Reset()
		}
		text.WriteString(piece.Text)
		if piece.Result != nil {
			fmt.Println(piece.Result.Status, text.String() == piece.Result.Text)
		}
	}
	// Output: succeeded true
}

func ExampleClient_Cancel() {
	system := startEcho(make(chan struct{})) // a model that never says a word
	defer system.stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{URL: system.url, User: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	j := &jobs.Job{Model: "echo:1b", Prompt: "Hello"}
	if err := c.Submit(ctx, j); err != nil { // j.ID is filled in
		fmt.Println(err)
		return
	}
	soon, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	_, err = c.Await(soon, j.ID)
	fmt.Println(jobs.CodeOf(err)) // the call has failed, the job lives on

	was, err := c.Cancel(ctx, j.ID)
	fmt.Println(was.Status, err)
	r, err := c.Await(ctx, j.ID)
	fmt.Println(r.Status, errors.Is(err, jobs.ErrCancelled)) // a cancelled job is no failed call
	// Output:
	// timeout
	// cancelled <nil>
	// cancelled false
}

func ExampleClient_RunBatch() {
	system := startEcho(nil)
	defer system.stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{URL: system.url, User: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	dir, err := os.MkdirTemp("", "essays-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var list []*jobs.Job
	for _, name := range []string{"ada", "blaise", "carl"} {
		list = append(list, &jobs.Job{Batch: "essays", CustomID: name, Model: "echo:1b", Prompt: "Essay of " + name})
	}
	var texts []string
	for r, err := range c.RunBatch(ctx, client.Batch{Manifest: filepath.Join(dir, "batch.json"), Jobs: list}) {
		if err != nil {
			fmt.Println(err) // calling RunBatch again goes on
			return
		}
		texts = append(texts, r.CustomID+": "+r.Text)
	}
	slices.Sort(texts)
	fmt.Println(strings.Join(texts, "\n"))
	// Output:
	// ada: Essay of ada
	// blaise: Essay of blaise
	// carl: Essay of carl
}
