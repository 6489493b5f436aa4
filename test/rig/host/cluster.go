package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cluster is some NATS servers that know one another. Whatever passes between two of them passes a tap, one for each that may dial the other.
type Cluster struct {
	nodes  []*NATS
	routes []route
}

// StartCluster starts n servers, named nats-1 and so on, each in a folder of its name below dir, and returns when they
// have agreed on a leader, which answers clients of each. Their disks flush always. Include is as in [NATSOptions].
func StartCluster(ctx context.Context, p *Programs, dir string, n int, include string) (*Cluster, error) {
	return onFreePorts(func() (*Cluster, error) { return startCluster(ctx, p, dir, n, include) })
}

func startCluster(ctx context.Context, p *Programs, dir string, n int, include string) (*Cluster, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := new(Cluster)
	if c.routes, err = openRoutes(ports[n:]); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	for i := range n {
		name := fmt.Sprintf("nats-%d", i+1)
		node, err := StartNATS(ctx, p, NATSOptions{
			Name: name, Dir: filepath.Join(dir, name), Port: ports[i], Cluster: ports[n+i],
			Routes: dials(c.routes, i), Include: include,
		})
		if err != nil {
			return nil, fmt.Errorf("start cluster: %w", errors.Join(err, c.Kill()))
		}
		c.nodes = append(c.nodes, node)
	}
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("start cluster: %w", errors.Join(err, c.Kill()))
	}
	return c, nil
}

// ready waits until all nodes follow one leader, and until it answers whatever node is asked. It is an error if one of them has ended.
func (c *Cluster) ready(ctx context.Context) error {
	if _, err := c.agree(ctx, "", len(c.nodes)); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.answers(ctx, n.Process()); err != nil {
			return fmt.Errorf("node %s: %w", n.Name(), err)
		}
	}
	return nil
}

// Nodes are the servers, by their index.
func (c *Cluster) Nodes() []*NATS { return slices.Clone(c.nodes) }

// URL is the addresses of all nodes, separated by commas, as clients and workers take them.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		urls[i] = n.URL()
	}
	return strings.Join(urls, ",")
}

// Route is all wires between a node and the others, whoever of the two dialled. They stay over restarts of nodes, until Kill.
func (c *Cluster) Route(i int) Routes { return wires(c.routes, i) }

// Kill ends all nodes, and the routes between them. The error is the first thing that a route could not carry. It may be called twice.
func (c *Cluster) Kill() error {
	for _, n := range c.nodes {
		n.Kill()
	}
	return wires(c.routes, -1).close()
}

// Leader waits until a node knows that it leads JetStream and most nodes, itself among them, say the same, and returns
// its index.
func (c *Cluster) Leader(ctx context.Context) (int, error) { return c.agree(ctx, "", 0) }

// StreamLeader is Leader for the nodes that have the stream.
func (c *Cluster) StreamLeader(ctx context.Context, stream string) (int, error) {
	return c.agree(ctx, stream, 0)
}

// agree waits until most nodes, and at least so many, agree on who leads the stream, or the cluster if it has no name.
func (c *Cluster) agree(ctx context.Context, stream string, atLeast int) (int, error) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		said := c.survey(ctx, stream)
		if i := c.chosen(said, atLeast); i >= 0 {
			return i, nil
		}
		if atLeast == len(c.nodes) {
			if err := c.complete(); err != nil {
				return -1, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			what := "the cluster"
			if stream != "" {
				what = "stream " + stream
			}
			return -1, fmt.Errorf("wait for a leader of %s: %w; the last that the nodes said: %s", what, context.Cause(ctx), c.report(said))
		}
	}
}

// complete fails if a node has ended. One that cannot listen for the others does so after it was ready.
func (c *Cluster) complete() error {
	for _, n := range c.nodes {
		if p := n.Process(); p.ended() {
			return n.portTaken(p, fmt.Errorf("node %s has ended with exit status %d; its last words: %s", n.Name(), p.Code(), p.lastWords()))
		}
	}
	return nil
}

// survey asks all nodes at once; who does not answer, or does not know the stream, believes nothing.
func (c *Cluster) survey(ctx context.Context, stream string) []belief {
	said := make([]belief, len(c.nodes))
	var asking sync.WaitGroup
	for i, n := range c.nodes {
		asking.Go(func() {
			if all, err := n.beliefs(ctx); err == nil { // down, frozen, or on its way
				said[i] = all[stream]
			}
		})
	}
	asking.Wait()
	return said
}

// chosen is the index of the node that says of itself that it leads, and of which enough others say so: -1 if there is none. If it must be all,
// it must know that the others are there, too: else it places nothing on them.
func (c *Cluster) chosen(said []belief, atLeast int) int {
	for i, b := range said {
		if b.leader != c.nodes[i].Name() || b.peers+1 < atLeast {
			continue
		}
		votes := 0
		for _, other := range said {
			if other.leader == b.leader {
				votes++
			}
		}
		if votes >= max(atLeast, b.voters/2+1) {
			return i
		}
	}
	return -1
}

func (c *Cluster) report(said []belief) string {
	var b strings.Builder
	for i, s := range said {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %q", c.nodes[i].Name(), s.leader)
	}
	return b.String()
}
