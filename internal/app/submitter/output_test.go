package submitter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tandem/internal/schema"
	"tandem/jobs"
)

const (
	outputSchemaFile = "../../../docs/schemas/submitter.schema.json"
	outputSchemaEnv  = "TEST_OUTPUT_SCHEMA" // where it is, for commands of scripts
)

// TestOutputSchema: docs/schemas/submitter.schema.json describes what is printed with --json. UPDATE=1 writes it anew.
func TestOutputSchema(t *testing.T) {
	got, err := outputSchema()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(outputSchemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(outputSchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); UPDATE=1 accepts it:\n%s", outputSchemaFile, diff)
	}
}

func outputSchema() ([]byte, error) {
	files := map[reflect.Type]string{}
	for _, t := range []reflect.Type{reflect.TypeFor[jobs.Job](), reflect.TypeFor[jobs.Result](), reflect.TypeFor[jobs.Chunk]()} {
		files[t] = fmt.Sprintf("%s.v%d.schema.json", strings.ToLower(t.Name()), jobs.Version)
	}
	g := schema.NewGenerator("tandem", "../../..", schema.Rules{Files: files, Open: map[reflect.Type]bool{reflect.TypeFor[jobs.Code](): true}})
	var commands schema.Object
	for _, command := range slices.Sorted(maps.Keys(outputs)) {
		var any []schema.Object
		for _, v := range append(slices.Clone(outputs[command]), failure{}) {
			shape, err := g.Value(reflect.TypeOf(v))
			if err != nil {
				return nil, fmt.Errorf("output of %s: %w", command, err)
			}
			any = append(any, shape)
		}
		commands = append(commands, schema.Member{defOf(command), schema.Object{{"description", "Each line that `submitter " + command + " --json` prints."}, {"anyOf", any}}})
	}
	return schema.Format(schema.Object{
		{"$schema", schema.Dialect}, {"$id", filepath.Base(outputSchemaFile)}, {"title", "Output of submitter"},
		{"description", "What the commands print with --json, one value a line: of `submitter dlq list`, each is as #/$defs/dlq-list says."},
		{"$defs", append(commands, g.Defs()...)},
	})
}

// defOf is the name of the definition of what a command prints.
func defOf(command string) string { return strings.ReplaceAll(command, " ", "-") }

// TestOutputsAreTried: a script prints what each command prints with --json.
func TestOutputsAreTried(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var scripts []byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, data...)
	}
	for command := range outputs {
		if !regexp.MustCompile(`(?m)^ex.* submitter .*\b` + command + `\b.* (--json|-j)\b|^ex.* submitter (--json|-j) .*\b` + command + `\b`).Match(scripts) {
			t.Errorf("no script runs submitter %s --json", command)
		}
	}
}

// checkedMain is Main, with what it prints held against the schema.
func checkedMain(args []string) int {
	var stdout bytes.Buffer
	code := Main(context.Background(), args, os.Stdin, io.MultiWriter(&stdout, os.Stdout), os.Stderr)
	if err := checkOutput(args, stdout.Bytes()); err != nil {
		fmt.Fprintf(os.Stderr, "stdout is not as docs/schemas/submitter.schema.json says: %v\n", err)
		return 99
	}
	return code
}

// checkOutput holds the output of a command against the schema, if it is JSON.
func checkOutput(args []string, stdout []byte) error {
	var g grammar
	exited := -1
	parser, err := newParser(&g, io.Discard, io.Discard, &exited)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil || exited >= 0 || !g.JSON {
		return nil
	}
	var words []string
	for w := range strings.FieldsSeq(parsed.Command()) {
		if !strings.HasPrefix(w, "<") {
			words = append(words, w)
		}
	}
	command := strings.Join(words, " ")
	published, err := jsonschema.NewCompiler().Compile(os.Getenv(outputSchemaEnv) + "#/$defs/" + defOf(command))
	if err != nil {
		return fmt.Errorf("command %q: %w", command, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(stdout)); ; {
		var line json.RawMessage
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			return err
		}
		if err := published.Validate(plain); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
}
