// Command vuln fails on a known vulnerability that code of the project reaches. It runs govulncheck, of the version in
// tools/go.mod, where the vulnerability database can be read, and says so where it cannot; `make vuln` runs it.
// GOVULNDB names another database than Go's own; file:///DIR is a folder.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tandem/internal/supervisor"
)

const (
	probeLimit = 5 * time.Second  // for the database to answer
	limit      = 10 * time.Minute // for govulncheck: seconds on an idle machine, minutes beside every test in CI
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db := cmp.Or(os.Getenv("GOVULNDB"), "https://vuln.go.dev")
	if err := run(ctx, ".", db, os.Args[1:], probeLimit, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

// run looks the packages up that the patterns match, as seen from root, the folder of go.mod. That the database does not
// answer within the time given is no error. What was found goes to out.
func run(ctx context.Context, root, db string, patterns []string, probe time.Duration, out io.Writer) error {
	at, err := url.Parse(db)
	if err != nil {
		return errors.New("GOVULNDB is not a URL") // err may hold a password
	}
	if err := read(ctx, at, probe); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(out, "vuln: known vulnerabilities were NOT looked up: no database at %s: %v\n", at.Redacted(), err)
		return nil
	}

	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	args := append([]string{"tool", "-modfile=tools/go.mod", "govulncheck", "-db=" + db}, patterns...)
	check, err := supervisor.Start("go", args, root, nil, out)
	if err != nil {
		return fmt.Errorf("start govulncheck: %w", err)
	}
	select {
	case <-check.Exited():
		if err := check.Err(); err != nil { // 3 if it found something
			return fmt.Errorf("govulncheck: %w", err)
		}
		return nil
	case <-ctx.Done():
		check.Kill()
		return fmt.Errorf("govulncheck: %w", context.Cause(ctx))
	}
}

// read reads the one small file that every database has.
func read(ctx context.Context, db *url.URL, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, db.JoinPath("index", "db.json").String(), nil)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	var index struct{ Modified time.Time }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&index); err != nil || index.Modified.IsZero() {
		return cmp.Or(context.Cause(ctx), errors.New("the answer is of something else"))
	}
	return nil
}
