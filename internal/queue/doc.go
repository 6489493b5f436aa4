// Package queue carries jobs over NATS JetStream: the streams and consumers, the client that submits and awaits, the workers' loop, membership, control and
// dead letters. It is the only package that knows NATS, and it knows no engine.
//
// It guarantees that an accepted job is stored once, that it ends in exactly one result however often it is delivered, and that nothing leaves the streams silently: a job
// that cannot be done becomes a dead letter and a failed result. Text of prompts and answers is never logged and never part of an error.
//
// Its files are named by the step of a job's way that they hold: submit_ puts a job into the intake, fetch_ decides which job a worker gets and when, run_ keeps a delivery while a
// stage runs it, settle_ publishes what came of it and acknowledges, await_ brings the result to the caller. Apart from the way: membership_ is who lives, control_ the service that looks jobs up
// and ends them, topology_ the streams and consumers, conn_ the connection.
package queue
