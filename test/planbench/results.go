package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tandem/internal/queue"
	"tandem/jobs"
)

// batch is what submitter batch left in a folder.
type batch struct {
	begin, end time.Time
	results    []*jobs.Result
}

// manifestFile is where the submitter writes the batch's manifest.
const manifestFile = "batch.manifest.json"

// readBatch reads the results. The batch's time is what its user waits: from the moment when the submitter, which has started, read the file and is
// connected, makes the manifest and begins to publish, until the last result lies in the folder. That leaves out the start of a process, which is not
// scaled like the engines' time, and nothing else.
func readBatch(dir string) (*batch, error) {
	m, err := queue.ReadManifest(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, err
	}
	b := &batch{begin: m.CreatedAt}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	for _, f := range files {
		if f.Name() == manifestFile {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		r, err := jobs.Decode[jobs.Result](data)
		if err != nil {
			return nil, fmt.Errorf("read result %s: %w", f.Name(), err)
		}
		info, err := f.Info()
		if err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		if info.ModTime().After(b.end) {
			b.end = info.ModTime()
		}
		b.results = append(b.results, r)
	}
	return b, nil
}

// results is how many there are so far, for an error.
func results(dir string) int {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	return max(0, len(files)-1)
}

// check says which jobs have not exactly one result, of the right number of tokens and without a failed hand-over.
func (b *batch) check(list []job) (wrong []string) {
	found := map[string]*jobs.Result{}
	for _, r := range b.results {
		if found[r.CustomID] != nil {
			wrong = append(wrong, r.CustomID+": two results")
		}
		found[r.CustomID] = r
	}
	for _, j := range list {
		r := found[j.CustomID]
		switch {
		case r == nil:
			wrong = append(wrong, j.CustomID+": no result")
		case r.Status != jobs.Succeeded:
			wrong = append(wrong, fmt.Sprintf("%s: %s: %+v", j.CustomID, r.Status, r.Error))
		case r.Usage.GeneratedTokens != j.answer:
			wrong = append(wrong, fmt.Sprintf("%s: %d tokens generated, want %d", j.CustomID, r.Usage.GeneratedTokens, j.answer))
		case r.Handover != nil && r.Handover.Failure != "":
			wrong = append(wrong, fmt.Sprintf("%s: hand-over failed: %s: %s", j.CustomID, r.Handover.Failure, r.Handover.Message))
		}
		delete(found, j.CustomID)
	}
	for id := range found {
		wrong = append(wrong, id+": a result of no job")
	}
	return wrong
}

// methods counts the ways that the jobs went, by machines.
func (b *batch) methods() map[string]int {
	count := map[string]int{}
	machine := func(server string) string { name, _, _ := strings.Cut(server, "/"); return name }
	for _, r := range b.results {
		way := "whole on " + machine(r.Servers.Decode)
		switch {
		case r.Method == jobs.MethodFallback:
			way = "fallback on " + machine(r.Servers.Decode)
		case r.Usage.HandedOver > 0:
			way = machine(r.Servers.Prefill) + " → " + machine(r.Servers.Decode)
		}
		count[way]++
	}
	return count
}
