package main

import (
	"bytes"
	"strings"
	"testing"

	"tandem/test/rig"
)

// TestClusterStorm is the storm on three NATS servers in small: a leader and a node are lost, and come back.
func TestClusterStorm(t *testing.T) {
	t.Parallel()
	var verdict bytes.Buffer
	err := storm{"three nodes of NATS", rig.NewPlan(11, rig.ClusterStorm(0.05)), rig.ClusterSystem}.run(t.Context(), t.TempDir(), programs, &verdict, t.Output())
	t.Log(verdict.String())
	if err != nil {
		t.Error(err)
	}
}

// TestRecovery measures once what takes least time. Whether a goal is met is not asked: this machine may be busy.
func TestRecovery(t *testing.T) {
	o := options{dir: t.TempDir(), rounds: 1, measures: []string{"drain", "abort"}}
	var table bytes.Buffer
	if err := recovery(t.Context(), o, programs, &table, t.Output()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(table.String(), "told to end"); n != 2 {
		t.Errorf("%d of 2 measures are in the table:\n%s", n, table.String())
	}
}
