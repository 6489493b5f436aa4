package deploy

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestPlists checks the structure that launchd wants, on every system, and asks plutil where there is one.
func TestPlists(t *testing.T) {
	files, err := filepath.Glob("launchd/*.plist")
	if err != nil || len(files) != 3 {
		t.Fatalf("found plists %v, want 3 (%v)", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := strings.NewReplacer("@ROLE@", "worker", ".@NAME@", "", "@NAME@", "name").Replace(read(t, file))
			job, err := parsePlist(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimSuffix(filepath.Base(file), ".plist"); job["Label"] != want {
				t.Errorf("Label is %v, want the file's name %s", job["Label"], want)
			}
			role := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(file), ".plist"), "tandem.")
			user := "_tandem-" + role
			for key, want := range map[string]any{
				"KeepAlive": true, "RunAtLoad": true, "UserName": user, "GroupName": user, "Umask": 0o077, "WorkingDirectory": "/var/lib/tandem/" + role,
			} {
				if job[key] != want {
					t.Errorf("%s is %v, want %v", key, job[key], want)
				}
			}
			arguments, _ := job["ProgramArguments"].([]any)
			if len(arguments) == 0 || !strings.Contains(fmt.Sprint(arguments...), "/usr/local/bin/") {
				t.Errorf("ProgramArguments are %q, want a program that install.sh installs", arguments)
			}
			if limit, _ := job["ExitTimeOut"].(int); limit < 60 {
				t.Errorf("ExitTimeOut is %d s, want at least 60: a drain takes its time", limit)
			}
			for _, key := range []string{"StandardOutPath", "StandardErrorPath"} {
				if path, _ := job[key].(string); !strings.HasPrefix(path, "/var/log/tandem/"+role+"/") {
					t.Errorf("%s is %q, want a file in /var/log/tandem/%s", key, path, role)
				}
			}
			for _, key := range []string{"SoftResourceLimits", "HardResourceLimits"} {
				limits, _ := job[key].(map[string]any)
				if core, ok := limits["Core"].(int); !ok || core != 0 {
					t.Errorf("%s allow core dumps of %v bytes, want 0", key, limits["Core"])
				}
			}
			if runtime.GOOS == "darwin" {
				if out, err := exec.CommandContext(t.Context(), "plutil", "-lint", file).CombinedOutput(); err != nil {
					t.Errorf("plutil: %v\n%s", err, out)
				}
			}
		})
	}
}

// parsePlist reads a property list that is a dictionary: map[string]any, []any, string, int and bool.
func parsePlist(r io.Reader) (map[string]any, error) {
	dec := xml.NewDecoder(r)
	for {
		token, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("find plist: %w", err)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local != "plist" {
			value, err := plistValue(dec, element)
			if err != nil {
				return nil, err
			}
			dict, ok := value.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the plist is a %s, want a dict", element.Name.Local)
			}
			for { // to the end, so that what follows is well-formed too
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					return dict, nil
				} else if err != nil {
					return nil, err
				}
			}
		}
	}
}

// plistValue reads one value, whose start has been read.
func plistValue(dec *xml.Decoder, start xml.StartElement) (any, error) {
	switch kind := start.Name.Local; kind {
	case "true", "false":
		return kind == "true", dec.Skip()
	case "string", "integer", "key":
		var text string
		if err := dec.DecodeElement(&text, &start); err != nil {
			return nil, err
		}
		if kind == "integer" {
			return strconv.Atoi(text)
		}
		return text, nil
	case "array", "dict":
		values, err := plistChildren(dec)
		if err != nil || kind == "array" {
			return values, err
		}
		dict := map[string]any{}
		for len(values) > 0 {
			if len(values) == 1 {
				return nil, fmt.Errorf("key %v has no value", values[0])
			}
			key, ok := values[0].(string)
			if _, twice := dict[key]; !ok || twice {
				return nil, fmt.Errorf("key %v is no name, or is given twice", values[0])
			}
			dict[key], values = values[1], values[2:]
		}
		return dict, nil
	default:
		return nil, fmt.Errorf("unknown plist element %s", kind)
	}
}

// plistChildren reads the values up to the end of the element they stand in.
func plistChildren(dec *xml.Decoder) ([]any, error) {
	values := []any{}
	for {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.EndElement:
			return values, nil
		case xml.StartElement:
			value, err := plistValue(dec, token)
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
	}
}
