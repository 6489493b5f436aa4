package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tandem/client"
	"tandem/client/admin"
	"tandem/internal/access"
	"tandem/internal/app"
	"tandem/internal/gateway"
	"tandem/internal/natsembed"
	"tandem/internal/natsembed/natstest"
	"tandem/internal/protocol"
	"tandem/internal/queue"
	"tandem/jobs"
	"tandem/test/logs"
)

// bound is a gateway with its own rights on a server that gives nobody more, and a file of tokens.
type bound struct {
	*door
	t      *testing.T
	model  *teller
	queue  *queue.Client // the operator's
	tokens string
	system *admin.Client
	log    *logs.Buffer
}

func openBound(t *testing.T) *bound {
	t.Helper()
	const other = "other:1b"
	folder := access.Folder(filepath.Join(t.TempDir(), "access"))
	if err := folder.Create([]string{"127.0.0.1"}, []string{tellerModel, other}); err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, natsembed.Options{Include: folder.Config()})
	b := &bound{t: t, tokens: filepath.Join(t.TempDir(), "tokens.json"), log: &logs.Buffer{}}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	t.Cleanup(func() {
		if strings.Contains(b.log.String(), "ermission") {
			t.Errorf("something was not allowed:\n%s", b.log.String())
		}
	})
	all := queue.Config{URL: server.URL(), Name: "operator", NKey: folder.Operator(), TLSCA: folder.CA(), Log: log}
	operator, err := queue.Connect(t.Context(), all)
	if err == nil {
		err = operator.EnsureStreams(t.Context())
	}
	for _, model := range []string{tellerModel, other} {
		for _, role := range []jobs.Stage{protocol.RolePrefill, protocol.RoleDecode} {
			if err == nil {
				err = operator.EnsureConsumers(t.Context(), role, model)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(operator.Close)
	b.queue = queue.NewClient(operator, "operator")
	worker := queue.Config{URL: server.URL(), NKey: folder.Worker(protocol.RoleDecode, tellerModel), TLSCA: folder.CA(), Inbox: access.WorkerInbox(protocol.RoleDecode, tellerModel), Log: log}
	b.model = startTeller(t, worker, all, 2)
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), NKey: folder.Gateway(), CA: folder.CA(), User: access.GatewayInbox, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.system = admin.New(c)
	b.add(gateway.Token{Name: "nobody", User: "nobody"}) // the file must be there
	b.door = openGateway(t, gateway.Options{System: b.system, Tokens: b.tokens, Plan: jobs.PlanLocal, Log: log})
	return b
}

func (b *bound) add(token gateway.Token) (secret string) {
	b.t.Helper()
	secret, err := gateway.AddToken(b.tokens, token)
	if err != nil {
		b.t.Fatal(err)
	}
	return secret
}

// ask sends a request; a body that begins with { is JSON, any other a form with this file.
func (b *bound) ask(secret, method, path, body string) (status int, said string, header http.Header) {
	b.t.Helper()
	kind := "application/json"
	if body != "" && !strings.HasPrefix(body, `{"model"`) && path == "/v1/files" {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("file", "class.jsonl")
		if err == nil {
			_, err = part.Write([]byte(body))
		}
		if err == nil {
			err = w.WriteField("purpose", "batch")
		}
		if err != nil {
			b.t.Fatal(err)
		}
		_ = w.Close()
		body, kind = form.String(), w.FormDataContentType()
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

// generate asks for a text, not streamed, which is the same again.
func (b *bound) generate(secret, model, prompt string) (status int, said string, header http.Header) {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "prompt": prompt, "stream": false})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.ask(secret, http.MethodPost, "/api/generate", string(body))
}

func (b *bound) await(what string, there func() bool) {
	b.t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatalf("did not happen: %s", what)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	b := openBound(t)
	alice := b.add(gateway.Token{Name: "alice", User: "alice", Models: []string{tellerModel}})
	bob := b.add(gateway.Token{Name: "bob", User: "bob", PerMinute: 2})
	carol := b.add(gateway.Token{Name: "carol", User: "carol", PerDay: 3, Class: jobs.Batch})
	b.await("the file is read again", func() bool { status, _, _ := b.generate(alice, tellerModel, "one"); return status == http.StatusOK })

	expect := func(what string, status int, said string, header http.Header, wantStatus int, want string) {
		t.Helper()
		if status != wantStatus || !strings.Contains(said, want) || !json.Valid([]byte(said)) {
			t.Errorf("%s: status %d, %s; want %d and %q", what, status, said, wantStatus, want)
		}
		if (header.Get("Retry-After") != "") != (status == http.StatusTooManyRequests) {
			t.Errorf("%s: status %d, Retry-After %q", what, status, header.Get("Retry-After"))
		}
	}
	for what, secret := range map[string]string{"no token": "", "another": "tandem-" + strings.Repeat("0", 64), "the hash": "alice", "a part": alice[:40]} {
		status, said, header := b.generate(secret, tellerModel, "one")
		expect(what, status, said, header, http.StatusUnauthorized, "gateway token add")
		if header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: no WWW-Authenticate", what)
		}
	}
	status, said, _ := b.ask("", http.MethodGet, "/", "")
	if status != http.StatusOK || said != "Tandem is running" {
		t.Errorf("whether it runs: %d, %s", status, said)
	}
	status, said, header := b.generate(alice, "other:1b", "one")
	expect("another model", status, said, header, http.StatusForbidden, "token alice is not for model other:1b")
	if _, said, _ = b.ask(alice, http.MethodGet, "/api/tags", ""); strings.Contains(said, "other:1b") || !strings.Contains(said, tellerModel) {
		t.Errorf("the models of alice: %s", said)
	}
	b.generate(bob, tellerModel, "one")
	b.generate(bob, tellerModel, "one")
	status, said, header = b.generate(bob, tellerModel, "one")
	expect("too many a minute", status, said, header, http.StatusTooManyRequests, "2 times a minute")
	b.generate(carol, tellerModel, "one two three")
	status, said, header = b.generate(carol, tellerModel, "one")
	expect("too many tokens a day", status, said, header, http.StatusTooManyRequests, "tokens of today")

	if err := gateway.RevokeToken(b.tokens, "alice"); err != nil {
		t.Fatal(err)
	}
	b.await("a revoked token is refused", func() bool {
		status, _, _ := b.generate(alice, tellerModel, "one")
		return status == http.StatusUnauthorized
	})

	kv, err := gateway.OpenUsage(t.Context(), b.system.JetStream())
	if err != nil {
		t.Fatal(err)
	}
	b.await("usage is written", func() bool {
		list, err := gateway.ListUsage(t.Context(), kv, "", "")
		return err == nil && len(list) == 3 && list[1].Token == "bob" && list[1].User == "bob" && list[1].Requests == 2 && list[1].Generated == 2 && list[2].Generated == 3
	})
	for _, secret := range []string{alice, bob, carol, "one two"} {
		if strings.Contains(b.log.String(), secret) {
			t.Error("a token or a prompt is in the log")
		}
	}
	if !strings.Contains(b.log.String(), "token=bob") {
		t.Errorf("the log does not say who asked:\n%s", b.log.String())
	}
}

// Requests of a token beyond those that it may have at the same time are refused, and its slot is free when one ends.
func TestConcurrentRequests(t *testing.T) {
	b := openBound(t)
	dave := b.add(gateway.Token{Name: "dave", User: "dave", Concurrent: 1})
	body := `{"model": "` + tellerModel + `", "prompt": "hold"}`
	var answer *http.Response
	b.await("a request that lasts is begun", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/api/generate", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+dave)
		if answer, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK {
			answer.Body.Close()
		}
		return answer.StatusCode == http.StatusOK
	})
	if status, said, _ := b.generate(dave, tellerModel, "one"); status != http.StatusTooManyRequests || !strings.Contains(said, "1 requests under way") {
		t.Errorf("a second request: %d, %s", status, said)
	}
	answer.Body.Close()
	b.await("the first has ended", func() bool { status, _, _ := b.generate(dave, tellerModel, "one"); return status == http.StatusOK })
}

// Files and batches are those of a user, by whatever token, and nobody else finds them.
func TestOthersBatches(t *testing.T) {
	b := openBound(t)
	alice, bob := b.add(gateway.Token{Name: "alice", User: "alice"}), b.add(gateway.Token{Name: "bob", User: "bob"})
	b.await("the file is read again", func() bool {
		status, _, _ := b.ask(bob, http.MethodGet, "/v1/models", "")
		return status == http.StatusOK
	})
	var made struct{ ID, Status string }
	read := func(status int, said string, _ http.Header) {
		t.Helper()
		if err := json.Unmarshal([]byte(said), &made); err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %s, %v", status, said, err)
		}
	}
	line := `{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"model": "` + tellerModel + `", "prompt": "one two"}}`
	read(b.ask(alice, http.MethodPost, "/v1/files", line))
	file := made.ID
	start := `{"input_file_id": "` + file + `", "endpoint": "/v1/completions", "completion_window": "24h"}`
	read(b.ask(alice, http.MethodPost, "/v1/batches", start))
	batch := made.ID
	for _, tt := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/files/" + file, ""}, {http.MethodGet, "/v1/files/" + file + "/content", ""}, {http.MethodDelete, "/v1/files/" + file, ""}, {http.MethodPost, "/v1/batches", start},
		{http.MethodGet, "/v1/batches/" + batch, ""}, {http.MethodPost, "/v1/batches/" + batch + "/cancel", ""}, {http.MethodGet, "/v1/batches/%2e%2e", ""}, {http.MethodGet, "/v1/files/..%2falice%2f" + file, ""},
	} {
		if status, said, _ := b.ask(bob, tt.method, tt.path, tt.body); status != http.StatusNotFound {
			t.Errorf("%s %s of another user: %d, %s", tt.method, tt.path, status, said)
		}
	}
	if _, said, _ := b.ask(bob, http.MethodGet, "/v1/files", ""); strings.Contains(said, file) {
		t.Errorf("bob's files: %s", said)
	}
	if _, said, _ := b.ask(bob, http.MethodGet, "/v1/batches", ""); strings.Contains(said, batch) {
		t.Errorf("bob's batches: %s", said)
	}
	b.await("the batch is completed", func() bool {
		read(b.ask(alice, http.MethodGet, "/v1/batches/"+batch, ""))
		return made.Status == "completed"
	})
}

// A batch of one user that keeps every slot busy does not keep back another user's single question.
func TestSingleQuestionBesideBatch(t *testing.T) {
	t.Parallel()
	b := openBound(t)
	alice, bob := b.add(gateway.Token{Name: "alice", User: "alice"}), b.add(gateway.Token{Name: "bob", User: "bob"})
	b.await("the file is read again", func() bool {
		status, _, _ := b.ask(bob, http.MethodGet, "/v1/models", "")
		return status == http.StatusOK
	})
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, `{"custom_id": "%d", "method": "POST", "url": "/v1/completions", "body": {"model": "%s", "prompt": "hold"}}`+"\n", i, tellerModel)
	}
	var made struct {
		ID, Status string
		Counts     struct{ Failed int } `json:"request_counts"`
	}
	read := func(status int, said string, _ http.Header) {
		t.Helper()
		if err := json.Unmarshal([]byte(said), &made); err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %s, %v", status, said, err)
		}
	}
	read(b.ask(alice, http.MethodPost, "/v1/files", lines.String()))
	read(b.ask(alice, http.MethodPost, "/v1/batches", `{"input_file_id": "`+made.ID+`", "endpoint": "/v1/completions", "completion_window": "24h"}`))
	batch := "/v1/batches/" + made.ID
	b.await("every slot is busy", func() bool {
		workers, err := b.system.Workers(t.Context())
		return err == nil && len(workers) == 1 && workers[0].Busy == 2
	})
	asked := make(chan string)
	go func() {
		status, said, _ := b.generate(bob, tellerModel, "one two three")
		asked <- fmt.Sprint(status, said)
	}()
	b.await("bob's question waits", func() bool {
		o, err := b.queue.Inspect(t.Context())
		return err == nil && slices.ContainsFunc(o.Models, func(m queue.ModelStatus) bool {
			return m.Model == tellerModel && m.Classes[0].Prefill.Waiting+m.Classes[0].Prefill.InFlight > 0
		})
	})
	b.model.enough <- struct{}{} // one line ends, of 300
	if said := <-asked; !strings.Contains(said, `200{`) || !strings.Contains(said, `"one two three"`) {
		t.Errorf("bob's question: %s", said)
	}
	read(b.ask(alice, http.MethodGet, batch, ""))
	if made.Status != "in_progress" {
		t.Errorf("the batch is %s", made.Status)
	}
	read(b.ask(alice, http.MethodPost, batch+"/cancel", ""))
	b.await("the batch is cancelled", func() bool { read(b.ask(alice, http.MethodGet, batch, "")); return made.Status == "cancelled" })
	if made.Counts.Failed != 299 {
		t.Errorf("%d lines were cancelled, want 299", made.Counts.Failed)
	}
}

// Over TLS it answers who trusts its certificate; without tokens and TLS it does not listen where other machines are.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := access.Folder(filepath.Join(t.TempDir(), "access"))
	if err := folder.Create([]string{"127.0.0.1"}, []string{tellerModel}); err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, natsembed.Options{})
	c, err := client.Dial(t.Context(), client.Options{URL: server.URL(), User: "program"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	o := gateway.Options{System: admin.New(c), Version: "test", Log: slog.New(slog.DiscardHandler)}
	file := func(name string) string { return filepath.Join(string(folder), name) }
	secure := app.GatewayAddress{HTTP: "127.0.0.1:0", TLSCert: file("server.pem"), TLSKey: file("server-key.pem")}
	for want, at := range map[string]app.GatewayAddress{
		"with --tokens, and answer over TLS": {HTTP: "0.0.0.0:0", TLSCert: secure.TLSCert, TLSKey: secure.TLSKey},
		"want both or none":                  {HTTP: "127.0.0.1:0", TLSCert: secure.TLSCert},
		"--tls-cert nothing.pem":             {HTTP: "127.0.0.1:0", TLSCert: "nothing.pem", TLSKey: "nothing.pem"},
		"is no address":                      {HTTP: "11500"},
	} {
		if _, err := app.StartGateway(t.Context(), at, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", at, err, want)
		}
	}
	g, err := app.StartGateway(t.Context(), secure, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop() })
	pem, err := os.ReadFile(folder.CA())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	knows := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	defer knows.CloseIdleConnections()
	ask := func(c *http.Client) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL()+"/api/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Do(r)
	}
	answer, err := ask(knows)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		t.Errorf("over TLS: %s by %s", answer.Status, answer.Proto)
	}
	if answer, err := ask(http.DefaultClient); err == nil {
		answer.Body.Close()
		t.Error("a client that does not know the authority is answered")
	}
	// Whoever sends its headers a byte at a time is not waited for.
	slow, err := tls.Dial("tcp", strings.TrimPrefix(g.URL(), "https://"), &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := slow.Write([]byte("GET / HTTP/1.1\r\nHost: 127")); err != nil {
		t.Fatal(err)
	}
	if err := slow.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(slow); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a client that never ends its headers keeps its connection")
	}
}
