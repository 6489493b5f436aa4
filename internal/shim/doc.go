// Package shim is what Ollama starts in llama-server's place: a program that adds a slot folder to the
// arguments, records where the server listens, and becomes the real one. Without it the KV cache inside
// an Ollama cannot be reached.
package shim
