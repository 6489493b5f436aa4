// Package badinput holds rules about what the programs read from others, which no single package can test.
package badinput

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours are the folders of what runs at a user's; what only tests and the fault rig run is left out, and grading, which speaks no HTTP.
var (
	ours    = []string{"../../cmd", "../../internal"}
	leftOut = []string{"../../test/rig", "../../internal/standin", "../../internal/tinymodel", "../../internal/grader"}
)

// TestHTTPIsBounded: whoever speaks HTTP asks no proxy, follows no redirect, unpacks nothing, and reads and waits within limits.
func TestHTTPIsBounded(t *testing.T) {
	files := token.NewFileSet()
	seen := 0
	for _, root := range ours {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && (slices.Contains(leftOut, path) || strings.HasSuffix(path, "test")):
				return filepath.SkipDir
			case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, wrong := range wrongs(n) {
					t.Errorf("%s: %s", files.Position(n.Pos()), wrong)
				}
				return true
			})
			if made, guarded := mentions(file, "Client"), mentions(file, "CheckRedirect"); made && !guarded {
				t.Errorf("%s makes an http.Client that follows redirects", path)
			}
			seen++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 100 {
		t.Errorf("only %d files were looked at", seen)
	}
}

// wrongs says what is wrong with a piece of code.
func wrongs(n ast.Node) (list []string) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		for _, name := range []string{"DefaultClient", "DefaultTransport", "ProxyFromEnvironment", "Get", "Head", "Post", "PostForm", "ListenAndServe", "Serve"} {
			if isSelector(n, "http", name) {
				list = append(list, "http."+name+" has no limits, or asks a proxy")
			}
		}
	case *ast.CompositeLit:
		fields := map[string]bool{}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok {
					fields[key.Name] = true
				}
			}
		}
		switch {
		case isSelector(n.Type, "http", "Transport") && !fields["DisableCompression"]:
			list = append(list, "an http.Transport without DisableCompression unpacks what may be a bomb")
		case isSelector(n.Type, "http", "Transport") && fields["Proxy"]:
			list = append(list, "an http.Transport has a proxy")
		case isSelector(n.Type, "http", "Server") && !fields["ReadHeaderTimeout"]:
			list = append(list, "an http.Server without ReadHeaderTimeout waits for ever for a slow request")
		}
	case *ast.CallExpr:
		if isSelector(n.Fun, "io", "ReadAll") && !bounded(n.Args[0]) {
			list = append(list, "io.ReadAll without a limit")
		}
		if isSelector(n.Fun, "json", "NewDecoder") {
			if body, ok := n.Args[0].(*ast.SelectorExpr); ok && body.Sel.Name == "Body" {
				list = append(list, "json.NewDecoder reads a body without a limit")
			}
		}
	}
	return list
}

// bounded reports whether an expression is a reader with a limit.
func bounded(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && (isSelector(call.Fun, "io", "LimitReader") || isSelector(call.Fun, "http", "MaxBytesReader"))
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

// mentions reports whether a file makes an http.<name>, or has something of that name.
func mentions(file *ast.File, name string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			found = found || isSelector(n.Type, "http", name)
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == name && name != "Client"
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				found = found || key.Name == name && name != "Client"
			}
		}
		return true
	})
	return found
}
