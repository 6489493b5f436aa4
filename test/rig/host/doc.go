// Package host builds the real programs, runs them as processes, and does to them what happens to processes: they are
// killed, told to end, stopped and continued, and their clocks jump.
//
// It needs a Unix and, for building, the go command with this module as its main one.
package host
