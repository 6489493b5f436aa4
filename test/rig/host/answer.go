package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// askInfo asks JetStream how it is, in NATS's own protocol: connect, listen for the answer under "in", ask.
const askInfo = "CONNECT {\"verbose\":false}\r\nSUB in 1\r\nPUB $JS.API.INFO in 0\r\n\r\n"

// answers waits until JetStream answers a client of this server. In a cluster it is the leader that answers, so that the
// leader is known then, and the routes to it are ready.
func (n *NATS) answers(ctx context.Context, p *Process) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := n.askOnce(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Exited():
			return fmt.Errorf("wait for JetStream: the server ended with exit status %d; its last words: %s", p.Code(), p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("wait for JetStream: %w; it last said: %w", context.Cause(ctx), err)
		}
	}
}

// askOnce asks once; nil is a good answer. A server that lets in only whom it knows is asked by its port for monitoring.
func (n *NATS) askOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if n.o.Include != "" {
		_, err := n.ask(ctx, "/healthz?js-server-only=true")
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // an end that comes earlier ends the reading
	if _, err := conn.Write([]byte(askInfo)); err != nil {
		return err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch verb, rest, _ := strings.Cut(lines.Text(), " "); verb {
		case "-ERR":
			return errors.New(rest)
		case "MSG": // its text is the next line
			lines.Scan()
			var answer struct {
				Error struct {
					Description string `json:"description"`
				} `json:"error"`
			}
			if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
				return fmt.Errorf("read answer of JetStream: %w", err)
			}
			if answer.Error.Description != "" {
				return errors.New(answer.Error.Description)
			}
			return nil
		}
	}
	return errors.New("no answer")
}
