// Command clock tells how far its wall clock has moved since it began, and whether something else moved with it. It runs
// until it is ended, at most a minute.
package main

import (
	"context"
	"fmt"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	for last := time.Duration(-1); ; {
		now := time.Now()
		wall := now.Round(0).Sub(begin.Round(0)) // Round strips the monotonic part
		if moved := (wall - now.Sub(begin)).Round(time.Second); moved != last {
			fmt.Println("moved", moved)
			last = moved
		}
		if d := time.Since(begin); d < 0 || d > 2*time.Minute {
			fmt.Println("a duration moved:", d)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			fmt.Println("the minute is over after", time.Since(begin))
			return
		}
	}
}
