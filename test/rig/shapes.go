package rig

import (
	"math"
	"time"

	"tandem/test/rig/host"
)

// NoopStorm is the storm for volume: a share of 1 has 10,000 jobs on no-op engines.
func NoopStorm(share float64) Shape {
	n := scale(share)
	return Shape{
		Auto: true,
		Jobs: n(10_000, 200), Models: []string{"qwen3-coder:30b", "gpt-oss:120b"}, BatchSize: n(250, 50), Callers: 6,
		Kills: n(224, 22), EngineKills: n(20, 2), NATSKills: n(24, 2), CallerKills: n(20, 2), Freezes: n(24, 4), Stuns: n(18, 3), Wires: n(36, 6), Spoilt: []string{WorkerWire, EngineWire, CallerWire}, BadAnswers: n(72, 9),
		Cancels: n(100, 6), Expiring: n(100, 10), Singles: n(60, 4),
		PromptWords: [2]int{5, 60}, Tokens: [2]int{1, 24},
	}
}

// RealStorm is the storm on real engines with tiny models, KV states handed over: a share of 1 has 310 jobs. Fewer than 60 are at times all done by the decode
// side before the prefill workers see their engines again.
func RealStorm(share float64) Shape {
	n := scale(share)
	return Shape{
		Auto: true,
		Jobs: n(310, 60), Models: []string{"qwen3-coder:30b", "llama3:8b"}, BatchSize: n(40, 8), Callers: 3,
		Kills: n(32, 3), Transfers: n(12, 4), EngineKills: n(12, 2), NATSKills: n(2, 1), CallerKills: n(3, 1), Freezes: n(4, 1), Stuns: n(6, 3), Wires: n(24, 4), Spoilt: []string{WorkerWire, EngineWire, CallerWire, StateWire}, BadAnswers: n(9, 1),
		Cancels: n(6, 1), Expiring: 0, Singles: n(6, 1),
		PromptWords: [2]int{30, 250}, Tokens: [2]int{4, 24},
	}
}

// ClusterStorm is the storm on three servers of NATS of which one, or two at a time, are lost: a share of 1 has 300 jobs on no-op engines.
func ClusterStorm(share float64) Shape {
	n := scale(share)
	return Shape{
		Auto: true,
		Jobs: n(300, 40), Models: NoopStorm(0).Models[:1], BatchSize: n(40, 10), Callers: 4,
		Kills: n(10, 2), NATSKills: n(10, 2), Quorums: n(2, 0), CallerKills: n(2, 0), Freezes: n(2, 0), Stuns: n(6, 0), Wires: n(18, 3), Spoilt: []string{RouteWire, WorkerWire, CallerWire},
		Cancels: n(8, 1), Expiring: n(10, 0), Singles: n(10, 2),
		Away:        [2]time.Duration{time.Second, 5 * time.Second},
		PromptWords: [2]int{5, 60}, Tokens: [2]int{1, 24},
	}
}

// PowerStorm is the storm on a NATS server whose machine loses power: a share of 1 has 300 jobs on no-op engines and 10 cuts.
func PowerStorm(share float64) Shape {
	n := scale(share)
	return Shape{
		Auto: true,
		Jobs: n(300, 40), Models: NoopStorm(0).Models[:1], BatchSize: n(40, 10), Callers: 4,
		Kills: n(6, 2), PowerCuts: n(10, 2), CallerKills: n(2, 0), Cancels: n(8, 1), Singles: n(10, 2),
		PromptWords: [2]int{5, 60}, Tokens: [2]int{1, 24},
	}
}

// scale takes a share of a number, of which there are at least so many.
func scale(share float64) func(n, atLeast int) int {
	return func(n, atLeast int) int { return max(atLeast, int(math.Round(share*float64(n)))) }
}

// NoopSystem is the system of a [NoopStorm].
func NoopSystem(dir string, p *host.Programs) Options {
	return Options{Dir: dir, Programs: p, Models: NoopStorm(0).Models, Each: 2, Nodes: 1, Slots: 2, NumCtx: 4096}
}

// ClusterSystem is the system of a [ClusterStorm].
func ClusterSystem(dir string, p *host.Programs) Options {
	o := NoopSystem(dir, p)
	o.Nodes, o.Models, o.PerToken = 3, ClusterStorm(0).Models, 10*time.Millisecond // so that there is work for as long as nodes are lost
	return o
}

// PowerSystem is the system of a [PowerStorm]. It needs what [power.Possible] asks for.
func PowerSystem(dir string, p *host.Programs) Options {
	o := NoopSystem(dir, p)
	o.Disk, o.Models, o.PerToken = true, PowerStorm(0).Models, time.Millisecond
	return o
}

// RealSystem is the system of a [RealStorm]: an Ollama on both sides for the first model, a llama-server on both for the second.
func RealSystem(dir string, p *host.Programs) Options {
	return Options{Dir: dir, Programs: p, Models: RealStorm(0).Models, Each: 1, Nodes: 1, Real: true, Slots: 2, NumCtx: 4096}
}
