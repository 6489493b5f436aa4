package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is what reflection does not see of package jobs.
type source struct {
	types  map[string]string            // type → its comment
	fields map[string]map[string]string // type → field → its comment
	values map[string][]value           // type of constants → its values, in order
}

// value is one constant of a string type.
type value struct{ text, comment string }

// read parses the Go files of a folder.
func read(dir string) (*source, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	src := &source{map[string]string{}, map[string]map[string]string{}, map[string][]value{}}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse source: %w", err)
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				src.add(d)
			}
		}
	}
	return src, nil
}

func (src *source) add(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			src.types[spec.Name.Name] = plain(d.Doc.Text())
			if s, ok := spec.Type.(*ast.StructType); ok {
				src.fields[spec.Name.Name] = comments(s)
			}
		case *ast.ValueSpec:
			typ, ok := spec.Type.(*ast.Ident)
			if !ok || len(spec.Values) != 1 {
				continue
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value) // the parser took it
				src.values[typ.Name] = append(src.values[typ.Name], value{text, plain(spec.Comment.Text())})
			}
		}
	}
}

func comments(s *ast.StructType) map[string]string {
	all := map[string]string{}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			all[name.Name] = plain(f.Comment.Text())
		}
	}
	return all
}

var link = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// plain makes a Go comment one line without Go's links.
func plain(comment string) string {
	return link.ReplaceAllString(strings.Join(strings.Fields(comment), " "), "$1")
}

// comment is what the source says about a field; every field of the contract must be explained.
func (src *source) comment(t reflect.Type, f reflect.StructField) (string, error) {
	c := src.fields[t.Name()][f.Name]
	if c == "" {
		return "", fmt.Errorf("field %s.%s has no comment: say what it holds", t.Name(), f.Name)
	}
	return c, nil
}
