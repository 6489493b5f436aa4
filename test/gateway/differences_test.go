package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/internal/standin"
)

// runClients is what clients.mjs prints when it is pointed at an address.
func runClients(t *testing.T, url string, more ...string) []step {
	t.Helper()
	return runProgram(t, url, []string{"node", "clients.mjs"}, more...)
}

// runProgram is what a program prints that is pointed at an address.
func runProgram(t *testing.T, url string, program []string, more ...string) (steps []step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args := slices.Concat(program[1:], []string{url, standin.CodeModel, callerModel, seerModel, embedderModel}, more)
	cmd := exec.CommandContext(ctx, program[0], args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run clients: %v; they printed\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		var s step
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		steps = append(steps, s)
	}
	return steps
}

// answer is what one request of a step was answered with.
type answer struct {
	Path   string
	Status int
	Type   string
	Fields map[string]string // their JSON types
}

// difference is one between two answers.
type difference struct{ what, here, there string }

// differences of two answers to the same request: its status, else its fields.
func (here answer) differences(there answer) (list []difference) {
	if here.Status != there.Status {
		return []difference{{"status", fmt.Sprint(here.Status), fmt.Sprint(there.Status)}}
	}
	if here.Type != there.Type {
		list = append(list, difference{"content type", here.Type, there.Type})
	}
	fields := maps.Clone(here.Fields)
	maps.Copy(fields, there.Fields)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if h, t := here.Fields[name], there.Fields[name]; h != t && !within(name, fields, here, there) {
			list = append(list, difference{"`" + name + "`", cmp.Or(h, "–"), cmp.Or(t, "–")})
		}
	}
	return list
}

// within reports whether a field is part of one that only one of the answers has, which says all.
func within(name string, fields map[string]string, here, there answer) bool {
	for outer := range fields {
		if strings.HasPrefix(name, outer+".") || strings.HasPrefix(name, outer+"[]") {
			if (here.Fields[outer] == "") != (there.Fields[outer] == "") {
				return true
			}
		}
	}
	return false
}

const (
	document = "../../docs/GATEWAY.md"
	begins   = "<!-- What follows is written by the test: UPDATE=1 go test -run TestGateway ./test/gateway -->\n"
	ends     = "<!-- Here it ends. -->\n"
)

// differences holds the table in the document to what the same clients get from the gateway and from the Ollama behind it; what is generated greedily is the same text.
func (d *door) differences(t *testing.T, here []step) {
	there := runClients(t, d.engine, "--no-batches")
	here = slices.DeleteFunc(slices.Clone(here), func(s step) bool { return strings.HasPrefix(s.Step, "openai batch") })
	if len(here) != len(there) {
		t.Fatalf("%d steps here, %d there", len(here), len(there))
	}
	var order []difference
	steps := map[difference][]string{}
	for i, h := range here {
		o := there[i]
		if h.Text != o.Text && h.Step != "ollama version" {
			t.Errorf("%s: the text is %q, Ollama's is %q", h.Step, h.Text, o.Text)
		}
		if len(h.Answers) != len(o.Answers) {
			t.Errorf("%s: %d requests here, %d there", h.Step, len(h.Answers), len(o.Answers))
			continue
		}
		for k := range h.Answers {
			for _, x := range h.Answers[k].differences(o.Answers[k]) {
				if steps[x] == nil {
					order = append(order, x)
				}
				if !slices.Contains(steps[x], h.Step) {
					steps[x] = append(steps[x], h.Step)
				}
			}
		}
	}
	var table strings.Builder
	table.WriteString("\n| steps of `test/gateway/clients.mjs` | what | here | Ollama 0.34.0 |\n|---|---|---|---|\n")
	for _, x := range order {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", strings.Join(steps[x], "; "), x.what, x.here, x.there)
	}
	table.WriteString("\n")
	holdTable(t, table.String())
}

func holdTable(t *testing.T, want string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), begins)
	have, after, ended := strings.Cut(rest, ends)
	switch {
	case !begun || !ended:
		t.Fatalf("%s lacks the lines between which the table stands:\n%s%s", document, begins, ends)
	case have == want:
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile(document, []byte(before+begins+want+ends+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is not that of the test, which is as follows; UPDATE=1 writes it\n%s", document, want)
	}
}
