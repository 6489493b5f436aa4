package host

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
)

func TestFreePortsAreDifferentAndCanBeTaken(t *testing.T) {
	ports, err := freePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	one, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	if n := len(slices.Compact(slices.Clone(ports))); n != 50 {
		t.Errorf("%d different ports, want 50", n)
	}
	for _, port := range append(ports[:3], one) {
		if port < firstPort || port > lastPort {
			t.Errorf("port %d, want one from %d to %d", port, firstPort, lastPort)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Errorf("the port cannot be taken: %v", err)
			continue
		}
		l.Close()
	}
}

func TestOtherPortsIfOneWasTaken(t *testing.T) {
	taken, other := fmt.Errorf("start: %w", errPortTaken), errors.New("other")
	for name, test := range map[string]struct {
		errs []error // of one start after the other
		want error
	}{
		"never":  {[]error{nil}, nil},
		"once":   {[]error{taken, nil}, nil},
		"always": {[]error{taken, taken, taken}, taken},
		"other":  {[]error{other}, other},
	} {
		starts := 0
		got, err := onFreePorts(func() (int, error) {
			starts++
			return starts, test.errs[starts-1]
		})
		if err != test.want || got != len(test.errs) {
			t.Errorf("%s: start %d, %v; want start %d, %v", name, got, err, len(test.errs), test.want)
		}
	}
}
