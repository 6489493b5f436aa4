package host

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"tandem/test/rig/tap"
)

// Routes are wires between nodes of a cluster. What is done to them is done to each, in both directions.
type Routes []*tap.Tap

// Set changes the weather on all of them: Drop alone cuts nodes off from one another, and from no client.
func (r Routes) Set(c tap.Conditions) {
	for _, t := range r {
		t.Set(c)
	}
}

// Cut closes all connections. The nodes make new ones at once.
func (r Routes) Cut() {
	for _, t := range r {
		t.Cut()
	}
}

// Reset does the same as Cut with a TCP reset.
func (r Routes) Reset() {
	for _, t := range r {
		t.Reset()
	}
}

func (r Routes) close() error {
	var errs []error
	for _, t := range r {
		errs = append(errs, t.Close(), t.Err())
	}
	return errors.Join(errs...)
}

// route is the wire by which one node dials another, by their indices.
type route struct {
	from, to int
	tap      *tap.Tap
}

// openRoutes puts a tap on the way from each node to each other, whose cluster ports are given.
func openRoutes(ports []int) (all []route, err error) {
	for from := range ports {
		for to, port := range ports {
			if from == to {
				continue
			}
			t, err := tap.ListenRaw(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return nil, errors.Join(err, wires(all, -1).close())
			}
			all = append(all, route{from, to, t})
		}
	}
	return all, nil
}

// wires are those of one node, or all of them if it is -1.
func wires(all []route, node int) (r Routes) {
	for _, w := range all {
		if node < 0 || w.from == node || w.to == node {
			r = append(r, w.tap)
		}
	}
	return r
}

// dials are the addresses by which a node finds the others.
func dials(all []route, from int) (urls []string) {
	for _, w := range all {
		if w.from == from {
			urls = append(urls, fmt.Sprintf("nats://%s", w.tap.Addr()))
		}
	}
	return urls
}
