package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// pick returns those of all that have one of the names, or all if none is given. A name that nothing has is an error.
func pick[T any](what string, all []T, nameOf func(T) string, names []string) ([]T, error) {
	var known []string
	for _, each := range all {
		known = append(known, nameOf(each))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no %s is named %q; there are %s", what, name, strings.Join(known, "; "))
		}
	}
	return slices.DeleteFunc(all, func(each T) bool { return len(names) > 0 && !slices.Contains(names, nameOf(each)) }), nil
}

// inTurns does something with each, three at a time: they mostly wait for what a struck worker held to be delivered again.
func inTurns[T any](list []T, do func(i int, each T)) {
	turns := make(chan struct{}, 3)
	var wg sync.WaitGroup
	for i, each := range list {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			do(i, each)
		})
	}
	wg.Wait()
}
