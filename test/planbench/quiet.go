package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	lookEvery = 5 * time.Millisecond
	// tooLate is when figures are worth little: an engine makes up for being woken late, but the programs under test do not.
	tooLate = 5 * time.Millisecond
)

// watchLateness measures, until stop is called, how late this machine wakes up whoever sleeps: what else runs on it shows there. stop returns what one
// in a hundred exceeded.
func watchLateness() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	var late []time.Duration
	watching.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			<-time.After(lookEvery)
			late = append(late, time.Since(began)-lookEvery)
		}
	})
	return func() time.Duration {
		cancel()
		watching.Wait()
		return percentile(late, 0.99)
	}
}

// percentile is the value that a share of the list does not exceed; 0 of an empty one.
func percentile(list []time.Duration, share float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, int(share*float64(len(list))))]
}
