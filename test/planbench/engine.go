package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tandem/test/rig/host"
	"tandem/test/rig/paced"
	"tandem/test/rig/paced/fleet"
)

// site is a fleet at the scales of this run, and the programs for it.
type site struct {
	*fleet.Fleet
	file      string
	programs  *host.Programs
	timeScale float64 // seconds here for one of the fleet's
	sizeScale float64 // bytes of a KV state here for one of the fleet's
	traceDir  string  // where each worker's wires are written down; nowhere if empty
}

// pacedEngine is an engine in a machine's place.
type pacedEngine struct {
	machine *fleet.Machine
	scale   float64
	process *host.Process
	url     string
	slotDir string
}

// listening is what an engine prints when it is ready, before its URL.
const listening = "Listening on "

// startEngine starts the engine of a machine in a folder of its own, and returns when it answers.
func (s *site) startEngine(ctx context.Context, m *fleet.Machine, dir string) (*pacedEngine, error) {
	e := &pacedEngine{machine: m, scale: s.timeScale, slotDir: filepath.Join(dir, "slots-"+m.Name)}
	if err := os.MkdirAll(e.slotDir, 0o700); err != nil {
		return nil, fmt.Errorf("start engine %s: %w", m.Name, err)
	}
	var err error
	e.process, err = host.Start(host.Spec{
		Name: "engine-" + m.Name, Program: s.programs.Path("pacedserver"), Env: []string{"HOME=" + dir}, Dir: dir, Log: filepath.Join(dir, "engine-"+m.Name+".log"),
		Args: []string{
			"--fleet", s.file, "--machine", m.Name, "--listen", "127.0.0.1:0", "--slot-save-path", e.slotDir,
			"--time-scale", strconv.FormatFloat(s.timeScale, 'g', -1, 64), "--size-scale", strconv.FormatFloat(s.sizeScale, 'g', -1, 64),
		},
	})
	if err != nil {
		return nil, err
	}
	if err := e.process.Says(ctx, listening); err != nil {
		e.process.Kill()
		return nil, err
	}
	if err := e.process.Says(ctx, "\n"); err != nil { // the whole line
		e.process.Kill()
		return nil, err
	}
	_, rest, _ := strings.Cut(e.process.Output(), listening)
	e.url = strings.Fields(rest)[0]
	return e, nil
}

// call sends a request with a body of JSON, and reads an answer of JSON.
func (e *pacedEngine) call(ctx context.Context, client *http.Client, method, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("ask engine %s: %w", e.machine.Name, err)
	}
	r, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("ask engine %s: %w", e.machine.Name, err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("ask engine %s: %w", e.machine.Name, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s of engine %s: %s: %.300s %w", method, path, e.machine.Name, response.Status, text, err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s of engine %s: %w", method, path, e.machine.Name, err)
	}
	return nil
}

// measuredFromNowOn makes the engine as slow as its machine has become, and forgets what it has done so far.
func (e *pacedEngine) measuredFromNowOn(ctx context.Context, client *http.Client) error {
	if e.machine.Slower > 0 {
		if err := e.call(ctx, client, http.MethodPost, "/paced", map[string]float64{"slower": e.machine.Slower}, nil); err != nil {
			return err
		}
	}
	return e.call(ctx, client, http.MethodDelete, "/paced", nil, nil)
}

// lanes are what the engine's slots have done since then, which is at 0, in seconds of the fleet's time.
func (e *pacedEngine) lanes(ctx context.Context, client *http.Client, since time.Time) ([]lane, error) {
	var did paced.Timeline
	if err := e.call(ctx, client, http.MethodGet, "/paced", nil, &did); err != nil {
		return nil, err
	}
	list := make([]lane, len(did.Slots))
	offset := time.Unix(0, did.Start).Sub(since).Seconds()
	for i, spans := range did.Slots {
		list[i] = lane{Machine: e.machine.Name, Slot: i}
		for _, s := range spans {
			list[i].Spans = append(list[i].Spans, span{string(s.Kind), (s.Begin + offset) / e.scale, (s.End + offset) / e.scale})
		}
	}
	return list, nil
}
