package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 16 << 20

// ask asks the server how it is.
func (n *NATS) ask(ctx context.Context, path string) ([]byte, error) {
	url := "http://" + net.JoinHostPort(n.o.Host, strconv.Itoa(n.monitor)) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %s", url, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

// belief is what one node says of who leads: the name of a node, empty while there is none, and by how many it is chosen.
type belief struct {
	leader string
	voters int
	peers  int // others that it knows to be there; only who leads knows it
}

// beliefs are a node's: of the cluster under the empty name, and of each stream that it has under the stream's.
func (n *NATS) beliefs(ctx context.Context) (map[string]belief, error) {
	body, err := n.ask(ctx, "/jsz?accounts=true&streams=true")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Meta *struct {
			Leader string `json:"leader"`
			Size   int    `json:"cluster_size"`
			Peers  []struct {
				Offline bool `json:"offline"`
			} `json:"replicas"`
		} `json:"meta_cluster"`
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader   string     `json:"leader"`
					Replicas []struct{} `json:"replicas"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read what NATS server %s says of JetStream: %w", n.o.Name, err)
	}
	all := make(map[string]belief)
	if answer.Meta != nil {
		b := belief{leader: answer.Meta.Leader, voters: answer.Meta.Size}
		for _, peer := range answer.Meta.Peers {
			if !peer.Offline {
				b.peers++
			}
		}
		all[""] = b
	}
	for _, account := range answer.Accounts {
		for _, s := range account.Streams {
			all[s.Name] = belief{leader: s.Cluster.Leader, voters: len(s.Cluster.Replicas) + 1, peers: len(s.Cluster.Replicas)}
		}
	}
	return all, nil
}
