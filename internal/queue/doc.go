// Package queue carries jobs over NATS JetStream: the streams and consumers, the client that submits
// and awaits, the workers' loop, presence, cancelling and dead letters. It is the only package that
// knows NATS, and it knows no engine.
//
// It guarantees that an accepted job is stored once, that it ends in exactly one result however often
// it is delivered, and that nothing leaves the streams silently: a job that cannot be done becomes a
// dead letter and a failed result. Text of prompts and answers is never logged and never part of an error.
package queue
