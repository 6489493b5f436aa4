package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Source is what reflection does not see of a package.
type Source struct {
	Types  map[string]string            // type → its comment
	Fields map[string]map[string]string // type → field → its comment
	Values map[string][]Value           // type of constants → its values, in order
}

// Value is one constant of a string type.
type Value struct{ Text, Comment string }

// Read parses the Go files of a folder.
func Read(dir string) (*Source, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	src := &Source{map[string]string{}, map[string]map[string]string{}, map[string][]Value{}}
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

func (src *Source) add(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			src.Types[spec.Name.Name] = plain(d.Doc.Text())
			if s, ok := spec.Type.(*ast.StructType); ok {
				src.Fields[spec.Name.Name] = comments(s)
			}
		case *ast.ValueSpec:
			typ, ok := spec.Type.(*ast.Ident)
			if !ok || len(spec.Values) != 1 {
				continue
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value) // the parser took it
				src.Values[typ.Name] = append(src.Values[typ.Name], Value{text, plain(spec.Comment.Text())})
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
