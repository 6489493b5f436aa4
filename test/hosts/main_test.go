// Package hosts shows Tandem on four hosts of a network, with what happens to networks: the programs run as on the machines that they are
// made for, each with its own address, and the cables between them fail.
//
// The engines are real llama-servers with a small model, which hand over their KV states. The hosts are network namespaces of this
// machine (see test/rig/netns); a machine that cannot have them skips the test and says why.
package hosts

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
