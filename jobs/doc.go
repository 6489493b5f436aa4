// Package jobs has the records that travel through the queue: a [Job] that a program submits, the [Result] that it gets, each [Chunk] of text on the
// way, the [Handover] between two workers, and the [Error] codes that say what went wrong. Their JSON is what docs/PROTOCOL.md describes and
// docs/schemas holds as JSON schemas. Package tandem/client submits them and awaits their results.
//
// A job needs a model, a prompt or messages, and whoever submits it; the client fills in the rest:
//
//	job := &jobs.Job{Model: "gpt-oss:120b", Prompt: "What does this function do? …"}
//	job.Options.NumPredict = &limit // tokens to generate at most
//	job.Stream = true               // publish the text while it is generated
//
// Records are strict. One that was decoded is valid; a field that is wrong is an error of code [CodeInvalid] that names it, its value and the remedy.
// Fields that a newer version added are kept in Extra, so that they survive a hop through an older one. Every name that ends up in a NATS subject is
// written there by [EncodeToken].
//
// The package imports the standard library and uuid only.
package jobs

//go:generate go run ./schemagen ../docs/schemas
