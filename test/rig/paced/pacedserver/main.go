// Command pacedserver is the paced engine as a program: a look-alike of llama-server that takes as long as a fleet's table says.
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"tandem/test/rig/paced"
	"tandem/test/rig/paced/fleet"
	"tandem/test/rig/serve"
)

func main() { serve.Main("pacedserver", define) }

func define(flags *flag.FlagSet) serve.Start {
	var o paced.Options
	file := flags.String("fleet", "", "`file` of test/fleets")
	dir := flags.String("slot-save-path", "", "`folder` of the states, and of the model file; it must be there")
	flags.StringVar(&o.Machine, "machine", "", "`name` of a machine of the fleet")
	flags.Float64Var(&o.TimeScale, "time-scale", 1, "`factor` of all durations")
	flags.Float64Var(&o.SizeScale, "size-scale", 1, "`factor` of the bytes of states; how long they take stays as it is")
	flags.BoolVar(&o.Slower, "slower", false, "as much slower as the fleet says that the machine has become; also POST /paced {\"slower\": 3}")
	flags.IntVar(&o.Context, "ctx-size", 65536, "`tokens` of each slot")
	return func(_ context.Context, listen string) (string, func(), error) {
		var err error
		if o.Fleet, err = fleet.Read(*file); err != nil {
			return "", nil, err
		}
		if o.Dir, err = filepath.Abs(*dir); err != nil {
			return "", nil, fmt.Errorf("find folder of states: %w", err)
		}
		runtime.GOMAXPROCS(1)    // many of these run beside what is measured,
		debug.SetGCPercent(1000) // and their few megabytes need no thrift
		s, err := paced.Start(listen, o)
		if err != nil {
			return "", nil, err
		}
		return s.URL(), s.Close, nil
	}
}
