package llamacpp

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"tandem/internal/gguf"
	"tandem/internal/slots"
)

// server is a llama-server that answered, and what is known of it.
type server struct {
	*slots.Server
	said   slots.Identity
	digest *sum // of the model file, if it is on this machine
}

// connect returns the server, asking it what it is if that is not known.
func (e *Engine) connect(ctx context.Context) (*server, error) {
	at, err := e.where.endpoint()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	s := e.server
	e.mu.Unlock()
	if s != nil && s.Endpoint() == at {
		return s, nil
	}
	return e.ask(ctx)
}

// ask asks the server what it is. What is known of its slots is kept if it is what it was.
func (e *Engine) ask(ctx context.Context) (*server, error) {
	at, err := e.where.endpoint()
	if err != nil {
		return nil, err
	}
	said, err := slots.Describe(ctx, e.client, at)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		if slots.Lost(err) || err == slots.ErrLoading {
			e.server = nil // it ended, and the next one will not hold what it held
		}
		return nil, err
	}
	if s := e.server; s != nil && s.Endpoint() == at && s.said == said {
		return s, nil
	}
	s := &server{said: said, digest: noSum()}
	c := slots.Config{
		Endpoint: at, Client: e.client, Slots: e.options.Slots, Dir: e.options.SlotDir, Prefix: e.options.StatePrefix, Unread: e.options.Unread,
		Model: func() string { return s.digest.known() }, Log: e.options.Log,
	}
	if file := e.modelFile(at, said); file != "" {
		s.digest = e.digests.of(file)
		if c.Header, err = gguf.Read(file); err != nil {
			e.options.Log.Warn("the model is taken for a recurrent one, whose prompts are found in the cache less often", "error", err)
		}
	}
	if s.Server, err = slots.New(c, said); err != nil {
		return nil, err
	}
	e.server = s
	return s, nil
}

// modelFile is the path of the server's model file, if it can be read here. A running server may have
// been given a path that is not ours to read.
func (e *Engine) modelFile(at slots.Endpoint, said slots.Identity) string {
	if local(at.URL) && filepath.IsAbs(said.Model) {
		return cmp.Or(e.options.ModelFile, said.Model)
	}
	return e.options.ModelFile
}

// attached is a server that somebody else looks after.
type attached slots.Endpoint

func (a attached) endpoint() (slots.Endpoint, error) { return slots.Endpoint(a), nil }
func (attached) settled(context.Context) error       { return nil }
func (attached) restart() bool                       { return false }
func (attached) close()                              {}

func trimSlash(u string) string { return strings.TrimRight(u, "/") }

// local reports whether a URL leads to this machine, so that a path the server names is ours too.
func local(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
