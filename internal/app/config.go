package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"tandem/internal/protocol"
	"tandem/jobs"
)

// YAMLFile is a kong loader for a configuration file: a flat YAML map whose keys are the names of
// flags. A flag on the command line wins over the environment, which wins over the file.
func YAMLFile(r io.Reader) (kong.Resolver, error) {
	var values map[string]any
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && err != io.EOF {
		return nil, jobs.Errorf(jobs.CodeInvalid, "read configuration file: %w", err)
	}
	return fileResolver(values), nil
}

type fileResolver map[string]any

// Validate refuses a key that is no flag.
func (f fileResolver) Validate(app *kong.Application) error {
	var known []string
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && isSetting(flag) {
			known = append(known, flag.Name)
		}
		return next(nil)
	})
	for key := range f {
		if !slices.Contains(known, key) {
			slices.Sort(known)
			return jobs.Errorf(jobs.CodeInvalid, "configuration file: key %q is unknown; known are %s", key, strings.Join(slices.Compact(known), ", "))
		}
	}
	return nil
}

// isSetting reports whether a flag says how the program works, rather than what it should do now.
func isSetting(flag *kong.Flag) bool {
	return !slices.Contains([]string{"help", "version", "config", "print-config"}, flag.Name)
}

// Resolve gives a flag's value, unless its environment variable is set. An empty value leaves the default.
func (f fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	value, ok := f[flag.Name]
	if !ok || value == nil || value == "" {
		return nil, nil
	}
	if list, isList := value.([]any); isList {
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = fmt.Sprint(v)
		}
		return strings.Join(parts, ","), nil
	}
	return fmt.Sprint(value), nil
}

// PrintConfig writes the flags' effective values as a configuration file, URLs without the secrets in them.
func PrintConfig(w io.Writer, ctx *kong.Context) error {
	out := yaml.Node{Kind: yaml.MappingNode}
	for _, flag := range ctx.Flags() {
		if !isSetting(flag) {
			continue
		}
		setting := flag.Target.Interface()
		if s, isText := setting.(string); isText && flag.PlaceHolder == "URL" {
			setting = protocol.RedactURL(s)
		}
		var value yaml.Node
		if err := value.Encode(setting); err != nil {
			return fmt.Errorf("print configuration: %s: %w", flag.Name, err)
		}
		out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: flag.Name}, &value)
	}
	data, err := yaml.Marshal(&out)
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	_, err = w.Write(data)
	return err
}
