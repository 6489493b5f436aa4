package main

import (
	"compress/gzip"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRun has the real govulncheck look up the smallest package of ours that calls a library, in made-up databases.
func TestRun(t *testing.T) {
	const root, notLookedUp = "../..", "known vulnerabilities were NOT looked up: no database at "
	if _, err := os.ReadFile(filepath.Join(root, "tools/go.mod")); err != nil { // go test watches what a test reads: another govulncheck is tested anew
		t.Fatal(err)
	}
	folder := func(name string) string {
		abs, err := filepath.Abs(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return "file://" + abs
	}
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>Log in</html>")) }))
	t.Cleanup(portal.Close)

	for _, tt := range []struct {
		name, db string
		want     []string // in what is printed
		fails    string   // what the error says, if there is to be one
	}{
		{"our code calls it", folder("reached"), []string{"GO-1999-0001", "calls uuid.NewV7"}, "exit status"},
		{"our code does not call it", serve(t, "testdata/unreached"), []string{"Your code is affected by 0 vulnerabilities", "1 vulnerability in packages you import"}, ""},
		{"nothing is known", folder("empty"), []string{"No vulnerabilities found"}, ""},
		{"no such folder", folder("nowhere"), []string{notLookedUp, "404"}, ""},
		{"nobody listens", "http://user:secret@" + closed(t), []string{notLookedUp, "user:xxxxx@", "connection refused"}, ""},
		{"no answer", "http://" + silent(t), []string{notLookedUp, "no answer within"}, ""},
		{"another answers", portal.URL, []string{notLookedUp, "something else"}, ""},
		{"no URL", "http://user:secret@ /", nil, "GOVULNDB is not a URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			probe := probeLimit
			if tt.name == "no answer" {
				probe = 100 * time.Millisecond
			}
			var out strings.Builder
			err := run(t.Context(), root, tt.db, []string{"./jobs"}, probe, &out)
			if tt.fails == "" && err != nil {
				t.Errorf("run: %v\n%s", err, &out)
			}
			if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("run = %v, want an error that says %q\n%s", err, tt.fails, &out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("printed, without %q:\n%s", want, &out)
				}
			}
			if strings.Contains(out.String(), "secret") || err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("a password is shown: %v\n%s", err, &out)
			}
		})
	}
}

// serve serves a folder as Go's database is served: each file as it is, and compressed with .gz behind its name.
func serve(t *testing.T, dir string) string {
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, compressed := strings.CutSuffix(r.URL.Path, ".gz")
		if !compressed {
			files.ServeHTTP(w, r)
			return
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		z := gzip.NewWriter(w)
		z.Write(data)
		z.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// closed is an address where nobody listens.
func closed(t *testing.T) string {
	l := listen(t)
	l.Close()
	return l.Addr().String()
}

// silent is an address where connections are made and nobody answers.
func silent(t *testing.T) string { return listen(t).Addr().String() }

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
